use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn interface(name: &str, addresses: &[&str]) -> Interface {
    Interface {
        name: name.to_owned(),
        up: true,
        loopback: name == "lo",
        point_to_point: name.starts_with("tun"),
        addresses: addresses.iter().map(|text| ip(text)).collect(),
    }
}

fn host() -> Vec<Interface> {
    vec![
        interface("lo", &["127.0.0.1", "::1"]),
        interface("tun0", &["172.16.0.1"]),
        interface("docker0", &["172.17.0.1"]),
        interface("eth0", &["169.254.1.1", "10.0.0.5", "10.0.0.6", "fe80::1", "2001:db8::5"]),
    ]
}

#[test]
fn the_address_comes_from_the_default_routes_interface() {
    let v4 = [("eth0".to_owned(), Family::V4)];
    let both = [("eth0".to_owned(), Family::V4), ("eth0".to_owned(), Family::V6)];
    let gone = [("eth9".to_owned(), Family::V4)];
    for (routes, prefer, expected) in [
        (Some(v4.as_slice()), Family::V4, Some("10.0.0.5")),
        (Some(&both), Family::V4, Some("10.0.0.5")),
        (Some(&both), Family::V6, Some("2001:db8::5")),
        (Some(&v4), Family::V6, Some("10.0.0.5")),
        (Some(&gone), Family::V4, None),
        (Some(&[]), Family::V4, None),
        (None, Family::V4, Some("172.17.0.1")),
        (None, Family::V6, Some("2001:db8::5")),
    ] {
        assert_eq!(choose(&host(), routes, prefer), expected.map(ip), "{routes:?} {prefer:?}");
    }
}

#[test]
fn a_global_address_on_the_loopback_interface_counts_if_the_routes_interface_has_none() {
    let interfaces = [interface("lo", &["127.0.0.1", "192.0.2.1"]), interface("eth0", &["169.254.1.1"])];
    let routes = [("eth0".to_owned(), Family::V4)];
    assert_eq!(choose(&interfaces, Some(&routes), Family::V4), Some(ip("192.0.2.1")));
}

#[test]
fn an_interface_that_is_down_is_ignored() {
    let mut interfaces = host();
    interfaces[3].up = false;
    assert_eq!(choose(&interfaces, Some(&[("eth0".to_owned(), Family::V4)]), Family::V4), None);
}

#[test]
fn a_name_that_resolves_to_this_host_decides() {
    let resolved = ["127.0.1.1", "192.0.2.9", "2001:db8::5", "10.0.0.6"].map(ip);
    assert_eq!(pick(Family::V4, &resolved, &host()), Some(ip("10.0.0.6")));
    assert_eq!(pick(Family::V6, &resolved, &host()), Some(ip("2001:db8::5")));
    assert_eq!(pick(Family::V4, &resolved[..3], &host()), Some(ip("2001:db8::5")));
    assert_eq!(pick(Family::V4, &resolved[..2], &host()), None);
}

#[test]
fn an_unusable_node_ip_is_refused_with_a_reason() {
    for (address, expected) in [
        ("10.0.0.5", None),
        ("127.0.0.1", Some("node IP 127.0.0.1 can't be loopback address")),
        ("224.0.0.1", Some("node IP 224.0.0.1 can't be a multicast address")),
        ("fe80::1", Some("node IP fe80::1 can't be a link-local unicast address")),
        ("0.0.0.0", Some("node IP 0.0.0.0 can't be an all zeros address")),
        ("10.9.9.9", Some("node IP 10.9.9.9 not found in the host's network interfaces")),
    ] {
        let got = check(ip(address), &host()).err().map(|err| err.to_string());
        assert_eq!(got.as_deref(), expected, "{address}");
    }
}

#[test]
fn routes_are_read_as_the_kernel_writes_them() {
    let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
        \n";
    let zeros = "0".repeat(32);
    let v6 = format!(
        "{zeros} 00 {zeros} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth1\n\
        {zeros} 00 {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200 lo\n\
        nonsense\n"
    );
    let expected = [("eth0".to_owned(), Family::V4), ("eth1".to_owned(), Family::V6)];
    assert_eq!(parse_routes(v4, &v6), expected);
    assert_eq!(parse_routes("", ""), []);
}

#[tokio::test]
async fn a_hostname_that_is_an_ip_is_used_and_a_configured_ip_is_checked() {
    let proc = Path::new("/proc");
    assert_eq!(node_addresses(&[], "192.0.2.7", proc).await.unwrap(), [ip("192.0.2.7")]);
    assert!(matches!(
        node_addresses(&[ip("127.0.0.1")], "node", proc).await,
        Err(AddressError::Unusable { why: "can't be loopback address", .. })
    ));
}
