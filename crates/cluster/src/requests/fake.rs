//! A fake API server: objects by path, scripted responses, and a list of the requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rubelet_engine::ports::{ApiError, ApiErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Collection, Follow, Followed, Requests};

pub(crate) fn error(kind: ApiErrorKind) -> ApiError {
    ApiError { kind, detail: format!("{kind:?}") }
}

/// Clones share the server.
#[derive(Clone)]
pub(crate) struct FakeServer {
    world: Arc<Mutex<World>>,
    changed: Arc<watch::Sender<u64>>,
}

#[derive(Default)]
struct World {
    /// Objects by path.
    objects: BTreeMap<String, Value>,
    /// Scripted responses by request (`POST /…`). A request without one is answered with its own body.
    answers: BTreeMap<String, VecDeque<Result<Value, ApiError>>>,
    away: bool,
    /// Responses are withheld while the sender of this exists.
    held: Option<watch::Receiver<()>>,
    asked: Vec<String>,
    watched: BTreeMap<String, usize>,
}

impl FakeServer {
    pub(crate) fn new() -> Self {
        Self { world: Arc::default(), changed: Arc::new(watch::Sender::new(0)) }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world());
        self.changed.send_modify(|n| *n += 1);
    }

    /// Stores an object at its path.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.change(|world| {
            world.objects.insert(path.to_owned(), object);
        });
    }

    pub(crate) fn remove(&self, path: &str) {
        self.change(|world| {
            world.objects.remove(path);
        });
    }

    /// Starts or ends an outage.
    pub(crate) fn set_away(&self, away: bool) {
        self.change(|world| world.away = away);
    }

    /// Withholds all responses until the returned value is dropped.
    pub(crate) fn hold(&self) -> watch::Sender<()> {
        let (hold, held) = watch::channel(());
        self.world().held = Some(held);
        hold
    }

    async fn held(&self) {
        let held = self.world().held.clone();
        if let Some(mut held) = held {
            // Returns an error when the sender is dropped.
            while held.changed().await.is_ok() {}
        }
    }

    /// Scripts the response to the next such request (`POST /path`).
    pub(crate) fn answer(&self, request: &str, answer: Result<Value, ApiError>) {
        self.world().answers.entry(request.to_owned()).or_default().push_back(answer);
    }

    /// The requests since the last call, one line each.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.world().asked)
    }

    /// The open watches.
    pub(crate) fn watched(&self) -> Vec<String> {
        let world = self.world();
        world.watched.iter().filter(|(_, n)| **n > 0).map(|(what, _)| what.clone()).collect()
    }

    async fn ask(&self, verb: &str, path: &str, body: Option<Value>) -> Result<Value, ApiError> {
        let request = format!("{verb} {path}");
        let text = body.as_ref().map(|body| format!(" {body}")).unwrap_or_default();
        self.world().asked.push(format!("{request}{text}"));
        self.held().await;
        let mut world = self.world();
        if world.away {
            return Err(error(ApiErrorKind::Unavailable));
        }
        if let Some(answer) = world.answers.get_mut(&request).and_then(VecDeque::pop_front) {
            return answer;
        }
        let plain = path.split('?').next().unwrap_or_default();
        match body {
            Some(body) => Ok(body),
            None => world.objects.get(plain).cloned().ok_or_else(|| error(ApiErrorKind::NotFound)),
        }
    }

    fn list(&self, what: &Collection) -> Option<Vec<Value>> {
        let world = self.world();
        if world.away {
            return None;
        }
        let named = what.field_selector.strip_prefix("metadata.name=");
        let fits = |path: &str| {
            let name = path.strip_prefix(&what.path).and_then(|rest| rest.strip_prefix('/'));
            name.is_some_and(|name| named.is_none_or(|wanted| wanted == name))
        };
        Some(world.objects.iter().filter(|(path, _)| fits(path)).map(|(_, object)| object.clone()).collect())
    }
}

impl Requests for FakeServer {
    async fn get<T: DeserializeOwned + Send>(&self, path: &str) -> Result<T, ApiError> {
        read(self.ask("GET", path, None).await?)
    }

    async fn create<T: Serialize + Sync, R: DeserializeOwned + Send>(
        &self,
        path: &str,
        body: &T,
    ) -> Result<R, ApiError> {
        read(self.ask("POST", path, Some(serde_json::to_value(body).expect("JSON"))).await?)
    }

    async fn patch<R: DeserializeOwned + Send>(&self, path: &str, patch: &str) -> Result<R, ApiError> {
        read(self.ask("PATCH", path, Some(serde_json::from_str(patch).expect("JSON"))).await?)
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    serde_json::from_value(value).map_err(|err| ApiError { kind: ApiErrorKind::Garbage, detail: err.to_string() })
}

/// Counts as an open watch until dropped.
struct Open(FakeServer, String);

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(count) = self.0.world().watched.get_mut(&self.1) {
            *count -= 1;
        }
    }
}

impl Follow for FakeServer {
    async fn follow<T: Followed>(
        &self,
        what: Collection,
        mut on_change: impl FnMut(Vec<Arc<T>>) + Send + 'static,
        cancel: CancellationToken,
    ) {
        let name = format!("{}?{}", what.path, what.field_selector);
        *self.world().watched.entry(name.clone()).or_default() += 1;
        let _open = Open(self.clone(), name);
        let mut changes = self.changed.subscribe();
        let mut last = None;
        loop {
            if let Some(now) = self.list(&what)
                && last.as_ref() != Some(&now)
            {
                let objects = now.iter().map(|object| {
                    let mut object: T = serde_json::from_value(object.clone()).expect("an object of its kind");
                    object.trim();
                    Arc::new(object)
                });
                on_change(objects.collect());
                last = Some(now);
            }
            if !matches!(cancel.run_until_cancelled(changes.changed()).await, Some(Ok(()))) {
                return;
            }
        }
    }
}
