//! A full look at one pod: `PodSandboxStatus` and `ContainerStatus` of everything that the lists show of it (PLEG-02).

use std::cmp::Reverse;

use futures_util::{StreamExt, TryStreamExt, stream};
use rubelet_core::id::{PodRef, PodUid, SandboxId};
use rubelet_core::observe::{ContainerObservation, PodObservation, SandboxObservation};
use rubelet_core::time::Instant;
use rubelet_engine::ports::{RpcError, RpcErrorKind};
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::garbage;
use crate::from_wire::{container_name, container_observation, pod_of, sandbox_observation};
use crate::list;
use crate::metrics::Operation;

/// Concurrent status calls: enough to hide the latency, few enough that a pod with hundreds of dead containers does not
/// crowd out others.
const AT_ONCE: usize = 8;

pub(crate) async fn inspect(connection: &Connection, uid: &PodUid, at: Instant) -> Result<PodObservation, RpcError> {
    let (sandboxes, containers) =
        tokio::try_join!(list::sandboxes(connection, Some(uid)), list::containers(connection, Some(uid)))?;

    // A runtime may ignore the selector, so the label is checked too.
    let of_this_pod = |pod: &PodRef| pod.uid == *uid;
    let sandboxes: Vec<_> = sandboxes
        .into_iter()
        .filter_map(|sandbox| Some((pod_of(&sandbox.labels).filter(of_this_pod)?, sandbox.id)))
        .collect();
    let containers: Vec<_> = containers
        .into_iter()
        .filter(|container| container_name(&container.labels).is_some())
        .filter_map(|container| {
            let pod = pod_of(&container.labels).filter(of_this_pod)?;
            Some((pod, container.id, SandboxId::from(container.pod_sandbox_id)))
        })
        .collect();
    let named = sandboxes.first().map(|(pod, _)| pod).or(containers.first().map(|(pod, ..)| pod));
    let pod = named.cloned().unwrap_or_else(|| PodRef { namespace: "".into(), name: "".into(), uid: uid.clone() });

    let sandboxes = stream::iter(sandboxes).map(|(_, id)| sandbox_status(connection, id)).buffer_unordered(AT_ONCE);
    let containers = stream::iter(containers)
        .map(|(_, id, sandbox)| container_status(connection, id, sandbox))
        .buffer_unordered(AT_ONCE);
    let (sandboxes, containers) =
        tokio::try_join!(sandboxes.try_collect::<Vec<_>>(), containers.try_collect::<Vec<_>>())?;
    let mut sandboxes: Vec<_> = sandboxes.into_iter().flatten().collect();
    let mut containers: Vec<_> = containers.into_iter().flatten().collect();
    // Newest first. Equal times are ordered by the attempt or restart count, then by id, so that the order is
    // deterministic.
    sandboxes.sort_by(|a, b| newest_sandbox(a).cmp(&newest_sandbox(b)));
    containers.sort_by(|a, b| newest_container(a).cmp(&newest_container(b)));
    Ok(PodObservation { pod, sandboxes, containers, at })
}

fn newest_sandbox(seen: &SandboxObservation) -> impl Ord + '_ {
    (Reverse(seen.created_at), Reverse(seen.attempt), &seen.id)
}

fn newest_container(seen: &ContainerObservation) -> impl Ord + '_ {
    (Reverse(seen.created_at), Reverse(seen.marks.restart_count), &seen.id)
}

/// `None` if the sandbox was removed since it was listed.
async fn sandbox_status(connection: &Connection, id: String) -> Result<Option<SandboxObservation>, RpcError> {
    let operation = Operation::PodSandboxStatus;
    let mut client = connection.runtime(operation);
    let request = cri::PodSandboxStatusRequest { pod_sandbox_id: id.clone(), verbose: false };
    let answer = connection
        .call(operation, Some(connection.timeout()), request, |request| async move {
            client.pod_sandbox_status(request).await
        })
        .await;
    let Some(answer) = unless_gone(answer)? else { return Ok(None) };
    let status =
        answer.status.ok_or_else(|| garbage(operation, format!("no status of sandbox {id:?} in the answer")))?;
    sandbox_observation(status).map(Some)
}

/// `None` if the container was removed since it was listed.
async fn container_status(
    connection: &Connection,
    id: String,
    sandbox: SandboxId,
) -> Result<Option<ContainerObservation>, RpcError> {
    let operation = Operation::ContainerStatus;
    let mut client = connection.runtime(operation);
    let request = cri::ContainerStatusRequest { container_id: id.clone(), verbose: false };
    let answer = connection
        .call(operation, Some(connection.timeout()), request, |request| async move {
            client.container_status(request).await
        })
        .await;
    let Some(answer) = unless_gone(answer)? else { return Ok(None) };
    let status =
        answer.status.ok_or_else(|| garbage(operation, format!("no status of container {id:?} in the answer")))?;
    container_observation(status, sandbox)
}

fn unless_gone<A>(answer: Result<A, RpcError>) -> Result<Option<A>, RpcError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(err) if err.kind == RpcErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}
