//! What `rubelet status` shows.

use expect_test::{Expect, expect};

use super::*;

fn at(text: &str) -> jiff::Timestamp {
    text.parse().expect("a time")
}

fn node() -> StatusDocument {
    let certificate = |purpose: &str, subject: &str, days_left, next_rotation: Option<&str>| CertificateDocument {
        purpose: purpose.to_owned(),
        subject: subject.to_owned(),
        not_before: at("2026-01-01T00:00:00Z"),
        not_after: at("2027-01-01T00:00:00Z"),
        days_left,
        next_rotation: next_rotation.map(at),
    };
    let condition = |kind: &str, status: &str, reason: &str, message: &str| ConditionDocument {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        since: None,
    };
    StatusDocument {
        node: "node-1".to_owned(),
        kubelet_version: "v1.36.4+rubelet.0.1.0".to_owned(),
        started_at: at("2026-06-01T00:00:00Z"),
        uptime_seconds: 90_000,
        shutting_down: false,
        api_server: Some(ApiServerDocument {
            url: "https://10.0.0.1:6443".to_owned(),
            reachable: Some(true),
            since: Some(at("2026-06-01T00:00:01Z")),
            since_seconds: Some(89_999),
            problem: None,
            lease_renewed_at: Some(at("2026-06-02T00:59:55Z")),
            lease_renewed_seconds_ago: Some(5),
            unsent_status_writes: 0,
        }),
        runtime: StatusRuntimeDocument {
            name: "containerd".to_owned(),
            version: "2.1.9".to_owned(),
            endpoint: "unix:///run/containerd/containerd.sock".to_owned(),
            up: true,
            problem: None,
            network_problem: None,
            cgroup_driver: "systemd".to_owned(),
        },
        certificates: vec![
            certificate("client", "CN=system:node:node-1,O=system:nodes", 213, Some("2026-10-01T00:00:00Z")),
            certificate("serving", "CN=node-1@1", 213, None),
        ],
        conditions: vec![
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        pods: PodCounts { running: 12, waiting: 1, ..PodCounts::default() },
        unread_sources: Vec::new(),
        job_panics: 0,
    }
}

fn check(node: &StatusDocument, expected: Expect) {
    expected.assert_eq(&render(node, Style::Plain));
}

#[test]
fn a_node_of_a_cluster() {
    check(
        &node(),
        expect![[r#"
        Node          node-1, v1.36.4+rubelet.0.1.0, running for 25h
        API server    https://10.0.0.1:6443, reachable for 24h
        Lease         renewed 5s ago
        Status writes all sent
        Runtime       containerd 2.1.9 at unix:///run/containerd/containerd.sock, answers
        Cgroup driver systemd
        Pods          12 running, 1 waiting
        Client cert   CN=system:node:node-1,O=system:nodes, expires on 2027-01-01, in 213 days, rotated on 2026-10-01
        Serving cert  CN=node-1@1, expires on 2027-01-01, in 213 days, not rotated by rubelet

        Conditions
          MemoryPressure  False    KubeletHasSufficientMemory: kubelet has sufficient memory available
          Ready           True     KubeletReady: kubelet is posting ready status
    "#]],
    );
}

#[test]
fn a_standalone_node() {
    let node = StatusDocument { api_server: None, certificates: Vec::new(), conditions: Vec::new(), ..node() };
    check(
        &node,
        expect![[r#"
        Node          node-1, v1.36.4+rubelet.0.1.0, running for 25h
        API server    none: a standalone node
        Runtime       containerd 2.1.9 at unix:///run/containerd/containerd.sock, answers
        Cgroup driver systemd
        Pods          12 running, 1 waiting
    "#]],
    );
}

#[test]
fn a_node_in_trouble() {
    let mut node = node();
    let server = node.api_server.as_mut().expect("it is of a cluster");
    server.reachable = Some(false);
    server.problem = Some("connect: connection refused".to_owned());
    server.lease_renewed_seconds_ago = None;
    server.unsent_status_writes = 3;
    node.runtime.up = false;
    node.runtime.problem = Some("no such socket\nis it running?".to_owned());
    node.certificates[0].days_left = -2;
    node.certificates[1].days_left = 3;
    node.pods = PodCounts { terminating: 2, ended: 1, rejected: 4, invalid: 1, ..PodCounts::default() };
    node.unread_sources = vec!["api".to_owned()];
    node.job_panics = 1;
    node.shutting_down = true;
    node.conditions[1].status = "False".to_owned();
    check(
        &node,
        expect![[r#"
        Node          node-1, v1.36.4+rubelet.0.1.0, running for 25h
        Shutdown      the machine is going down: pods are ended, and none is started
        API server    https://10.0.0.1:6443, unreachable for 24h
                      connect: connection refused
        Lease         not renewed since the start
        Status writes 3 not sent yet
        Runtime       containerd 2.1.9 at unix:///run/containerd/containerd.sock, does not answer
                      no such socket
                      is it running?
        Cgroup driver systemd
        Pods          0 running, 0 waiting, 2 terminating, 1 ended, 4 rejected, 1 invalid
                      not read yet: api
                      internal errors since the start: 1; see the log
        Client cert   CN=system:node:node-1,O=system:nodes, expired on 2027-01-01, rotated on 2026-10-01
        Serving cert  CN=node-1@1, expires on 2027-01-01, in 3 days, not rotated by rubelet

        Conditions
          MemoryPressure  False    KubeletHasSufficientMemory: kubelet has sufficient memory available
          Ready           False    KubeletReady: kubelet is posting ready status
    "#]],
    );
    assert!(render(&node, Style::Rich).contains("\x1b[31m"), "bad news are red on a terminal");
}

#[test]
fn names_from_outside_cannot_command_the_terminal() {
    let node = StatusDocument { node: "\x1b[2Jx".to_owned(), kubelet_version: "\x07".to_owned(), ..node() };
    assert!(!render(&node, Style::Plain).contains(['\x1b', '\x07']));
}
