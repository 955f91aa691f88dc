//! Rows of section 24, one table per decision.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use expect_test::{Expect, expect};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::resources::{Reservations, pods_limit, quantity};
use super::*;
use crate::launch::HandlerFeatures;
use crate::resources::{Amount, Amounts};
use crate::time::Instant;

mod objects;
mod patches;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + secs).expect("in range")
}

fn setup() -> NodeSetup {
    NodeSetup {
        name: "web-1".into(),
        hostname: "web-1".into(),
        controller_attach_detach: true,
        port: 10250,
        max_images: Some(50),
        local_storage: true,
        kubelet_version: "v1.36.4".into(),
        pods: 110,
        machine: Machine {
            machine_id: "machine".into(),
            system_uuid: "system".into(),
            boot_id: "boot".into(),
            kernel: "6.1.0".into(),
            os_image: "Debian".into(),
            architecture: "amd64".into(),
            cpu_millis: 2000,
            memory_bytes: 4 << 30,
            storage_bytes: Some(100 << 30),
            ..Machine::default()
        },
        ..NodeSetup::default()
    }
}

fn well() -> NodeHealth {
    NodeHealth {
        contact: RuntimeContact::Recent,
        network: NetworkState::Ready,
        pleg: PlegState::Listed(Duration::from_secs(1)),
        ..NodeHealth::default()
    }
}

fn view<'a>(setup: &'a NodeSetup, health: &'a NodeHealth) -> NodeObservation<'a> {
    const IPS: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7))];
    NodeObservation {
        setup,
        ips: &IPS,
        runtime_name: "containerd",
        runtime_version: Some("2.1.9"),
        handlers: None,
        supplemental_groups_policy: None,
        images: None,
        health,
        pressure: Some(Pressure::default()),
        volumes_in_use: None,
        now: at(0),
    }
}

fn ready(node: &Node) -> NodeCondition {
    condition(node, "Ready")
}

fn condition(node: &Node, kind: &str) -> NodeCondition {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.into_iter().find(|condition| condition.type_ == kind).expect("there is one")
}

#[test]
fn node_20_what_makes_a_node_not_ready_and_its_messages() {
    let check = |change: fn(&mut NodeHealth), expected: Expect| {
        let mut health = well();
        change(&mut health);
        let setup = setup();
        let condition = ready(&initial_node(&view(&setup, &health)).node);
        let text = [condition.status, condition.reason.unwrap_or_default(), condition.message.unwrap_or_default()];
        expected.assert_eq(&text.join(" | "));
    };
    check(|_| {}, expect!["True | KubeletReady | kubelet is posting ready status"]);
    check(
        |health| *health = NodeHealth::default(),
        expect![
            "False | KubeletNotReady | [container runtime status check may not have completed yet, PLEG is not healthy: pleg has yet to be successful, network state unknown]"
        ],
    );
    check(
        |health| health.contact = RuntimeContact::Long,
        expect!["False | KubeletNotReady | container runtime is down"],
    );
    check(
        |health| {
            let text = condition_text("NetworkReady", false, "NetworkPluginNotReady", "cni plugin not initialized");
            health.network = NetworkState::NotReady(text);
        },
        expect![
            "False | KubeletNotReady | container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"
        ],
    );
    check(
        |health| health.runtime = Some(condition_text("RuntimeReady", false, "Sick", "no disk")),
        expect![
            "False | KubeletNotReady | container runtime not ready: RuntimeReady=false reason:Sick message:no disk"
        ],
    );
    check(
        |health| health.pleg = PlegState::Listed(PLEG_THRESHOLD),
        expect!["True | KubeletReady | kubelet is posting ready status"],
    );
    check(
        |health| health.pleg = PlegState::Listed(Duration::from_millis(200_400)),
        expect![
            "False | KubeletNotReady | PLEG is not healthy: pleg was last seen active 3m20s ago; threshold is 3m0s"
        ],
    );
    check(
        |health| {
            health.storage = Some("csi plugins not initialized".into());
            health.shutdown = Some("node is shutting down".into());
        },
        expect!["False | KubeletNotReady | [csi plugins not initialized, node is shutting down]"],
    );
    check(
        |health| health.warning = Some("CPU hardcapping unsupported".into()),
        expect!["True | KubeletReady | kubelet is posting ready status. WARNING: CPU hardcapping unsupported"],
    );
}

