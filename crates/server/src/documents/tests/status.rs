//! The document of `rubelet status`.

use rubelet_core::certs::{InUse, Leaf, Purpose, Validity};
use rubelet_core::time::Now;
use rubelet_engine::node_lease::{Contact, Heartbeat};

use crate::documents::{AgentView, PodCounts, status_document};
use crate::testing::{NOW, agent, ago, node, running, status, worker};
use rubelet_core::time::Instant;
use rubelet_testkit::pod;

fn view() -> AgentView {
    agent().view(Now { mono: NOW, wall: ago(0) })
}

#[test]
fn a_standalone_node_has_no_api_server_and_counts_its_pods() {
    let web = worker(pod("web").build(), status("Running", vec![running("app", 10, true)]));
    let next = worker(pod("next").build(), status("Pending", Vec::new()));
    let document = status_document(&node(vec![web, next]), &view());
    assert_eq!(document.api_server, None);
    assert_eq!(document.pods, PodCounts { running: 1, waiting: 1, ..PodCounts::default() });
    assert_eq!((document.uptime_seconds, document.started_at), (3600, ago(3600)));
    assert_eq!((document.runtime.up, document.runtime.cgroup_driver.as_str()), (true, "cgroupfs"));
}

#[test]
fn the_api_server_is_what_the_heartbeat_shows() {
    let at = |secs: u64| Now { mono: Instant::from_secs(secs), wall: ago(3600 - i64::try_from(secs).expect("small")) };
    let heartbeat = Heartbeat {
        contact: Some(Contact { reachable: false, since: at(3000) }),
        renewed: Some(at(2990)),
        problem: Some("connection refused".to_owned()),
    };
    let agent = AgentView { api_server: Some("https://api".to_owned()), heartbeat, unwritten: Some(3), ..view() };
    let server = status_document(&node(Vec::new()), &agent).api_server.expect("it is of a cluster");
    assert_eq!((server.reachable, server.since_seconds, server.since), (Some(false), Some(600), Some(ago(600))));
    assert_eq!((server.lease_renewed_seconds_ago, server.unsent_status_writes), (Some(610), 3));
    assert_eq!(server.problem.as_deref(), Some("connection refused"));
}

#[test]
fn days_of_a_certificate_are_whole_and_negative_once_it_has_expired() {
    let days_left = |seconds_left: i64| {
        let validity = Validity { not_before: ago(1_000_000), not_after: ago(-seconds_left) };
        let leaf = Leaf {
            validity,
            common_name: "system:node:node-1".to_owned(),
            organizations: ["system:nodes".to_owned()].into(),
            dns_names: [].into(),
            ips: [].into(),
        };
        let in_use = InUse { purpose: Purpose::Client, leaf, renewal: Some(ago(-60)) };
        let agent = AgentView { certificates: vec![in_use], ..view() };
        let certificate = status_document(&node(Vec::new()), &agent).certificates.remove(0);
        assert_eq!(certificate.subject, "CN=system:node:node-1,O=system:nodes");
        assert_eq!((certificate.purpose.as_str(), certificate.next_rotation), ("client", Some(ago(-60))));
        certificate.days_left
    };
    assert_eq!([days_left(86_400), days_left(86_399), days_left(0), days_left(-1)], [1, 0, 0, -1]);
}
