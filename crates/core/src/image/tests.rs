//! Section 8.1.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const HEX: &str = "7cc4b5aefd1d0cadf8d97d4350462ba51c694ebca145b08d7d41b41acc8db5aa";

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&match ImageName::parse(text) {
        Ok(name) => format!("{} | {}", name.with_tag(), name.repository()),
        Err(err) => invalid_name(&err),
    });
}

/// IMG-01; upstream: pkg/util/parsers/parsers_test.go, images/image_manager_test.go TestApplyDefaultImageTag (v1.36)
#[test]
fn img_01_a_tag_is_added_and_nothing_else() {
    check("busybox", &expect!["busybox:latest | docker.io/library/busybox"]);
    check("busybox:1.36", &expect!["busybox:1.36 | docker.io/library/busybox"]);
    check("foo/bar", &expect!["foo/bar:latest | docker.io/foo/bar"]);
    check("docker.io/busybox", &expect!["docker.io/busybox:latest | docker.io/library/busybox"]);
    check("index.docker.io/busybox", &expect!["index.docker.io/busybox:latest | docker.io/library/busybox"]);
    check("localhost/x/y", &expect!["localhost/x/y:latest | localhost/x/y"]);
    check("localhost:5000/x", &expect!["localhost:5000/x:latest | localhost:5000/x"]);
    check("[::1]:5000/x:t", &expect!["[::1]:5000/x:t | [::1]:5000/x"]);
    check("Registry/x", &expect!["Registry/x:latest | Registry/x"]);
    check(
        "registry.example.com/a/b__c/d---e.f:v1",
        &expect!["registry.example.com/a/b__c/d---e.f:v1 | registry.example.com/a/b__c/d---e.f"],
    );
    let digest = format!("busybox@sha256:{HEX}");
    assert_eq!(ImageName::parse(&digest).expect("a name").with_tag(), digest);
    let both = format!("busybox:1@sha256:{HEX}");
    assert_eq!(ImageName::parse(&both).expect("a name").with_tag(), both);
}

