//! DNS-05, where a case of `tests/golden/decision/dns.yaml` would be long.

use serde_json::json;

use super::*;
use crate::resources::tests::pod;

// upstream: network/dns/dns_test.go TestFormDNSSearchFitsLimits (v1.36)
#[test]
fn dns_05_limits_of_searches() {
    let searched = |searches: Vec<String>| {
        let pod = pod(json!({"containers": [], "dnsPolicy": "None", "dnsConfig": {"searches": searches}}));
        let view = DnsView { cluster_dns: &[], cluster_domain: "", resolv_conf: Some(""), node_ips: &[] };
        let dns = pod_dns(&pod, &view).expect("an answer");
        (dns.config.searches.len(), dns.config.searches.join(" ").len(), dns.warnings.len())
    };
    let many = |count: usize, length: usize| (0..count).map(|i| format!("{i:0>length$}")).collect::<Vec<_>>();
    assert_eq!(searched(many(32, 5)), (32, 191, 0));
    assert_eq!(searched(many(33, 5)), (32, 191, 1));
    assert_eq!(searched(many(3, 254)), (0, 0, 1));
    assert_eq!(searched(many(8, 253)), (8, 2031, 0));
    assert_eq!(searched(many(9, 253)), (8, 2031, 1));
}

// DNS-04
#[test]
fn options_stay_in_the_order_of_their_definition() {
    let own = json!({"options": [{"name": "ndots", "value": "9"}, {"name": "edns0"}]});
    let pod = pod(json!({"containers": [], "dnsPolicy": "Default", "dnsConfig": own}));
    let resolv_conf = Some("options timeout:1 ndots:2 rotate\n");
    let view = DnsView { cluster_dns: &[], cluster_domain: "", resolv_conf, node_ips: &[] };
    let made = pod_dns(&pod, &view).expect("an answer");
    assert_eq!(made.config.options, ["timeout:1", "ndots:9", "rotate", "edns0"]);
}

#[test]
fn a_comment_in_the_nodes_file_says_nothing() {
    let config =
        parse_resolv_conf("# nameserver 10.0.0.9\n#nameserver 10.0.0.8\nnameserver 10.0.0.1 # x\n").expect("a file");
    assert_eq!(config.servers, ["10.0.0.1"]);
}
