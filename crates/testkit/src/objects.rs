//! Config maps, secrets and tokens in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_engine::ports::{ApiError, ApiErrorKind, Objects, Token, TokenWish, Tokens};

/// Config maps and secrets in memory. Clones share them.
#[derive(Clone, Default)]
pub struct FakeObjects(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    config_maps: BTreeMap<(String, String), Arc<ConfigMap>>,
    secrets: BTreeMap<(String, String), Arc<Secret>>,
    kept: BTreeSet<PodUid>,
    down: bool,
}

impl FakeObjects {
    /// Creates or replaces the config map `name` in namespace `default`.
    pub fn put_config_map<const N: usize>(&self, name: &str, data: [(&str, &str); N]) {
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let map = ConfigMap { data: Some(data.into()), ..ConfigMap::default() };
        self.held().config_maps.insert(key("default", name), Arc::new(map));
    }

    /// Creates or replaces the secret `name` in namespace `default`.
    pub fn put_secret<const N: usize>(&self, name: &str, data: [(&str, &str); N]) {
        let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.into())));
        let secret = Secret { data: Some(data.into()), ..Secret::default() };
        self.held().secrets.insert(key("default", name), Arc::new(secret));
    }

    /// Creates a pull secret `name` in namespace `default`: `user` at each registry.
    pub fn put_pull_secret(&self, name: &str, registry: &str, user: &str) {
        let config = format!(r#"{{"auths":{{"{registry}":{{"username":"{user}","password":"p"}}}}}}"#);
        let data = [(".dockerconfigjson".to_owned(), ByteString(config.into()))];
        let type_ = Some("kubernetes.io/dockerconfigjson".to_owned());
        let secret = Secret { type_, data: Some(data.into()), ..Secret::default() };
        self.held().secrets.insert(key("default", name), Arc::new(secret));
    }

    /// Removes config map and secret of that name in namespace `default`.
    pub fn remove(&self, name: &str) {
        let mut held = self.held();
        held.config_maps.remove(&key("default", name));
        held.secrets.remove(&key("default", name));
    }

    /// Makes the API server unreachable, or reachable again.
    pub fn set_down(&self, down: bool) {
        self.held().down = down;
    }

    /// Pods whose objects are watched.
    pub fn kept(&self) -> Vec<PodUid> {
        self.held().kept.iter().cloned().collect()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get<T>(&self, of: impl FnOnce(&Held) -> Option<Arc<T>>) -> Result<Arc<T>, ApiError> {
        let held = self.held();
        if held.down {
            return Err(unavailable());
        }
        of(&held)
            .ok_or_else(|| ApiError { kind: ApiErrorKind::NotFound, detail: "not found, says the API server".into() })
    }
}

fn unavailable() -> ApiError {
    ApiError { kind: ApiErrorKind::Unavailable, detail: "connection refused".into() }
}

fn key(namespace: &str, name: &str) -> (String, String) {
    (namespace.to_owned(), name.to_owned())
}

#[async_trait]
impl Objects for FakeObjects {
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ApiError> {
        self.get(|held| held.config_maps.get(&key(namespace, name)).cloned())
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ApiError> {
        self.get(|held| held.secrets.get(&key(namespace, name)).cloned())
    }

    fn keep(&self, pod: &Arc<Pod>) {
        self.held().kept.insert(PodRef::of(pod).uid);
    }

    fn release(&self, uid: &PodUid) {
        self.held().kept.remove(uid);
    }
}

/// Tokens that name the pod and audience they were issued for. Clones share them.
#[derive(Clone, Default)]
pub struct FakeTokens(Arc<Mutex<Minted>>);

#[derive(Default)]
struct Minted {
    wishes: Vec<(PodUid, TokenWish)>,
    forgotten: Vec<PodUid>,
    generation: u32,
    down: bool,
}

impl FakeTokens {
    /// Every token request, in order.
    pub fn wishes(&self) -> Vec<(PodUid, TokenWish)> {
        self.minted().wishes.clone()
    }

    /// Pods whose tokens were forgotten.
    pub fn forgotten(&self) -> Vec<PodUid> {
        self.minted().forgotten.clone()
    }

    /// Further tokens differ from those before.
    pub fn renew(&self) {
        self.minted().generation += 1;
    }

    /// Makes the API server unreachable, or reachable again.
    pub fn set_down(&self, down: bool) {
        self.minted().down = down;
    }

    fn minted(&self) -> MutexGuard<'_, Minted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Tokens for FakeTokens {
    async fn token(&self, pod: &PodRef, wish: &TokenWish) -> Result<Token, ApiError> {
        let mut minted = self.minted();
        minted.wishes.push((pod.uid.clone(), wish.clone()));
        if minted.down {
            return Err(unavailable());
        }
        let token = format!("{}/{}#{}", wish.service_account, wish.audiences.join(","), minted.generation);
        let good = SignedDuration::from_secs(wish.expiration_seconds);
        let expires = Timestamp::UNIX_EPOCH + good;
        Ok(Token { token, expires, renew_at: Timestamp::UNIX_EPOCH + good * 4 / 5 })
    }

    fn forget(&self, uid: &PodUid) {
        self.minted().forgotten.push(uid.clone());
    }
}
