//! Section 10.2; upstream: kubelet_pods_test.go TestManagedHostsFileContent, TestNodeHostsFileContent (v1.36)

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::resources::tests::pod;

fn check(spec: Value, domain: &str, ips: &[&str], expected: &Expect) {
    let name = Hostname { host: "web".to_owned(), domain: domain.to_owned() };
    let ips: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().expect("an address")).collect();
    let text = hosts_file(&pod(spec), &name, &ips, "127.0.0.1\tlocalhost\n10.0.0.2\tnode\n");
    expected.assert_eq(&text);
}

#[test]
fn host_01_host_02_a_file_of_its_own() {
    check(
        json!({"containers": []}),
        "",
        &["10.1.1.2", "fd00::2"],
        &expect![[r#"
            # Kubernetes-managed hosts file.
            127.0.0.1	localhost
            ::1	localhost ip6-localhost ip6-loopback
            fe00::0	ip6-localnet
            fe00::0	ip6-mcastprefix
            fe00::1	ip6-allnodes
            fe00::2	ip6-allrouters
            10.1.1.2	web
            fd00::2	web
        "#]],
    );
}

#[test]
fn host_03_domain_and_aliases() {
    let aliases = json!([{"ip": "1.2.3.4", "hostnames": ["a", "b"]}, {"ip": "5.6.7.8", "hostnames": ["c"]}]);
    check(
        json!({"containers": [], "hostAliases": aliases}),
        "sub.default.svc.cluster.local",
        &["10.1.1.2"],
        &expect![[r#"
            # Kubernetes-managed hosts file.
            127.0.0.1	localhost
            ::1	localhost ip6-localhost ip6-loopback
            fe00::0	ip6-localnet
            fe00::0	ip6-mcastprefix
            fe00::1	ip6-allnodes
            fe00::2	ip6-allrouters
            10.1.1.2	web.sub.default.svc.cluster.local	web

            # Entries added by HostAliases.
            1.2.3.4	a	b
            5.6.7.8	c
        "#]],
    );
}

#[test]
fn host_01_on_the_nodes_network_the_nodes_file() {
    check(
        json!({"containers": [], "hostNetwork": true, "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}]}),
        "",
        &["10.1.1.2"],
        &expect![[r#"
            # Kubernetes-managed hosts file (host network).
            127.0.0.1	localhost
            10.0.0.2	node

            # Entries added by HostAliases.
            1.2.3.4	a
        "#]],
    );
}
