//! HN-01, HN-02; upstream: kubelet_pods_test.go TestGeneratePodHostNameAndDomain (v1.36)

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::resources::tests::pod;

fn check(name: &str, spec: Value, expected: &Expect) {
    let mut whole = json!({"containers": []});
    whole.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    let mut pod = pod(whole);
    pod.metadata.name = Some(name.to_owned());
    let made = pod_hostname(&pod, "cluster.local", true);
    let text = match made.and_then(|name| Ok((kernel_hostname(&pod, &name)?, name))) {
        Ok((kernel, name)) => format!("{} | {} | {kernel}", name.host, name.domain),
        Err(err) => err.to_string(),
    };
    expected.assert_eq(&text);
}

#[test]
fn hn_01_hostname_and_domain() {
    check("web", json!({}), &expect!["web |  | web"]);
    check("web", json!({"hostname": "db"}), &expect!["db |  | db"]);
    check("web", json!({"subdomain": "sub"}), &expect!["web | sub.default.svc.cluster.local | web"]);
    check(
        "web",
        json!({"hostname": "db", "subdomain": "sub", "setHostnameAsFQDN": true}),
        &expect!["db | sub.default.svc.cluster.local | db.sub.default.svc.cluster.local"],
    );
    check("web", json!({"setHostnameAsFQDN": true}), &expect!["web |  | web"]);
    let long = format!("{}-.{}", "a".repeat(61), "b".repeat(9));
    check(
        &long,
        json!({}),
        &expect![
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa |  | aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        ],
    );
    check(
        &"-".repeat(70),
        json!({}),
        &expect![[
            r#"hostname for pod "----------------------------------------------------------------------" was invalid: "----------------------------------------------------------------------""#
        ]],
    );
}

#[test]
fn hn_01_names_that_are_none() {
    check(
        "web",
        json!({"hostname": "Db_1"}),
        &expect![[
            r#"pod Hostname "Db_1" is not a valid DNS label: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#
        ]],
    );
    check(
        "web",
        json!({"subdomain": "a.b"}),
        &expect![[r#"pod Subdomain "a.b" is not a valid DNS label: must not contain dots"#]],
    );
}

#[test]
fn hn_01_a_full_name_too_long_for_the_kernel() {
    check(
        "web",
        json!({"subdomain": "a-subdomain-that-is-longer-than-it-should-be", "setHostnameAsFQDN": true}),
        &expect![
            "failed to construct FQDN from pod hostname and cluster domain, FQDN web.a-subdomain-that-is-longer-than-it-should-be.default.svc.cluster.local is too long (64 characters is the max, 74 characters requested)"
        ],
    );
}

#[test]
fn hn_02_an_override_is_taken_as_it_is() {
    check("web", json!({"hostnameOverride": "my.host", "subdomain": "sub"}), &expect!["my.host |  | my.host"]);
    check(
        "web",
        json!({"hostnameOverride": "my..host"}),
        &expect![[
            r#"pod HostnameOverride "my..host" is not a valid DNS subdomain: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#
        ]],
    );
    let overridden = pod(json!({"containers": [], "hostnameOverride": "my.host"}));
    assert_eq!(pod_hostname(&overridden, "cluster.local", false).expect("a name").host, "web");
}

#[test]
fn hn_01_the_longest_names_are_names() {
    let long = |len: usize| "a".repeat(len);
    let valid = |value: &str, kind| super::check("hostname", value, kind).is_ok();
    assert!(valid(&long(63), Kind::Label) && !valid(&long(64), Kind::Label));
    assert!(valid(&long(253), Kind::Subdomain) && !valid(&long(254), Kind::Subdomain));
    for (text, label) in
        [("a", true), ("a-1", true), ("-a", false), ("a-", false), ("a_b", false), ("A", false), ("", false)]
    {
        assert_eq!(is_label(text), label, "{text:?}");
    }
    let fqdn = |len: usize| {
        let pod: Pod =
            serde_json::from_value(json!({"spec": {"containers": [], "setHostnameAsFQDN": true}})).expect("a pod");
        kernel_hostname(&pod, &Hostname { host: "h".into(), domain: long(len - 2) })
    };
    assert_eq!(fqdn(MAX_KERNEL_NAME).map(|name| name.len()), Ok(MAX_KERNEL_NAME));
    assert!(fqdn(MAX_KERNEL_NAME + 1).is_err());
}