#[test]
fn node_20_a_node_without_a_figure_for_its_storage_is_not_ready() {
    let (mut setup, health) = (setup(), well());
    setup.machine.storage_bytes = None;
    let condition = ready(&initial_node(&view(&setup, &health)).node);
    assert_eq!(condition.message.as_deref(), Some("missing node capacity for resources: ephemeral-storage"));
    setup.local_storage = false;
    assert_eq!(ready(&initial_node(&view(&setup, &health)).node).status, "True");
}

#[test]
fn node_21_conditions_change_with_reason_message_time_and_event() {
    let (setup, health) = (setup(), well());
    let mut seen = view(&setup, &health);
    let first = initial_node(&seen);
    let reasons = |update: &NodeUpdate| update.news.iter().map(|news| news.reason).collect::<Vec<_>>();
    assert_eq!(
        reasons(&first),
        ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"]
    );
    assert_eq!(first.news[0].message, "Node web-1 status is now: NodeHasSufficientMemory");
    let kinds: Vec<_> = first.node.status.clone().unwrap().conditions.unwrap().into_iter().map(|c| c.type_).collect();
    assert_eq!(kinds, ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]);

    seen.now = at(10);
    let same = updated_node(&seen, &first.node);
    assert_eq!(reasons(&same), [""; 0]);
    let memory = condition(&same.node, "MemoryPressure");
    assert_eq!((memory.last_heartbeat_time, memory.last_transition_time), (Some(Time(at(10))), Some(Time(at(0)))));
    assert!(node_change(&first.node, &same.node).is_none(), "NODE-10: a heartbeat alone is no change");
    assert!(node_patch(&first.node, &same.node).is_some());

    seen.now = at(20);
    seen.pressure = Some(Pressure { memory: true, disk: true, pid: true });
    let sick = NodeHealth { contact: RuntimeContact::Long, ..well() };
    seen.health = &sick;
    let turned = updated_node(&seen, &same.node);
    assert_eq!(
        reasons(&turned),
        ["NodeHasInsufficientMemory", "NodeHasDiskPressure", "NodeHasInsufficientPID", "NodeNotReady"]
    );
    for (kind, reason, message) in [
        ("MemoryPressure", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("DiskPressure", "KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("PIDPressure", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ] {
        let condition = condition(&turned.node, kind);
        assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("True", Some(reason)));
        assert_eq!((condition.message.as_deref(), condition.last_transition_time), (Some(message), Some(Time(at(20)))));
    }
    seen.pressure = Some(Pressure::default());
    seen.health = &health;
    let healed = updated_node(&seen, &turned.node);
    assert_eq!(reasons(&healed), reasons(&first));
    let pid = condition(&healed.node, "PIDPressure");
    assert_eq!(pid.message.as_deref(), Some("kubelet has sufficient PID available"));
}

#[test]
fn node_20_a_node_that_begins_unready_emits_no_event() {
    let (setup, health) = (setup(), NodeHealth::default());
    let first = initial_node(&view(&setup, &health));
    assert!(first.news.iter().all(|news| news.reason != "NodeNotReady"));
    assert_eq!(ready(&first.node).status, "False");
}

#[test]
fn conditions_of_others_stay_and_ready_is_found_wherever_it_is() {
    let (setup, health) = (setup(), well());
    let mut node = initial_node(&view(&setup, &health)).node;
    let others = NodeCondition { type_: "KernelDeadlock".into(), status: "False".into(), ..NodeCondition::default() };
    node.status.as_mut().unwrap().conditions.as_mut().unwrap().push(others.clone());
    let updated = updated_node(&view(&setup, &health), &node).node;
    assert_eq!(condition(&updated, "KernelDeadlock"), others);
    assert_eq!(node_change(&node, &updated), None);
}

#[test]
fn node_13_quantities_are_written_as_the_api_does() {
    for (resource, amount, text) in [
        ("memory", Amount::units(4 << 30), "4Gi"),
        ("memory", Amount::units(8_147_340 * 1024), "8147340Ki"),
        ("memory", Amount::units(1025), "1025"),
        ("ephemeral-storage", Amount::units(96_636_764_160), "90Gi"),
        ("hugepages-2Mi", Amount::ZERO, "0"),
        ("cpu", Amount::from_millis(2000), "2"),
        ("cpu", Amount::from_millis(1900), "1900m"),
        ("pods", Amount::units(110), "110"),
        ("pods", Amount::units(3000), "3k"),
    ] {
        assert_eq!(quantity(resource, amount), Quantity(text.into()), "{resource}");
    }
}

