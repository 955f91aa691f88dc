//! Graceful node shutdown: the two ways to set it exclude each other.

use super::super::duration::GoDuration;
use super::super::gates::{FeatureGates, Gate};
use super::super::kubelet::KubeletConfiguration;
use super::Findings;

pub(super) fn check(config: &KubeletConfiguration, gates: &FeatureGates, found: &mut Findings) {
    let (total, critical) = (config.shutdown_grace_period, config.shutdown_grace_period_critical_pods);
    let by_priority = !config.shutdown_grace_period_by_pod_priority.is_empty();
    let plain = total > GoDuration::ZERO || critical > GoDuration::ZERO;
    if gates.enabled(Gate::GracefulNodeShutdown) {
        if critical > total {
            let rule = format!("must not be longer than shutdownGracePeriod {total}");
            found.value("shutdownGracePeriodCriticalPods", critical, rule);
        }
        for (field, period) in [("shutdownGracePeriod", total), ("shutdownGracePeriodCriticalPods", critical)] {
            if !period.is_zero() && period < GoDuration::secs(1) {
                found.value(field, period, "must be 0s, or 1s or more");
            }
        }
    } else if plain {
        found.value("shutdownGracePeriod", total, "needs the feature gate GracefulNodeShutdown");
    }
    if by_priority && !gates.enabled(Gate::GracefulNodeShutdownBasedOnPodPriority) {
        let rule = "needs the feature gate GracefulNodeShutdownBasedOnPodPriority";
        found.say("shutdownGracePeriodByPodPriority", rule);
    } else if by_priority && plain {
        let rule = "cannot be used together with shutdownGracePeriod and shutdownGracePeriodCriticalPods";
        found.say("shutdownGracePeriodByPodPriority", rule);
    }
}
