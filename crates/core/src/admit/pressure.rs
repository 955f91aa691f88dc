//! Admission on a node that is short of something (ADM-02, EV-05).

use k8s_openapi::api::core::v1::{Pod, Taint};

use super::fit::tolerates;
use super::{AdmitView, Rejection};
use crate::eviction::{EVICTED, PressureKind};
use crate::pod::PodExt;
use crate::qos::{QosClass, is_critical, qos_class};

/// Under memory pressure alone, best-effort pods are refused that do not tolerate its taint; under any other, all pods but
/// critical ones.
/// upstream: eviction/eviction_manager.go Admit (v1.36)
pub(super) fn check(view: &AdmitView<'_>, pod: &Pod) -> Result<(), Rejection> {
    let pressure = view.pressure;
    let all = [
        (PressureKind::Disk, pressure.disk),
        (PressureKind::Memory, pressure.memory),
        (PressureKind::Pid, pressure.pid),
    ];
    let held: Vec<&str> = all.iter().filter_map(|(kind, holds)| holds.then_some(kind.as_str())).collect();
    if held.is_empty() || is_critical(pod) {
        return Ok(());
    }
    let memory_alone = pressure.memory && !pressure.disk && !pressure.pid;
    if memory_alone && (qos_class(pod) != QosClass::BestEffort || tolerates_memory_pressure(pod)) {
        return Ok(());
    }
    Err(Rejection::new(EVICTED, format!("The node had condition: [{}]. ", held.join(" "))))
}

fn tolerates_memory_pressure(pod: &Pod) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/memory-pressure".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let tolerations = pod.pod_spec().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    tolerations.iter().any(|toleration| tolerates(toleration, &taint))
}
