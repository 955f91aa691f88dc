//! One run of one probe, within the node's limits.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rubelet_core::id::ContainerId;
use rubelet_core::probe::{
    Answer, ExecFault, ExecResult, ProbeAction, TargetError, exec_answer, grpc_answer, http_answer, tcp_answer,
    unresolved,
};
use tokio::sync::Semaphore;

use super::pod::Key;
use crate::node::Node;
use crate::ports::RpcErrorKind;

/// How often a probe that could not be run is tried before its answer is discarded (PRB-06).
const TRIES: usize = 3;
/// Connections open at once. Each is a socket and a few kilobytes; more would only queue in the kernel.
const NETWORK_AT_ONCE: usize = 64;
/// Commands at once, for each CPU: each is a process that the runtime makes.
const EXEC_PER_CPU: usize = 2;
/// A run that takes longer than this is waiting, not working, and releases its slot: a few containers that never answer
/// do not delay the probes of all others.
const BUSY: Duration = Duration::from_millis(500);
/// How long after its timeout a command is abandoned: the runtime needs a moment to kill it.
const EXEC_SLACK: Duration = Duration::from_secs(5);

/// The node's limits on concurrent probes.
#[derive(Clone)]
pub(super) struct Slots {
    exec: Arc<Semaphore>,
    network: Arc<Semaphore>,
}

impl Slots {
    pub(super) fn new(cpu_millis: i64) -> Self {
        let cpus = usize::try_from(cpu_millis / 1000).unwrap_or_default().max(1);
        Self {
            exec: Arc::new(Semaphore::new(cpus.saturating_mul(EXEC_PER_CPU))),
            network: Arc::new(Semaphore::new(NETWORK_AT_ONCE)),
        }
    }
}

/// One run of a probe.
pub(super) struct Question {
    pub(super) key: Key,
    pub(super) instance: ContainerId,
    pub(super) action: Result<ProbeAction, TargetError>,
    pub(super) timeout: Duration,
}

/// The answer to a [`Question`].
pub(super) struct Answered {
    pub(super) key: Key,
    pub(super) instance: ContainerId,
    pub(super) answer: Answer,
    pub(super) took: Duration,
}

pub(super) async fn run(node: Arc<Node>, slots: Slots, question: Question) -> Answered {
    let Question { key, instance, action, timeout } = question;
    let began = node.clock.mono();
    let answer = match &action {
        Ok(action) => {
            // A panic in an adapter counts as one run that failed; the probe goes on.
            let asked = AssertUnwindSafe(in_slot(&node, &slots, &instance, action, timeout)).catch_unwind().await;
            let lost = |_| Answer::Error { state: "unknown", detail: "internal error: the probe panicked".to_owned() };
            asked.unwrap_or_else(lost)
        }
        Err(err) => unresolved(err),
    };
    let took = node.clock.mono().since(began);
    Answered { key, instance, answer, took }
}

async fn in_slot(
    node: &Node,
    slots: &Slots,
    instance: &ContainerId,
    action: &ProbeAction,
    timeout: Duration,
) -> Answer {
    let slots = if matches!(action, ProbeAction::Exec(_)) { &slots.exec } else { &slots.network };
    // `acquire` fails only on a closed semaphore; these are never closed.
    let slot = slots.acquire().await.ok();
    let work = with_tries(node, instance, action, timeout);
    tokio::pin!(work);
    tokio::select! {
        biased;
        answer = &mut work => return answer,
        () = tokio::time::sleep(BUSY) => drop(slot),
    }
    work.await
}

async fn with_tries(node: &Node, instance: &ContainerId, action: &ProbeAction, timeout: Duration) -> Answer {
    let mut answer = ask(node, instance, action, timeout).await;
    for _ in 1..TRIES {
        if !answer.is_error() {
            break;
        }
        answer = ask(node, instance, action, timeout).await;
    }
    answer
}

async fn ask(node: &Node, instance: &ContainerId, action: &ProbeAction, timeout: Duration) -> Answer {
    let probes = &node.ports.probes;
    match action {
        ProbeAction::Exec(command) => exec(node, instance, command, timeout).await,
        ProbeAction::Http(target) => http_answer(target, probes.http(target, Some(timeout)).await),
        ProbeAction::Tcp(target) => tcp_answer(&target.address(), probes.tcp(target, timeout).await),
        ProbeAction::Grpc(target) => grpc_answer(target, timeout, probes.grpc(target, timeout).await),
    }
}

async fn exec(node: &Node, instance: &ContainerId, command: &[String], timeout: Duration) -> Answer {
    let run = node.ports.runtime.exec_sync(instance, command, timeout);
    let got = match tokio::time::timeout(timeout.saturating_add(EXEC_SLACK), run).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(err)) if err.kind == RpcErrorKind::Timeout => Err(ExecFault::Timeout),
        Ok(Err(err)) => Err(ExecFault::Failed(err.to_string())),
        Err(_) => Err(ExecFault::Timeout),
    };
    match got {
        Ok(out) => {
            let result = ExecResult { code: out.exit_code, stdout: &out.stdout, stderr: &out.stderr };
            exec_answer(command, timeout, Ok(result))
        }
        Err(fault) => exec_answer(command, timeout, Err(fault)),
    }
}
