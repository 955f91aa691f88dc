//! HN-01 at its limits. The rest is in `tests/golden/decision/hosts.yaml`.

use serde_json::json;

use super::*;

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
