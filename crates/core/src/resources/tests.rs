//! Quantities and sums, checked against upstream's rules.

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A pod from its spec, named `web` in namespace `default`.
pub(crate) fn pod(spec: Value) -> Pod {
    let metadata = json!({"name": "web", "namespace": "default", "uid": "12345678-1234"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a pod")
}

/// upstream: apimachinery/pkg/api/resource/quantity_test.go (v1.36): suffixes, exponents, rounding up.
#[test]
fn quantities_are_read_as_go_reads_them() {
    let rows: [(&str, i64, i64); 30] = [
        ("0", 0, 0),
        ("1", 1, 1000),
        ("100m", 1, 100),
        ("1500m", 2, 1500),
        ("0.5", 1, 500),
        (".5", 1, 500),
        (".", 0, 0),
        ("-", 0, 0),
        ("Mi", 0, 0),
        ("e3", 0, 0),
        ("1e+3", 1000, 1_000_000),
        ("5.", 5, 5000),
        ("+3", 3, 3000),
        ("-1500m", -2, -1500),
        ("1k", 1000, 1_000_000),
        ("1Ki", 1024, 1_024_000),
        ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
        ("0.1Ki", 103, 102_400),
        ("2M", 2_000_000, 2_000_000_000),
        ("1T", 1_000_000_000_000, 1_000_000_000_000_000),
        ("1E", 1_000_000_000_000_000_000, i64::MAX),
        ("1e3", 1000, 1_000_000),
        ("1E3", 1000, 1_000_000),
        ("12e-1", 2, 1200),
        ("1n", 1, 1),
        ("1u", 1, 1),
        ("1.0000000001", 2, 1001),
        ("0.0000000001Ki", 1, 1),
        ("100E", i64::MAX, i64::MAX),
        ("99999999999999999999999999999999999999999999", i64::MAX, i64::MAX),
    ];
    for (text, value, millis) in rows {
        let amount = Amount::parse(text).expect(text);
        assert_eq!((amount.value(), amount.millis()), (value, millis), "{text}");
    }
}

/// The exact amount, written in the coarsest unit that holds it; what is finer than a billionth is rounded up.
#[test]
fn quantities_are_exact_to_a_billionth() {
    for (text, written) in [
        ("0", "0"),
        ("1500m", "1500m"),
        ("2000m", "2"),
        ("1.000001", "1000001u"),
        ("1.000000001", "1000000001n"),
        ("-1.000000001", "-1000000001n"),
        ("1.0000000001", "1000000001n"),
        ("-1.0000000001", "-1000000001n"),
        ("1e-9", "1n"),
        ("1e-10", "1n"),
        ("10e-10", "1n"),
        ("15e-10", "2n"),
        ("0e-10", "0"),
        ("0e99999", "0"),
        ("0.25Ki", "256"),
        ("1.75Ki", "1792"),
        ("0.123Ki", "125952m"),
        ("0.123456789Ki", "126419751936n"),
        ("0.0000000001Ki", "103n"),
        ("0.00000000001Ki", "11n"),
        ("0.999Mi", "1047527424m"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775807.5", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775807"),
        ("7Ei", "8070450532247928832"),
        ("8Ei", "9223372036854775807"),
        ("1P", "1000000000000000"),
        ("1G", "1000000000"),
        ("1Mi", "1048576"),
        ("1Ti", "1099511627776"),
        ("1Pi", "1125899906842624"),
    ] {
        assert_eq!(Amount::parse(text).expect(text).to_string(), written, "{text}");
    }
}

#[test]
fn amounts_add_up_and_know_their_sign() {
    let (one, half) = (Amount::units(1), Amount::from_millis(500));
    assert_eq!((one + half).to_string(), "1500m");
    assert_eq!((half - one).to_string(), "-500m");
    for (amount, zero, positive) in [(half - one, false, false), (Amount::ZERO, true, false), (half, false, true)] {
        assert_eq!((amount.is_zero(), amount.is_positive()), (zero, positive), "{amount}");
        assert_eq!(amount.not_negative(), if positive { amount } else { Amount::ZERO }, "{amount}");
    }
    let most = Amount::units(i64::MAX);
    assert_eq!(((most + one).value(), (most + one).millis()), (i64::MAX, i64::MAX));
    let least = Amount::ZERO - most - one - one;
    assert_eq!((least.value(), least.millis()), (i64::MIN, i64::MIN));
    assert_eq!(Amount::of(&Quantity("2k".to_owned())), Amount::units(2000));
    assert_eq!(Amount::of(&Quantity("two".to_owned())), Amount::ZERO);
    assert_eq!(Quantity::from(half), Quantity("500m".to_owned()));
}

#[test]
fn what_is_no_quantity_is_refused() {
    for text in ["", "1.2.3", "1mi", "1e", "e", "1KI", "1 Mi", " 1", "1e1.5", "0x10", "١"] {
        assert!(Amount::parse(text).is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn reading_a_quantity_never_panics(text in "\\PC*") {
        let _ = Amount::parse(&text);
    }

    #[test]
    fn reading_something_like_a_quantity_never_panics(text in "[-+]?[0-9]{0,50}[.]?[0-9]{0,50}(|n|u|m|k|M|Ki|Ei|E|e-?[0-9]{1,9})") {
        let _ = Amount::parse(&text);
    }

    /// Two readers for two needs: this one adds and compares, the manifest's keeps how a number was written. They must
    /// agree on what a number is.
    #[test]
    fn the_manifests_reader_agrees(text in "[-+]?[0-9]{0,6}([.][0-9]{0,12})?(|n|u|m|k|M|G|Ki|Mi|Ti|x|e-?[0-9])") {
        // What does not fit 64 bits is cut at either end; which of the two least numbers that gives is no matter.
        let cut = |value: i64| value.max(-i64::MAX);
        let theirs = text.parse::<crate::manifest::quantity::Quantity>().ok();
        let theirs = theirs.map(|q| (cut(q.value()), cut(q.milli_value())));
        let ours = Amount::parse(&text).ok().map(|a| (cut(a.value()), cut(a.millis())));
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn a_written_quantity_reads_the_same(whole in any::<i64>(), fraction in 0_u32..1_000_000_000) {
        let whole = whole / 4;
        let amount = Amount::parse(&format!("{whole}.{fraction:09}")).expect("a number");
        prop_assert_eq!(Amount::parse(&amount.to_string()), Ok(amount));
    }

    #[test]
    fn value_rounds_away_from_zero(nanos in any::<i64>()) {
        let amount = Amount::parse(&format!("{nanos}n")).expect("a number");
        let value = i128::from(amount.value()) * 1_000_000_000;
        prop_assert!(value.abs() >= i128::from(nanos).abs() && (value.abs() - i128::from(nanos).abs()) < 1_000_000_000);
    }
}

#[test]
fn huge_page_names_and_units() {
    let rows = [("hugepages-2Mi", "2MB"), ("hugepages-1Gi", "1GB"), ("hugepages-64Ki", "64KB")];
    for (name, unit) in rows {
        assert_eq!(hugepage_unit(hugepage_size(name).expect(name)), unit);
    }
    assert_eq!(hugepage_size("memory"), None);
    assert_eq!(hugepage_size("hugepages-x"), None);
}

fn check(spec: Value, expected: &Expect) {
    let pod = pod(spec);
    let text = |list: Amounts| list.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ");
    let limits = text(pod_limits(&pod));
    expected.assert_eq(&format!("requests {}\nlimits   {limits}", text(pod_requests(&pod))));
}

fn container(cpu: &str, memory: &str) -> Value {
    json!({"name": "c", "resources": {
        "requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}})
}

fn sidecar(cpu: &str, memory: &str) -> Value {
    let mut sidecar = container(cpu, memory);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

/// upstream: component-helpers/resource/helpers_test.go (v1.36); CG-11: init by the max rule, sidecars and overhead added.
#[test]
fn a_pod_asks_for_its_greatest_moment() {
    check(
        json!({"containers": [container("100m", "10"), container("200m", "20")]}),
        &expect![[r#"
            requests cpu=300m memory=30
            limits   cpu=300m memory=30"#]],
    );
    check(
        json!({"containers": [container("100m", "10")], "initContainers": [container("1", "5"), container("2", "1")]}),
        &expect![[r#"
            requests cpu=2 memory=10
            limits   cpu=2 memory=10"#]],
    );
    // The second init container runs beside the sidecar, the third beside both.
    check(
        json!({"containers": [container("100m", "10")], "initContainers":
            [container("300m", "1"), sidecar("200m", "5"), container("1", "1"), sidecar("50m", "1")]}),
        &expect![[r#"
            requests cpu=1200m memory=16
            limits   cpu=1200m memory=16"#]],
    );
    check(
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "7"}}}],
            "overhead": {"cpu": "250m", "memory": "3"}}),
        &expect![[r#"
            requests cpu=1250m memory=3
            limits   memory=10"#]],
    );
    check(
        json!({"containers": [container("100m", "10")],
            "resources": {"requests": {"cpu": "2", "example.com/gpu": "1"}, "limits": {"memory": "99"}}}),
        &expect![[r#"
            requests cpu=2 memory=10
            limits   cpu=100m memory=99"#]],
    );
}

#[test]
fn pod_level_resources_are_cpu_memory_and_huge_pages() {
    for (resources, any, requests) in [
        (json!(null), false, false),
        (json!({}), false, false),
        (json!({"requests": {"cpu": "1"}}), true, true),
        (json!({"requests": {"hugepages-2Mi": "2Mi"}}), true, true),
        (json!({"limits": {"memory": "1Gi"}}), true, false),
        (json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}), false, false),
    ] {
        let pod = pod(json!({"containers": [], "resources": resources}));
        assert_eq!((has_pod_level_resources(&pod), has_pod_level_requests(&pod)), (any, requests), "{resources}");
    }
}
