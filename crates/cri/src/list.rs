//! `ListPodSandbox` and `ListContainers`, of one pod or of all.

use std::collections::BTreeMap;

use rubelet_core::id::PodUid;
use rubelet_core::launch::POD_UID_LABEL;
use rubelet_core::observe::PodSummary;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::{Connection, collect};
use crate::from_wire::pod_summaries;
use crate::metrics::Operation;

/// Every pod of ours. The two lists are not one snapshot: a pod that changes between them may look inconsistent once,
/// and an event or the next list corrects it.
pub(crate) async fn list(connection: &Connection) -> Result<Vec<PodSummary>, RpcError> {
    let (sandboxes, containers) = tokio::try_join!(sandboxes(connection, None), containers(connection, None))?;
    Ok(pod_summaries(sandboxes, containers))
}

pub(crate) async fn sandboxes(connection: &Connection, uid: Option<&PodUid>) -> Result<Vec<cri::PodSandbox>, RpcError> {
    let filter = Some(cri::PodSandboxFilter { label_selector: selector(uid), ..Default::default() });
    let (mut streaming, mut plain) =
        (connection.runtime(Operation::ListPodSandbox), connection.runtime(Operation::ListPodSandbox));
    let (stream_request, request) =
        (cri::StreamPodSandboxesRequest { filter: filter.clone() }, cri::ListPodSandboxRequest { filter });
    connection
        .list(
            Operation::ListPodSandbox,
            || async move {
                let stream = streaming.stream_pod_sandboxes(stream_request).await?.into_inner();
                collect(stream, |message| message.pod_sandboxes).await
            },
            || async move { Ok(plain.list_pod_sandbox(request).await?.into_inner().items) },
        )
        .await
}

pub(crate) async fn containers(connection: &Connection, uid: Option<&PodUid>) -> Result<Vec<cri::Container>, RpcError> {
    let filter = Some(cri::ContainerFilter { label_selector: selector(uid), ..Default::default() });
    let (mut streaming, mut plain) =
        (connection.runtime(Operation::ListContainers), connection.runtime(Operation::ListContainers));
    let (stream_request, request) =
        (cri::StreamContainersRequest { filter: filter.clone() }, cri::ListContainersRequest { filter });
    connection
        .list(
            Operation::ListContainers,
            || async move {
                let stream = streaming.stream_containers(stream_request).await?.into_inner();
                collect(stream, |message| message.containers).await
            },
            || async move { Ok(plain.list_containers(request).await?.into_inner().containers) },
        )
        .await
}

fn selector(uid: Option<&PodUid>) -> BTreeMap<String, String> {
    uid.map(|uid| (POD_UID_LABEL.to_owned(), uid.as_str().to_owned())).into_iter().collect()
}
