use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};
use k8s_openapi::api::core::v1::NodeAddress;
use proptest::prelude::*;

use super::*;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).expect("a time")
}

fn life(from: i64, to: i64) -> Validity {
    Validity { not_before: at(from), not_after: at(to) }
}

fn addresses(list: &[(&str, &str)]) -> Vec<NodeAddress> {
    list.iter().map(|(type_, address)| NodeAddress { type_: (*type_).into(), address: (*address).into() }).collect()
}

fn leaf(wish: &Wish, validity: Validity) -> Leaf {
    Leaf {
        validity,
        common_name: wish.common_name.clone(),
        organizations: wish.organizations.iter().cloned().collect(),
        dns_names: wish.dns_names.clone(),
        ips: wish.ips.clone(),
    }
}

fn show(wish: Option<Wish>) -> String {
    let Some(wish) = wish else { return "nothing to ask for".into() };
    let ips: Vec<String> = wish.ips.iter().map(ToString::to_string).collect();
    let names: Vec<&str> = wish.dns_names.iter().map(String::as_str).collect();
    format!("{} {:?} [{}] [{}]", wish.common_name, wish.organizations, names.join(" "), ips.join(" "))
}

#[test]
fn tls_02_a_serving_certificate_is_asked_for_with_the_nodes_addresses() {
    let check = |list: &[(&str, &str)], dns_only: DnsOnly, expected: &str| {
        assert_eq!(show(Wish::serving("n1", &addresses(list), dns_only)), expected, "{list:?}");
    };
    let who = r#"system:node:n1 ["system:nodes"]"#;
    check(&[], DnsOnly::Allowed, "nothing to ask for");
    check(&[("Hostname", "n1")], DnsOnly::Refused, "nothing to ask for");
    check(&[("Hostname", "n1")], DnsOnly::Allowed, &format!("{who} [n1] []"));
    check(&[("InternalIP", "10.0.0.1"), ("Hostname", "n1")], DnsOnly::Refused, &format!("{who} [n1] [10.0.0.1]"));
    // A host name may be an address, an address may not be a name; empty ones count for nothing.
    check(&[("Hostname", "10.0.0.2"), ("InternalIP", "")], DnsOnly::Refused, &format!("{who} [] [10.0.0.2]"));
    check(&[("InternalIP", "n1"), ("ExternalIP", "::1")], DnsOnly::Refused, &format!("{who} [] [::1]"));
    check(
        &[
            ("InternalDNS", "b"),
            ("ExternalDNS", "a"),
            ("InternalIP", "10.0.0.3"),
            ("InternalIP", "10.0.0.3"),
            ("Odd", "x"),
        ],
        DnsOnly::Refused,
        &format!("{who} [a b] [10.0.0.3]"),
    );
}

#[test]
fn tls_03_a_certificate_is_renewed_when_it_is_missing_expired_too_little_or_due() {
    let wish = Wish::serving("n1", &addresses(&[("InternalIP", "10.0.0.1"), ("Hostname", "n1")]), DnsOnly::Refused)
        .expect("an address");
    let good = leaf(&wish, life(0, 1000));
    let deadline = at(800);
    let check = |current: &Leaf, now: i64, expected: &Renewal| {
        assert_eq!(renewal(Some((current, deadline)), Some(&wish), at(now)), *expected, "{current:?}");
    };
    assert_eq!(renewal(None, None, at(0)), Renewal::Nothing);
    assert_eq!(renewal(Some((&good, deadline)), None, at(2000)), Renewal::Nothing);
    assert_eq!(renewal(None, Some(&wish), at(0)), Renewal::Now(Why::Missing));
    check(&good, 799, &Renewal::At(deadline));
    check(&good, 800, &Renewal::Now(Why::Due(deadline)));
    check(&good, 1000, &Renewal::Now(Why::Due(deadline)));
    check(&good, 1001, &Renewal::Now(Why::Expired(at(1000))));
    // A clock that is behind: a certificate that begins in the future is not asked for again.
    check(&leaf(&wish, life(500, 1000)), 0, &Renewal::At(deadline));

    let lacks = |change: fn(&mut Leaf), lack: Lack| {
        let mut leaf = good.clone();
        change(&mut leaf);
        check(&leaf, 1, &Renewal::Now(Why::Lacks(lack)));
    };
    let (has, wanted) = ("system:node:n2".to_owned(), "system:node:n1".to_owned());
    lacks(|leaf| leaf.common_name = "system:node:n2".into(), Lack::CommonName { has, wanted });
    lacks(|leaf| leaf.dns_names.clear(), Lack::DnsName("n1".into()));
    lacks(|leaf| leaf.ips.clear(), Lack::Ip("10.0.0.1".parse().expect("an address")));
    lacks(|leaf| leaf.organizations.clear(), Lack::Organization("system:nodes".into()));
    // More than was asked for is fine.
    let mut more = good.clone();
    more.dns_names.insert("old-name".into());
    check(&more, 1, &Renewal::At(deadline));
}

