//! The task that watches the objects in use and reports the pods whose objects changed.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use rubelet_core::id::PodUid;
use rubelet_engine::task::{TaskGroup, timed};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connections::{Connect, Connections};
use super::store::{Start, Store};
use super::{Kind, Shared};
use crate::requests::{Follow, Requests};

/// Interval between searches for idle watches.
const IDLE_LOOK: Duration = Duration::from_secs(60);

/// Runs the watches of one node.
pub struct ObjectWatcher<R> {
    shared: Arc<Shared>,
    connections: Connections<R>,
    changes: mpsc::Sender<PodUid>,
    /// Each watch returns the id of its connection when it ends.
    running: JoinSet<u64>,
}

enum Event {
    Shutdown,
    Wake,
    Ended(Option<u64>),
    LookForIdle,
    Notified,
}

impl<R: Requests + Follow> ObjectWatcher<R> {
    pub(super) fn new(shared: Arc<Shared>, api: R, connect: Connect<R>, changes: mpsc::Sender<PodUid>) -> Self {
        Self { shared, connections: Connections::new(api, connect), changes, running: JoinSet::new() }
    }

    /// Watches until cancelled. Strategies other than `Watch` need no task.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut next_look = None;
        let mut tasks = TaskGroup::new(&cancel);
        loop {
            self.start_wanted(&mut tasks);
            if self.running.is_empty() {
                next_look = None;
            } else {
                next_look = next_look.or_else(|| Some(self.shared.clock.mono() + IDLE_LOOK));
            }
            let waiting = !self.shared.changed().is_empty() && !self.changes.is_closed();
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => Event::Shutdown,
                () = self.shared.wake.notified() => Event::Wake,
                Some(ended) = self.running.join_next() => Event::Ended(ended.ok()),
                // Cancel-safe: an unused permit is returned.
                permit = self.changes.reserve(), if waiting => {
                    if let (Ok(permit), Some(uid)) = (permit, self.shared.changed().pop_first()) {
                        permit.send(uid);
                    }
                    Event::Notified
                }
                () = self.shared.clock.sleep_until(next_look), if next_look.is_some() => Event::LookForIdle,
            };
            match event {
                Event::Shutdown => return,
                Event::Wake | Event::Notified => {}
                Event::Ended(connection) => connection.into_iter().for_each(|id| self.connections.release(id)),
                Event::LookForIdle => {
                    next_look = None;
                    let now = self.shared.clock.mono();
                    self.shared.config_maps.stop_idle(now);
                    self.shared.secrets.stop_idle(now);
                }
            }
        }
    }

    fn start_wanted(&mut self, tasks: &mut TaskGroup) {
        for start in self.shared.config_maps.take_wanted() {
            self.start::<ConfigMap>(start, tasks, |shared| &shared.config_maps);
        }
        for start in self.shared.secrets.take_wanted() {
            self.start::<Secret>(start, tasks, |shared| &shared.secrets);
        }
    }

    fn start<T: Kind>(&mut self, start: Start<T>, tasks: &mut TaskGroup, store: fn(&Shared) -> &Store<T>) {
        let assignment = self.connections.take(tasks);
        let shared = Arc::clone(&self.shared);
        let Start { name, slot, cancel } = start;
        let what = name.collection::<T>();
        let on_change = move |mut all: Vec<Arc<T>>| {
            let pods = store(&shared).saw(&name, &slot, all.pop());
            if !pods.is_empty() {
                shared.notify(pods);
            }
        };
        let (api, id) = (assignment.api, assignment.id);
        let follow = async move {
            api.follow(what, on_change, cancel).await;
            id
        };
        self.running.spawn(timed("object-watch", follow));
    }
}
