//! Service account tokens, requested for one pod and cached until they need a refresh (TOK-01, TOK-02).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::token::{max_jitter, renew_at};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, ApiErrorKind, Rng, Token, TokenWish, Tokens};
use tracing::warn;

use crate::api::encode;
use crate::requests::Requests;

/// Pauses before a rejected request is repeated: the API server may see the pod's binding a few milliseconds later.
const AFTER_REFUSAL: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(90), Duration::from_millis(400)];

/// Requests and caches tokens. Expired tokens are removed when a new one is cached, the tokens of a pod when the pod is
/// forgotten.
#[doc(alias = "tokenManager")]
pub struct ApiTokens<R> {
    api: R,
    clock: Clock,
    rng: Arc<dyn Rng>,
    kept: Mutex<BTreeMap<(PodUid, TokenWish), Token>>,
}

impl<R: Requests> ApiTokens<R> {
    /// An empty cache.
    pub fn new(api: R, clock: Clock, rng: Arc<dyn Rng>) -> Self {
        Self { api, clock, rng, kept: Mutex::default() }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, BTreeMap<(PodUid, TokenWish), Token>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Repeats rejected requests: a pod may be known here before the server's node authorizer knows that it is bound here.
    async fn post(&self, path: &str, request: &TokenRequest) -> Result<TokenRequest, ApiError> {
        for pause in AFTER_REFUSAL {
            match self.api.create(path, request).await {
                Err(err) if err.kind == ApiErrorKind::Forbidden => tokio::time::sleep(pause).await,
                answer => return answer,
            }
        }
        self.api.create(path, request).await
    }

    async fn ask(&self, pod: &PodRef, wish: &TokenWish) -> Result<Token, ApiError> {
        let (namespace, account) = (encode(&pod.namespace), encode(&wish.service_account));
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name.to_string()),
            uid: Some(pod.uid.to_string()),
        };
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(wish.audiences.clone()),
                expiration_seconds: Some(wish.expiration_seconds),
                bound_object_ref: Some(bound),
            }),
            ..TokenRequest::default()
        };
        let answer = self.post(&path, &request).await?;
        // The server may grant a shorter or longer lifetime than requested.
        let seconds = answer.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(wish.expiration_seconds);
        let status = answer.status.unwrap_or_default();
        let (Some(token), Some(expires)) = (status.token, status.expiration_timestamp.map(|time| time.0)) else {
            let detail = "the response has no token".to_owned();
            return Err(ApiError { kind: ApiErrorKind::Garbage, detail });
        };
        let jitter = max_jitter(seconds).mul_f64(self.rng.fraction());
        Ok(Token { token, expires, renew_at: renew_at(expires, seconds, jitter) })
    }
}

#[async_trait]
impl<R: Requests> Tokens for ApiTokens<R> {
    async fn token(&self, pod: &PodRef, wish: &TokenWish) -> Result<Token, ApiError> {
        let key = (pod.uid.clone(), wish.clone());
        let kept = self.kept().get(&key).cloned();
        if let Some(token) = kept.as_ref().filter(|token| self.clock.wall() < token.renew_at) {
            return Ok(token.clone());
        }
        match self.ask(pod, wish).await {
            Ok(token) => {
                let now = self.clock.wall();
                let mut all = self.kept();
                all.retain(|_, token| now < token.expires);
                all.insert(key, token.clone());
                Ok(token)
            }
            Err(err) => match kept.filter(|token| self.clock.wall() < token.expires) {
                Some(token) => {
                    warn!(%pod, %err, account = %wish.service_account, "Couldn't update token; using the cached one until it expires");
                    Ok(token)
                }
                None => Err(ApiError { detail: format!("failed to fetch token: {}", err.detail), ..err }),
            },
        }
    }

    fn forget(&self, uid: &PodUid) {
        self.kept().retain(|(of, _), _| of != uid);
    }
}