#[test]
fn tls_03_pauses_between_requests_are_upstreams() {
    let pauses = |chance: f64| (1..=6).map(|n| retry_delay(n, chance).as_millis()).collect::<Vec<_>>();
    assert_eq!(pauses(0.0), [2000, 4000, 8000, 16000, 32000, 32000]);
    assert_eq!(pauses(1.0), [2200, 4400, 8800, 17600, 32000, 32000]);
    assert_eq!(retry_delay(u32::MAX, 0.5), Duration::from_secs(32));
}

#[test]
fn tls_04_the_name_of_a_first_request_is_a_digest_of_key_and_wish() {
    let mut seen = Vec::new();
    let name = csr_name(&[0xfb, 0xff], "cn", &["a".into(), "b".into()], &["digital signature"], |text| {
        seen = text.to_vec();
        [0xff; DIGEST_LEN]
    });
    assert_eq!(String::from_utf8(seen).expect("text"), "-_8|Y24|YQ|Yg|ZGlnaXRhbCBzaWduYXR1cmU|");
    assert_eq!(name, format!("node-csr-{}8", "_".repeat(42)));
    assert_eq!(["", "f", "fo", "foo", "foob"].map(|t| base64_url(t.as_bytes())), ["", "Zg", "Zm8", "Zm9v", "Zm9vYg"]);
}

#[test]
fn tls_03_what_a_request_has_come_to() {
    let condition = |type_: &str| CertificateSigningRequestCondition {
        type_: type_.into(),
        status: "True".into(),
        reason: Some("Because".into()),
        message: Some("said so".into()),
        ..Default::default()
    };
    let check = |types: &[&str], certificate: Option<&str>, expected: &Answer| {
        let mut request = CertificateSigningRequest::default();
        request.metadata.uid = Some("u1".into());
        request.status = Some(CertificateSigningRequestStatus {
            certificate: certificate.map(|pem| ByteString(pem.into())),
            conditions: Some(types.iter().map(|type_| condition(type_)).collect()),
        });
        assert_eq!(answer(&request, "u1"), *expected, "{types:?} {certificate:?}");
        assert_eq!(answer(&request, "u2"), Answer::Replaced);
    };
    let refused = |how| Answer::Refused { how, reason: "Because".into(), message: "said so".into() };
    check(&[], None, &Answer::Waiting);
    check(&[], Some("pem"), &Answer::Waiting);
    check(&["Approved"], None, &Answer::Approved);
    check(&["Approved"], Some(""), &Answer::Approved);
    check(&["Odd", "Approved"], Some("pem"), &Answer::Issued(b"pem".to_vec()));
    check(&["Denied"], None, &refused("denied"));
    check(&["Approved", "Failed"], Some("pem"), &refused("failed"));
}

#[test]
fn clock_a_certificate_is_early_valid_or_expired() {
    let life = life(10, 20);
    assert_eq!([9, 10, 20, 21].map(|now| life.at(at(now))), [Phase::Early, Phase::Valid, Phase::Valid, Phase::Expired]);
}

proptest! {
    #[test]
    fn tls_03_a_certificate_is_renewed_after_70_to_90_percent_of_its_life(
        from in 0i64..4_000_000_000, secs in 0i64..1_000_000_000, chance in 0.0f64..1.0,
    ) {
        let deadline = rotation_deadline(life(from, from + secs), chance);
        let gone = deadline.duration_since(at(from)).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "seconds below 2^53")]
        let total = secs as f64;
        prop_assert!(gone >= 0.7 * total - 0.001 && gone <= 0.9 * total + 0.001, "{gone} of {total}");
    }
}

// TLS-02, TLS-03
#[test]
fn tls_02_tls_03_the_purpose_of_a_certificate_decides_signer_usages_and_files() {
    for (purpose, signer, usages, file) in [
        (
            Purpose::Client,
            "kubernetes.io/kube-apiserver-client-kubelet",
            ["digital signature", "client auth"],
            "kubelet-client",
        ),
        (Purpose::Serving, "kubernetes.io/kubelet-serving", ["digital signature", "server auth"], "kubelet-server"),
    ] {
        assert_eq!((purpose.signer(), purpose.usages(), purpose.file_prefix()), (signer, usages, file));
    }
}