#[test]
fn img_01_what_is_no_name() {
    check(
        "",
        &expect![[r#"Failed to apply default image tag "": couldn't parse image name "": invalid reference format"#]],
    );
    check(
        "Foo",
        &expect![[
            r#"Failed to apply default image tag "Foo": couldn't parse image name "Foo": invalid reference format: repository name (library/Foo) must be lowercase"#
        ]],
    );
    check(
        "a b",
        &expect![[
            r#"Failed to apply default image tag "a b": couldn't parse image name "a b": invalid reference format"#
        ]],
    );
    check(
        "busybox@sha256:1234",
        &expect![[
            r#"Failed to apply default image tag "busybox@sha256:1234": couldn't parse image name "busybox@sha256:1234": invalid reference format"#
        ]],
    );
    check(
        HEX,
        &expect![[
            r#"Failed to apply default image tag "7cc4b5aefd1d0cadf8d97d4350462ba51c694ebca145b08d7d41b41acc8db5aa": couldn't parse image name "7cc4b5aefd1d0cadf8d97d4350462ba51c694ebca145b08d7d41b41acc8db5aa": invalid repository name (7cc4b5aefd1d0cadf8d97d4350462ba51c694ebca145b08d7d41b41acc8db5aa), cannot specify 64-byte hexadecimal strings"#
        ]],
    );
    for text in
        ["a:", "a:-x", "a/", "/a", "a//b", "a_-b", "a...b", "-a", "a:b:c", "a@b", "x.y:z/a", ":5000/a", "a___b", "ü"]
    {
        assert!(ImageName::parse(text).is_err(), "{text}");
    }
    let why = |text: String| ImageName::parse(&text).expect_err("refused").to_string();
    assert!(why(format!("a@sha256:{}", "A".repeat(64))).ends_with("invalid checksum digest format"));
    assert!(why(format!("a@sha256:{}", "a".repeat(40))).ends_with("invalid checksum digest length"));
    assert!(why(format!("a@md5:{}", "a".repeat(32))).ends_with("unsupported digest algorithm"));
    assert!(why(format!("x.y/{}", "a".repeat(256))).ends_with("repository name must not be more than 255 characters"));
}

proptest! {
    #[test]
    fn reading_a_name_never_panics(text in "\\PC*") {
        let _ = ImageName::parse(&text);
    }

    #[test]
    fn a_name_with_its_tag_reads_the_same(text in "([a-z]{1,5}[.:/@_-]{0,2}){1,5}") {
        if let Ok(name) = ImageName::parse(&text) {
            let tagged = ImageName::parse(&name.with_tag()).expect("still a name");
            prop_assert_eq!(tagged.repository(), name.repository());
            prop_assert_eq!(tagged.with_tag(), name.with_tag());
        }
    }
}

#[test]
fn img_02_when_an_image_is_pulled() {
    use PullDecision::{Pull, Refuse, UsePresent};
    let rows = [
        (PullPolicy::Always, true, Pull),
        (PullPolicy::Always, false, Pull),
        (PullPolicy::IfNotPresent, true, UsePresent),
        (PullPolicy::IfNotPresent, false, Pull),
        (PullPolicy::Never, true, UsePresent),
        (PullPolicy::Never, false, Refuse),
    ];
    for (policy, present, expected) in rows {
        assert_eq!(should_pull(policy, present), expected, "{policy:?} {present}");
    }
    let policy = |value| PullPolicy::of(&serde_json::from_value(value).expect("a container"));
    assert_eq!(policy(json!({"name": "c", "image": "a"})), PullPolicy::Always);
    assert_eq!(policy(json!({"name": "c", "image": "a:latest"})), PullPolicy::Always);
    assert_eq!(policy(json!({"name": "c", "image": "a:1"})), PullPolicy::IfNotPresent);
    assert_eq!(policy(json!({"name": "c", "image": format!("a@sha256:{HEX}")})), PullPolicy::IfNotPresent);
    for image in ["a", "a:1"] {
        for given in [PullPolicy::Always, PullPolicy::IfNotPresent, PullPolicy::Never] {
            let container = json!({"name": "c", "image": image, "imagePullPolicy": given.as_str()});
            assert_eq!(policy(container), given, "{image}");
        }
    }
    assert!(PullPolicy::IfNotPresent.asks_presence());
    assert!(!PullPolicy::Always.asks_presence() && PullPolicy::Never.asks_presence());
}

// upstream: v1/defaults_test.go TestSetDefaultPodSpec (v1.36)
#[test]
fn only_the_tag_latest_is_pulled_at_each_start_by_default() {
    let (digest, tagged) = (format!("nginx@sha256:{HEX}"), format!("nginx:latest@sha256:{HEX}"));
    let long = format!("registry.example:443/{}", "a".repeat(255));
    for (image, expected) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("localhost:5000/nginx", "Always"),
        ("localhost:5000/a/b:v1", "IfNotPresent"),
        (digest.as_str(), "IfNotPresent"),
        (tagged.as_str(), "Always"),
        ("HOST/nginx", "Always"),
        // The length of the path counts, not that of the registry.
        (long.as_str(), "Always"),
        ("Nginx", "IfNotPresent"),
        ("a//b", "IfNotPresent"),
        ("", "IfNotPresent"),
        (HEX, "IfNotPresent"),
    ] {
        assert_eq!(PullPolicy::by_default(image).as_str(), expected, "{image:?}");
    }
    assert_eq!(PullPolicy::Never.as_str(), "Never");
}

#[test]
fn a_name_has_its_repository_tag_and_digest() {
    let digest = format!("sha256:{HEX}");
    for (text, tag, of_digest) in [
        ("a".to_owned(), None, None),
        ("a:1".to_owned(), Some("1"), None),
        (format!("a@{digest}"), None, Some(digest.as_str())),
        (format!("x.y:5000/a:1@{digest}"), Some("1"), Some(digest.as_str())),
    ] {
        let name = ImageName::parse(&text).expect("a name");
        assert_eq!((name.tag(), name.digest()), (tag, of_digest), "{text}");
    }
}

// upstream: distribution/reference regexp.go (v0.6.0)
#[test]
fn the_grammar_of_names_at_its_edges() {
    let path = |len: usize| format!("x.y/{}", "a".repeat(len));
    let of_hub = |len: usize| "a".repeat(len);
    let tag = |len: usize| format!("a:{}", "t".repeat(len));
    let digest = |algorithm: &str, len: usize| format!("a@{algorithm}:{}", "0".repeat(len));
    let rows = [
        (path(255), true),
        (path(256), false),
        // With `library/` before it.
        (of_hub(247), true),
        (of_hub(248), false),
        (tag(128), true),
        (tag(129), false),
        (digest("sha256", 64), true),
        (digest("sha256", 65), false),
        (digest("sha384", 96), true),
        (digest("sha384", 64), false),
        (digest("sha512", 128), true),
        (digest("sha512", 96), false),
        (digest("sha1", 40), false),
    ];
    for (text, valid) in rows {
        assert_eq!(ImageName::parse(&text).is_ok(), valid, "{text}");
    }
    for (host, valid) in [
        ("x.y", true),
        ("x-1.y", true),
        ("X.y", true),
        ("x.y:5000", true),
        ("x.y:", false),
        ("x.y:50a0", false),
        ("-x.y", false),
        ("x-.y", false),
        ("x.y-", false),
        ("x..y", false),
        ("x.y.", false),
        ("x_1.y", false),
        ("[::1]", true),
        ("[fd00::A]:5000", true),
        ("[::1]5000", false),
        ("[::1]:", false),
        ("[::1]:x", false),
        ("[]:5000", false),
        ("[::g]:5000", false),
        ("[::1", false),
    ] {
        assert_eq!(ImageName::parse(&format!("{host}/a")).is_ok(), valid, "{host}");
    }
}

#[test]
fn img_03_img_04_messages_of_events_and_statuses() {
    let millis = Duration::from_millis;
    let lines = [
        pulling("x"),
        pulled("x", millis(1234), millis(62_500), 99),
        pulled("x", millis(0), Duration::from_micros(250_999), 1),
        pulled("x", millis(60_000), millis(3_600_000), 1),
        already_present("x"),
        pull_failed("x", "no such host"),
        back_off("x", None),
        back_off("x", Some((WaitingReason::ErrImagePull, "no such host"))),
        never_pulled("x"),
        inspect_failed("x", "oops"),
    ];
    expect![[r#"
        Pulling image "x"
        Successfully pulled image "x" in 1.234s (1m2.5s including waiting). Image size: 99 bytes.
        Successfully pulled image "x" in 0s (250ms including waiting). Image size: 1 bytes.
        Successfully pulled image "x" in 1m0s (1h0m0s including waiting). Image size: 1 bytes.
        Container image "x" already present on machine
        Failed to pull image "x": no such host
        Back-off pulling image "x"
        Back-off pulling image "x": ErrImagePull: no such host
        Container image "x" is not present with pull policy of Never
        Failed to inspect image "x": oops"#]]
    .assert_eq(&lines.join("\n"));
    assert_eq!(pull_failure("x", "oops"), (WaitingReason::ErrImagePull, "oops".to_owned()));
    assert_eq!(
        pull_failure("x", "RegistryUnavailable: down"),
        (
            WaitingReason::RegistryUnavailable,
            "image pull failed for x because the registry is unavailable: down".to_owned()
        )
    );
    assert_eq!(
        pull_failure("x", "SignatureValidationFailed: bad"),
        (
            WaitingReason::SignatureValidationFailed,
            "image pull failed for x because the signature validation failed: bad".to_owned()
        )
    );
}
