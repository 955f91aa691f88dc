//! Section 10.3; upstream: network/dns/dns_test.go (v1.36)

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::resources::tests::pod;

const RESOLV_CONF: &str = "# by hand\nnameserver 10.9.9.9\nnameserver 10.9.9.8\nsearch old\nsearch corp.example.com. . b.c\n\
                           options timeout:1 ndots:2\noptions ndots:3 rotate\nsortlist x\n";

fn ips(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|ip| ip.parse().expect("an address")).collect()
}

fn text(dns: &PodDns) -> String {
    let DnsConfig { servers, searches, options } = &dns.config;
    let mut lines = vec![
        format!("nameserver {}", servers.join(" ")),
        format!("search {}", searches.join(" ")),
        format!("options {}", options.join(" ")),
    ];
    lines.extend(dns.warnings.iter().map(|w| format!("{} {} | {:?}", w.reason, w.message, w.on_node)));
    lines.join("\n")
}

fn check(spec: Value, cluster: &[&str], resolv_conf: Option<&str>, expected: &Expect) {
    let mut whole = json!({"containers": []});
    whole.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    let (cluster_dns, node_ips) = (ips(cluster), ips(&["192.168.0.1", "fd00::1"]));
    let view = DnsView { cluster_dns: &cluster_dns, cluster_domain: "cluster.local", resolv_conf, node_ips: &node_ips };
    expected.assert_eq(&text(&pod_dns(&pod(whole), &view).expect("a readable resolv.conf")));
}

#[test]
fn dns_01_cluster_first() {
    let cluster = expect![[r#"
        nameserver 10.96.0.10
        search default.svc.cluster.local svc.cluster.local cluster.local corp.example.com b.c
        options ndots:5"#]];
    check(json!({"dnsPolicy": "ClusterFirst"}), &["10.96.0.10"], Some(RESOLV_CONF), &cluster);
    check(
        json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}),
        &["10.96.0.10"],
        Some(RESOLV_CONF),
        &cluster,
    );
    check(
        json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}),
        &["10.96.0.10"],
        Some(RESOLV_CONF),
        &expect![[r#"
        nameserver 10.9.9.9 10.9.9.8
        search corp.example.com b.c
        options timeout:1 ndots:3 rotate"#]],
    );
}

#[test]
fn dns_02_no_cluster_dns() {
    check(
        json!({"dnsPolicy": "ClusterFirst"}),
        &[],
        Some(RESOLV_CONF),
        &expect![[r#"
        nameserver 10.9.9.9 10.9.9.8
        search corp.example.com b.c
        options timeout:1 ndots:3 rotate
        MissingClusterDNS pod: "web_default(12345678-1234)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy. | Some("kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. Falling back to \"Default\" policy.")"#]],
    );
}

#[test]
fn dns_03_the_nodes_file_or_none() {
    check(
        json!({"dnsPolicy": "Default"}),
        &["10.96.0.10"],
        None,
        &expect![[r#"
        nameserver 127.0.0.1 ::1
        search .
        options "#]],
    );
    let lone = DnsView { cluster_dns: &[], cluster_domain: "", resolv_conf: None, node_ips: &[] };
    let dns = pod_dns(&pod(json!({"containers": [], "dnsPolicy": "Default"})), &lone).expect("an answer");
    assert_eq!(dns.config.servers, ["127.0.0.1"]);
    assert_eq!(parse_resolv_conf("nameserver"), Err(DnsError::EmptyNameserver));
}

#[test]
fn dns_04_what_the_pod_adds() {
    let own = json!({"nameservers": ["1.1.1.1", "10.9.9.9"], "searches": ["b.c", "x.y"],
        "options": [{"name": "ndots", "value": "9"}, {"name": "edns0"}]});
    check(
        json!({"dnsPolicy": "None", "dnsConfig": own}),
        &["10.96.0.10"],
        Some(RESOLV_CONF),
        &expect![[r#"
        nameserver 1.1.1.1 10.9.9.9
        search b.c x.y
        options ndots:9 edns0"#]],
    );
    check(
        json!({"dnsPolicy": "Default", "dnsConfig": own}),
        &[],
        Some(RESOLV_CONF),
        &expect![[r#"
        nameserver 10.9.9.9 10.9.9.8 1.1.1.1
        search corp.example.com b.c x.y
        options timeout:1 ndots:9 rotate edns0"#]],
    );
}

#[test]
fn dns_05_limits() {
    let own = json!({"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"]});
    check(
        json!({"dnsPolicy": "None", "dnsConfig": own}),
        &[],
        Some(""),
        &expect![[r#"
        nameserver 1.1.1.1 2.2.2.2 3.3.3.3
        search 
        options 
        DNSConfigForming Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.1.1.1 2.2.2.2 3.3.3.3 | None"#]],
    );
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

#[test]
fn a_comment_in_the_nodes_file_says_nothing() {
    let config =
        parse_resolv_conf("# nameserver 10.0.0.9\n#nameserver 10.0.0.8\nnameserver 10.0.0.1 # x\n").expect("a file");
    assert_eq!(config.servers, ["10.0.0.1"]);
}
