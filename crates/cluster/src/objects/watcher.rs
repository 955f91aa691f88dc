//! The task that watches the objects in use, and tells the pods whose objects changed.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use rubelet_core::id::PodUid;
use rubelet_engine::task::{TaskGroup, timed};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connections::{Connect, Connections};
use super::shelf::{Shelf, Start};
use super::{Kind, Shared};
use crate::requests::{Follow, Requests};

/// How often watches that nobody needs are looked for.
const IDLE_LOOK: Duration = Duration::from_secs(60);

/// Watches.
pub struct ObjectWatcher<R> {
    shared: Arc<Shared>,
    connections: Connections<R>,
    tell: mpsc::Sender<PodUid>,
    /// Each ends with the connection that it used.
    running: JoinSet<u64>,
}

enum Event {
    Shutdown,
    Wake,
    Ended(Option<u64>),
    LookForIdle,
    Told,
}

impl<R: Requests + Follow> ObjectWatcher<R> {
    pub(super) fn new(shared: Arc<Shared>, api: R, connect: Connect<R>, tell: mpsc::Sender<PodUid>) -> Self {
        Self { shared, connections: Connections::new(api, connect), tell, running: JoinSet::new() }
    }

    /// Watches until cancelled. With another strategy than `Watch` there is nothing to run.
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
            let waiting = !self.shared.changed().is_empty() && !self.tell.is_closed();
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => Event::Shutdown,
                () = self.shared.wake.notified() => Event::Wake,
                Some(ended) = self.running.join_next() => Event::Ended(ended.ok()),
                // Safe to drop: a place that is not used is given back.
                permit = self.tell.reserve(), if waiting => {
                    if let (Ok(permit), Some(uid)) = (permit, self.shared.changed().pop_first()) {
                        permit.send(uid);
                    }
                    Event::Told
                }
                () = self.shared.clock.sleep_until(next_look), if next_look.is_some() => Event::LookForIdle,
            };
            match event {
                Event::Shutdown => return,
                Event::Wake | Event::Told => {}
                Event::Ended(connection) => connection.into_iter().for_each(|id| self.connections.give_back(id)),
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

    fn start<T: Kind>(&mut self, start: Start<T>, tasks: &mut TaskGroup, shelf: fn(&Shared) -> &Shelf<T>) {
        let lease = self.connections.take(tasks);
        let shared = Arc::clone(&self.shared);
        let Start { name, slot, cancel } = start;
        let what = name.collection::<T>();
        let told = move |mut all: Vec<Arc<T>>| {
            let pods = shelf(&shared).saw(&name, &slot, all.pop());
            if !pods.is_empty() {
                shared.tell(pods);
            }
        };
        let (api, id) = (lease.api, lease.id);
        let follow = async move {
            api.follow(what, told, cancel).await;
            id
        };
        self.running.spawn(timed("object-watch", follow));
    }
}
