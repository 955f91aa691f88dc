//! `GetContainerEvents` as hints: which pod to look at, and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use rubelet_core::id::PodUid;
use rubelet_core::observe::Hint;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::from_status;
use crate::from_wire::pod_of;
use crate::metrics::Operation;

/// How long to wait for the runtime to refuse the call. A runtime that implements it may send nothing before its first
/// event (Go's servers send their headers with it); one that does not refuses at once. A later refusal is the stream's
/// first and last item.
const TIME_TO_REFUSE: Duration = Duration::from_millis(100);

/// Opens the stream. It has no deadline: it ends when the connection does, with the error.
pub(crate) async fn hints(connection: &Connection) -> Result<BoxStream<'static, Result<Hint, RpcError>>, RpcError> {
    let operation = Operation::GetContainerEvents;
    let started = connection.now();
    let mut client = connection.runtime(operation);
    let mut opening = Box::pin(async move { client.get_container_events(cri::GetEventsRequest {}).await });
    let first = tokio::time::timeout(TIME_TO_REFUSE, &mut opening).await;
    connection.record(operation, connection.now().since(started), matches!(first, Ok(Err(_))));

    let events = match first {
        Ok(Ok(answer)) => answer.into_inner().boxed(),
        Ok(Err(status)) => return Err(from_status(operation, &status)),
        Err(_elapsed) => stream::once(opening).map_ok(tonic::Response::into_inner).try_flatten().boxed(),
    };
    let events = events.map_err(move |status| from_status(operation, &status)).boxed();
    // An unfolded stream ends with its first error: no further events come on this connection.
    Ok(stream::try_unfold((events, Owners::default()), next_hint).boxed())
}

type Events = BoxStream<'static, Result<cri::ContainerEventResponse, RpcError>>;

async fn next_hint((mut events, mut owners): (Events, Owners)) -> Result<Option<(Hint, (Events, Owners))>, RpcError> {
    while let Some(event) = events.try_next().await? {
        if let Some(hint) = owners.hint(&event) {
            return Ok(Some((hint, (events, owners))));
        }
    }
    Ok(None)
}

/// The pods of the objects seen in this stream. An event about a removed sandbox has nothing but its id; earlier events
/// for the id name the pod. An event that still matches no pod is dropped: the next list shows the change.
#[derive(Default)]
struct Owners {
    pods: BTreeMap<String, PodUid>,
}

impl Owners {
    fn hint(&mut self, event: &cri::ContainerEventResponse) -> Option<Hint> {
        let named = owner(event);
        let remembered = self.pods.get(&event.container_id).cloned();
        let uid = named.or(remembered)?;
        if event.container_event_type() == cri::ContainerEventType::ContainerDeletedEvent {
            self.pods.remove(&event.container_id);
        } else {
            self.pods.insert(event.container_id.clone(), uid.clone());
        }
        Some(Hint { uid })
    }
}

fn owner(event: &cri::ContainerEventResponse) -> Option<PodUid> {
    let sandbox = event.pod_sandbox_status.iter().map(|status| &status.labels);
    let containers = event.containers_statuses.iter().map(|status| &status.labels);
    sandbox.chain(containers).find_map(pod_of).map(|pod| pod.uid)
}
