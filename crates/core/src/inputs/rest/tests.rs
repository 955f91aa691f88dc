use std::collections::BTreeMap;

use super::*;
use crate::plan::PlanGates;
use crate::reason::{StartFailure, WaitingReason};
use crate::resize::ResizeCondition;
use crate::status::EndReason;

const NODE: NodeInputs<'static> = NodeInputs {
    runtime_name: "fake",
    host_ips: &[IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)],
    recursive_read_only: false,
    gates: PlanGates { container_restart_rules: true, restart_all_containers: true, resize_init_containers: true },
};

#[test]
fn it_holds_until_an_input_is_another() {
    let (pod, probes, actuated, status) = (Arc::default(), Arc::default(), Arc::default(), Arc::default());
    let inputs = PodInputs { actuated: Some(&actuated), ..PodInputs::new(&pod, &probes, NODE) };
    let rest = Rest::on(&inputs, &status).expect("nothing is under way");
    assert!(rest.holds(&inputs, &status));
    assert!(rest.clone().holds(&inputs.clone(), &Arc::clone(&status)));
    // Equal, but others: whether they are equal in all that counts is not for this to find out.
    assert!(!rest.holds(&inputs, &Arc::default()));
    assert!(!rest.holds(&PodInputs { pod: &Arc::default(), ..inputs }, &status));
    assert!(!rest.holds(&PodInputs { probes: &Arc::default(), ..inputs }, &status));
    assert!(!rest.holds(&PodInputs { actuated: Some(&Arc::default()), ..inputs }, &status));
    let node = NodeInputs { recursive_read_only: true, ..NODE };
    assert!(!rest.holds(&PodInputs { node, ..inputs }, &status));
    let node = NodeInputs { host_ips: &[], ..NODE };
    assert!(!rest.holds(&PodInputs { node, ..inputs }, &status));
}

#[test]
fn nothing_rests_on_what_is_under_way() {
    let (pod, probes, actuated, status) = (Arc::default(), Arc::default(), Arc::default(), Arc::default());
    let inputs = PodInputs { actuated: Some(&actuated), ..PodInputs::new(&pod, &probes, NODE) };
    let failure = StartFailure { reason: WaitingReason::ErrImagePull, message: String::new() };
    let failures = BTreeMap::from([("app".to_owned(), failure)]);
    let (resize, reason) = (ResizeCondition::default(), EndReason::preempted());
    for under_way in [
        PodInputs { failures: &failures, ..inputs },
        PodInputs { resize_pending: Some(&resize), ..inputs },
        PodInputs { resize_progress: Some(&resize), ..inputs },
        PodInputs { end: EndProgress::Stopped, ..inputs },
        PodInputs { end_reason: Some(&reason), ..inputs },
        PodInputs { actuated: None, ..inputs },
    ] {
        assert!(Rest::on(&under_way, &status).is_none(), "{under_way:?}");
    }
}