fn texts(amounts: &Amounts) -> String {
    let text = |(name, amount): (&String, &Amount)| format!("{name}={}", quantity(name, *amount).0);
    amounts.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn cg_20_allocatable_is_capacity_less_what_is_reserved_and_what_eviction_keeps_free() {
    let mut machine = setup().machine;
    machine.hugepages = BTreeMap::from([(2 << 20, 64), (1 << 30, 0)]);
    let capacity = node_capacity(&machine, 110);
    expect!["cpu=2 ephemeral-storage=100Gi hugepages-1Gi=0 hugepages-2Mi=128Mi memory=4Gi pods=110"]
        .assert_eq(&texts(&capacity));
    let check = |system: &[(&str, &str)], kube: &[(&str, &str)], hard: &[(&str, &str)], expected: Expect| {
        let (system, kube, eviction_hard) = (strings(system), strings(kube), strings(hard));
        let reservations = Reservations { system: &system, kube: &kube, eviction_hard: &eviction_hard };
        let left =
            reservations.kept_from_pods(&capacity).map(|reserved| texts(&node_allocatable(&capacity, &reserved)));
        expected.assert_eq(&left.unwrap_or_else(|err| err.to_string()));
    };
    check(
        &[],
        &[],
        &[],
        expect!["cpu=2 ephemeral-storage=100Gi hugepages-1Gi=0 hugepages-2Mi=128Mi memory=3968Mi pods=110"],
    );
    check(
        &[("cpu", "100m"), ("memory", "1Gi")],
        &[("cpu", "0.5"), ("ephemeral-storage", "10Gi"), ("pid", "1000")],
        &[("memory.available", "100Mi"), ("nodefs.available", "10%"), ("imagefs.available", "15%")],
        // A tenth in single precision, as upstream counts it.
        expect!["cpu=1400m ephemeral-storage=85899345760 hugepages-1Gi=0 hugepages-2Mi=128Mi memory=2844Mi pods=110"],
    );
    check(
        &[("memory", "5Gi")],
        &[],
        &[("nodefs.available", "0%")],
        expect!["cpu=2 ephemeral-storage=100Gi hugepages-1Gi=0 hugepages-2Mi=128Mi memory=0 pods=110"],
    );
    check(
        &[("memory", "much")],
        &[],
        &[],
        expect![[r#"systemReserved[memory]: "much" is not a quantity or percentage"#]],
    );
    check(
        &[],
        &[],
        &[("memory.available", "120%")],
        expect![[r#"evictionHard[memory.available]: "120%" is not a quantity or percentage"#]],
    );
}

#[test]
fn cg_21_the_limit_on_all_pods_leaves_eviction_thresholds_and_huge_pages_out() {
    let mut machine = setup().machine;
    machine.hugepages = BTreeMap::from([(2 << 20, 64)]);
    let capacity = node_capacity(&machine, 110);
    let (system, none) = (strings(&[("memory", "1Gi")]), BTreeMap::new());
    let hard = strings(&[("memory.available", "100Mi")]);
    let reservations = Reservations { system: &system, kube: &none, eviction_hard: &hard };
    let limit = pods_limit(&capacity, &reservations.for_daemons(&capacity).unwrap());
    assert_eq!(texts(&limit), "cpu=2 ephemeral-storage=100Gi hugepages-2Mi=128Mi memory=3Gi pods=110");
}

#[test]
fn node_13_versions_of_runtimes_lose_what_is_no_part_of_them() {
    for (reported, shown) in [
        ("2.1.9", "2.1.9"),
        ("v2.1.9", "2.1.9"),
        ("v2.2.0-rc.1", "2.2.0-rc.1"),
        ("1.7.24~ds1", "1.7.24"),
        ("1.36", "1.36"),
        ("1.36.0+abc", "1.36.0+abc"),
        (" 1.36.0-rc.1+abc.2\n", "1.36.0-rc.1+abc.2"),
        ("1.36.0-a-b.0+c-d", "1.36.0-a-b.0+c-d"),
        ("1.36.0-a_b", "1.36.0"),
        ("1.36.0-a..b", "1.36.0"),
        ("1.36.0-", "1.36.0"),
        ("1.36.0+", "1.36.0"),
        ("1.36.0-+abc", "1.36.0"),
        ("1.36.0-a+b+c", "1.36.0"),
        ("1.36.0~a+b", "1.36.0"),
        ("1.36-rc.1", "1.36"),
        ("1.2.3.4-rc.1", "1.2.3.4"),
        ("v01.007.0", "1.7.0"),
        ("1.7.", "1.7"),
        ("1..7", "Unknown"),
        (".1", "Unknown"),
        ("", "Unknown"),
        ("vv1.7.0", "Unknown"),
        ("nightly", "Unknown"),
    ] {
        assert_eq!(runtime_version(reported), shown, "{reported}");
    }
}

#[test]
fn node_10_reports_are_spread_after_a_change_and_regular_without() {
    let every = Duration::from_secs(300);
    let mut pace = ReportPace::new(every);
    assert!(pace.is_due(Instant::START), "the first is due at once");
    pace.sent(false, 0.0, Instant::START);
    assert!(!pace.is_due(Instant::from_secs(149)));
    assert!(pace.is_due(Instant::from_secs(150)), "the first is followed after half a period at the earliest");
    pace.sent(false, 0.0, Instant::from_secs(150));
    assert!(!pace.is_due(Instant::from_secs(449)));
    assert!(pace.is_due(Instant::from_secs(450)), "then regularly");
    pace.sent(true, 0.999, Instant::from_secs(450));
    assert!(!pace.is_due(Instant::from_secs(899)));
    assert!(pace.is_due(Instant::from_secs(900)), "after a change up to one and a half periods later");
}

#[test]
fn node_30_a_lease_belongs_to_its_node_and_its_renewal_never_goes_back() {
    let mut node = Node::default();
    node.metadata.name = Some("web-1".into());
    node.metadata.uid = Some("uid".into());
    let lease = node_lease(&node, 40, at(0));
    let value = serde_json::to_value(&lease).unwrap();
    assert_eq!(
        value,
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": "web-1", "namespace": "kube-node-lease",
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "web-1", "uid": "uid" }],
            },
            "spec": { "holderIdentity": "web-1", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z" },
        })
    );
    let renew =
        |lease: &k8s_openapi::api::coordination::v1::Lease| lease.spec.as_ref().unwrap().renew_time.clone().unwrap().0;
    let later = renewed_lease(lease.clone(), None, 20, at(10));
    assert_eq!((renew(&later), later.spec.as_ref().unwrap().lease_duration_seconds), (at(10), Some(20)));
    let set_back = renewed_lease(later.clone(), None, 20, at(-3600));
    assert!(renew(&set_back) > renew(&later), "a clock that was set back must not look like silence");
    let mut orphan = lease;
    orphan.metadata.owner_references = None;
    assert!(renewed_lease(orphan.clone(), None, 40, at(1)).metadata.owner_references.is_none());
    let adopted = renewed_lease(orphan, Some(&node), 40, at(1)).metadata.owner_references.unwrap();
    assert_eq!(adopted[0].uid, "uid");
}

#[test]
fn node_14_features_are_declared_with_their_gates() {
    use crate::config::Gate;
    let all = declared_features(|_| true).unwrap();
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(all, sorted, "in order of name");
    assert_eq!(declared_features(|gate| gate != Gate::NodeDeclaredFeatures), None);
    let some = declared_features(|gate| {
        matches!(gate, Gate::NodeDeclaredFeatures | Gate::RestartAllContainersOnContainerExits)
    });
    assert_eq!(some, Some(vec!["RestartAllContainersOnContainerExits".to_owned()]));
}

#[test]
fn the_pleg_is_well_for_three_minutes_after_its_last_list() {
    let minutes = |n: u64| Duration::from_secs(n * 60);
    for (state, well) in [
        (PlegState::Never, false),
        (PlegState::Listed(Duration::ZERO), true),
        (PlegState::Listed(minutes(3)), true),
        (PlegState::Listed(minutes(3) + Duration::from_nanos(1)), false),
    ] {
        assert_eq!(state.is_well(), well, "{state:?}");
    }
}
