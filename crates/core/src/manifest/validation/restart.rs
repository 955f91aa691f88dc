//! When a container is restarted, and whether a resize restarts it.
//!
//! upstream: core/validation/validation.go validateContainerRestartPolicy, validateInitContainerRestartPolicy,
//! validateResizePolicy (v1.36)

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

use super::Context;
use super::faults::Faults;
use crate::manifest::field::Path;
use crate::manifest::gates::Gate;

const RULES: usize = 20;
const EXIT_CODES: usize = 255;

pub(super) fn container_policy(context: &Context<'_>, container: &Container, at: &Path, faults: &mut Faults) {
    if context.on(Gate::ContainerRestartRules) {
        policy_and_rules(context, container, at, faults);
    } else if container.restart_policy.is_some() {
        faults.forbidden(&at.child("restartPolicy"), "only init containers may have it");
    }
}

pub(super) fn init_policy(context: &Context<'_>, container: &Container, at: &Path, faults: &mut Faults) {
    let rules = container.restart_policy_rules.as_ref().is_some_and(|rules| !rules.is_empty());
    let Some(policy) = container.restart_policy.as_deref() else {
        if rules {
            faults.required(&at.child("restartPolicy"), "restartPolicyRules need it");
        }
        return;
    };
    match (policy, context.on(Gate::ContainerRestartRules)) {
        ("Always", false) => {}
        (other, false) => faults.unsupported(&at.child("restartPolicy"), other, &["Always"]),
        ("Always", true) if !context.on(Gate::RestartAllContainersOnContainerExits) => {
            if rules {
                faults.forbidden(&at.child("restartPolicyRules"), "a container that always restarts has no use for it");
            }
        }
        (_, true) => policy_and_rules(context, container, at, faults),
    }
}

fn policy_and_rules(context: &Context<'_>, container: &Container, at: &Path, faults: &mut Faults) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    let place = at.child("restartPolicy");
    match container.restart_policy.as_deref() {
        Some(policy) => faults.one_of(&place, policy, &["Always", "Never", "OnFailure"]),
        None if rules.is_empty() => {}
        None => faults.required(&place, "restartPolicyRules need it"),
    }
    let at = at.child("restartPolicyRules");
    if rules.len() > RULES {
        faults.too_many(&at, rules.len(), RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        self::rule(context, rule, &at.index(index), faults);
    }
}

fn rule(context: &Context<'_>, rule: &ContainerRestartRule, at: &Path, faults: &mut Faults) {
    let actions: &[&str] = if context.on(Gate::RestartAllContainersOnContainerExits) {
        &["Restart", "RestartAllContainers"]
    } else {
        &["Restart"]
    };
    faults.one_of(&at.child("action"), &rule.action, actions);
    let at = at.child("exitCodes");
    let Some(codes) = &rule.exit_codes else {
        return faults.required(&at, "");
    };
    faults.one_of(&at.child("operator"), &codes.operator, &["In", "NotIn"]);
    let count = codes.values.as_ref().map_or(0, Vec::len);
    if count > EXIT_CODES {
        faults.too_many(&at.child("values"), count, EXIT_CODES);
    }
}

pub(super) fn resize_policy(context: &Context<'_>, container: &Container, at: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, policy) in container.resize_policy.iter().flatten().enumerate() {
        let at = at.index(index);
        if !seen.insert(policy.resource_name.as_str()) {
            faults.duplicate(&at, &policy.resource_name);
        }
        faults.choice(&at.child("resourceName"), &policy.resource_name, &["cpu", "memory"]);
        let place = at.child("restartPolicy");
        faults.choice(&place, &policy.restart_policy, &["NotRequired", "RestartContainer"]);
        let never = context.spec.restart_policy.as_deref() == Some("Never");
        if never && policy.restart_policy != "NotRequired" {
            faults.invalid(&place, &policy.restart_policy, "must be NotRequired when the pod's restartPolicy is Never");
        }
    }
}
