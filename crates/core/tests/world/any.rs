//! Any pod, and anything that can be seen of it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, PodSpec};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use super::{Case, Sandbox};

/// How many cases, and where those that failed are kept.
pub(crate) fn config(regressions: &'static str) -> ProptestConfig {
    ProptestConfig {
        cases: 300,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        ..ProptestConfig::default()
    }
}

fn policy() -> impl Strategy<Value = Option<String>> {
    prop_oneof![Just(None), Just(Some("Always")), Just(Some("OnFailure")), Just(Some("Never"))]
        .prop_map(|p| p.map(str::to_owned))
}

fn rules() -> impl Strategy<Value = Option<Vec<k8s_openapi::api::core::v1::ContainerRestartRule>>> {
    use k8s_openapi::api::core::v1::{ContainerRestartRule, ContainerRestartRuleOnExitCodes};
    let rule = (prop_oneof![4 => Just("Restart"), 1 => Just("RestartAllContainers")], any::<bool>()).prop_map(
        |(action, listed)| ContainerRestartRule {
            action: action.to_owned(),
            exit_codes: Some(ContainerRestartRuleOnExitCodes {
                // A rule that restarts the whole pod when a container ends well never rests, and is meant not to.
                operator: if listed || action != "Restart" { "In" } else { "NotIn" }.to_owned(),
                values: Some(vec![42]),
            }),
        },
    );
    prop_oneof![3 => Just(None), 1 => prop::collection::vec(rule, 1..3).prop_map(Some)]
}

fn container(name: &'static str) -> impl Strategy<Value = Container> {
    (policy(), rules(), any::<[bool; 3]>()).prop_map(move |(restart_policy, rules, [startup, liveness, readiness])| {
        let probe = |on: bool| on.then(k8s_openapi::api::core::v1::Probe::default);
        Container {
            name: name.to_owned(),
            restart_policy_rules: rules.filter(|_| restart_policy.is_some()),
            restart_policy,
            startup_probe: probe(startup),
            liveness_probe: probe(liveness),
            readiness_probe: probe(readiness),
            ..Container::default()
        }
    })
}

fn spec() -> impl Strategy<Value = PodSpec> {
    let init = (container("i"), container("j"), 0..3_usize).prop_map(|(i, j, n)| [i, j].into_iter().take(n).collect());
    let regular =
        (container("a"), container("b"), 1..3_usize).prop_map(|(a, b, n)| [a, b].into_iter().take(n).collect());
    (policy(), init, regular, any::<bool>()).prop_map(|(restart_policy, init, containers, debug)| PodSpec {
        restart_policy,
        init_containers: Some(init),
        containers,
        ephemeral_containers: debug
            .then(|| vec![EphemeralContainer { name: "d".to_owned(), ..EphemeralContainer::default() }]),
        ..PodSpec::default()
    })
}

/// Any instance of any container, in any state.
fn instance() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("i"), Just("j"), Just("a"), Just("b"), Just("d")];
    let state = prop_oneof![
        Just("running"),
        Just("running changed"),
        Just("created"),
        Just("unknown"),
        Just("exited 0"),
        Just("exited 1"),
        Just("exited 42"),
        Just("exited 0 OOMKilled"),
    ];
    (name, state, 1..900_u32).prop_map(|(name, state, ago)| format!("{name} {state} ago={ago}"))
}

fn sandbox() -> impl Strategy<Value = Sandbox> {
    (any::<bool>(), any::<bool>()).prop_map(|(ready, ip)| Sandbox {
        ready,
        ips: if ip { vec!["10.0.0.1".into()] } else { Vec::new() },
        ..Sandbox::default()
    })
}

fn verdicts() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop_oneof![Just("i"), Just("j"), Just("a"), Just("b")].prop_map(str::to_owned);
    let verdict = prop_oneof![Just("success"), Just("failure"), Just("unknown")].prop_map(str::to_owned);
    prop::collection::vec((name, verdict), 0..3)
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    let probes = (verdicts(), verdicts(), verdicts());
    let seen = (prop::collection::vec(sandbox(), 0..3), prop::collection::vec(instance(), 0..8));
    let ending = prop_oneof![4 => Just(""), 1 => Just("terminating"), 1 => Just("terminal")];
    let failed = prop::collection::btree_set(prop_oneof![Just("i"), Just("a"), Just("b")], 0..2);
    let rest = (prop::bool::weighted(0.1), prop::collection::vec(any::<bool>(), 2), ending, failed);
    (spec(), seen, probes, rest).prop_map(
        |(spec, (mut sandboxes, containers), (liveness, readiness, startup), (deleted, off, ending, failed))| {
            for (attempt, sandbox) in (0..).zip(sandboxes.iter_mut().rev()) {
                sandbox.attempt = attempt;
            }
            let known: BTreeSet<String> =
                containers.iter().filter_map(|c| c.split(' ').next()).map(str::to_owned).collect();
            let known = |list: Vec<(String, String)>| list.into_iter().filter(|(n, _)| known.contains(n)).collect();
            let gates = ["ContainerRestartRules", "RestartAllContainersOnContainerExits"];
            Case {
                spec,
                sandboxes,
                containers,
                liveness: known(liveness),
                readiness: known(readiness),
                startup: known(startup),
                deleted,
                off: gates.into_iter().zip(off).filter(|(_, off)| *off).map(|(g, _)| g.to_owned()).collect(),
                ending: ending.to_owned(),
                failures: failed
                    .into_iter()
                    .map(|name| (name.to_owned(), "CrashLoopBackOff: later".to_owned()))
                    .collect(),
                ..Case::default()
            }
        },
    )
}
