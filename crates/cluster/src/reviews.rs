//! TokenReviews and SubjectAccessReviews for the node's API, with a cache (section 27.2).
//!
//! Any caller of the node's API can cause a review without being authenticated: a random bearer token is enough. Reviews
//! therefore have a connection and a rate limit of their own, and a bound on how many are in flight and waiting; no other
//! request of the node ever waits for a review. TokenReviews and SubjectAccessReviews are bounded separately: random
//! tokens do not delay callers with a certificate. Equal reviews are sent once.

mod in_flight;
#[cfg(test)]
mod tests;
mod ttl_cache;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, ApiErrorKind, Caller, NodeAccess, Reviews, Rng};
use rubelet_engine::task::TaskGroup;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::api::{Client, Credentials, Endpoint, Options};
use crate::requests::{Requests, Server};
use in_flight::{Full, InFlight};
use ttl_cache::TtlCache;

/// Cached results of each kind.
#[doc(alias = "NewLRUExpireCache")]
const REMEMBERED: usize = 8192;
/// Longest key that is cached, because callers choose its length.
#[doc(alias = "maxControlledAttrCacheSize")]
const LONGEST: usize = 10_000;
/// Concurrent requests for reviews of a kind, …
const AT_ONCE: usize = 16;
/// … and different reviews of a kind, in flight or waiting. Further ones are rejected at once.
const MOST_OPEN: usize = 256;
/// Deadline of a review including its retries: a caller waits for it.
const DEADLINE: Duration = Duration::from_secs(10);
/// Attempts of a review, …
const TRIES: u32 = 5;
/// … and the pause after the first one, which grows by half each time.
///
/// upstream: apiserver options DefaultAuthWebhookRetryBackoff (v1.36)
const FIRST_PAUSE: Duration = Duration::from_millis(500);

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// How long results are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewTimes {
    /// Authenticated and unauthenticated tokens: `authentication.webhook.cacheTTL`.
    ///
    /// upstream: apiserver authenticatorfactory/delegating.go has one TTL for both (v1.36)
    pub identity: Duration,
    /// Allowed access: `authorization.webhook.cacheAuthorizedTTL`.
    pub allowed: Duration,
    /// Denied access: `authorization.webhook.cacheUnauthorizedTTL`.
    pub refused: Duration,
}

/// Two keyed hashes of a token: the cache holds no tokens.
type TokenKey = [u64; 2];
type AccessKey = (Caller, NodeAccess);

/// Sends reviews and caches their results.
pub struct ApiReviews<R> {
    clock: Clock,
    times: ReviewTimes,
    keys: [RandomState; 2],
    tokens: Reviewer<R, TokenKey, Option<Caller>>,
    rights: Reviewer<R, AccessKey, bool>,
    callers: Mutex<TtlCache<TokenKey, Caller>>,
    /// Tokens that are not authenticated, apart from the good ones: random tokens never evict a good one.
    unauthenticated: Mutex<TtlCache<TokenKey, ()>>,
    known_rights: Mutex<TtlCache<AccessKey, bool>>,
}

/// Sends the reviews of one kind.
struct Reviewer<R, K: Ord + Clone, V> {
    api: R,
    slots: Semaphore,
    open: InFlight<K, Result<V, ApiError>>,
}

impl ApiReviews<Server> {
    /// Uses a connection of its own, with the rate limit of `options`.
    pub fn connect(
        (endpoint, credentials): (Endpoint, Credentials),
        options: &Options,
        times: ReviewTimes,
        (clock, rng): (Clock, Arc<dyn Rng>),
        tasks: &mut TaskGroup,
    ) -> Self {
        let options = Options { deadline: DEADLINE, ..options.clone() };
        let tokens = Client::new(endpoint, credentials, &options, clock.clone(), tasks);
        let rights = tokens.with_rate(options.rate);
        Self::new([tokens, rights].map(|client| Server::new(client, Arc::clone(&rng))), clock, times)
    }
}

impl<R: Requests> ApiReviews<R> {
    /// Sends TokenReviews through the first client and SubjectAccessReviews through the second. Private, so that reviews
    /// cannot share a client with the node's other requests.
    fn new([tokens, rights]: [R; 2], clock: Clock, times: ReviewTimes) -> Self {
        Self {
            clock,
            times,
            keys: [RandomState::new(), RandomState::new()],
            tokens: Reviewer::new(tokens),
            rights: Reviewer::new(rights),
            callers: Mutex::new(TtlCache::new(REMEMBERED)),
            unauthenticated: Mutex::new(TtlCache::new(REMEMBERED)),
            known_rights: Mutex::new(TtlCache::new(REMEMBERED)),
        }
    }

    async fn review_token(&self, key: TokenKey, token: &str) -> Result<Option<Caller>, ApiError> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let question = TokenReview { spec, ..TokenReview::default() };
        let answer: TokenReview = self.tokens.ask(TOKEN_REVIEWS, &question).await?;
        let status = answer.status.unwrap_or_default();
        let now = self.clock.mono();
        if !status.authenticated.unwrap_or_default() {
            // An error of the authenticator counts as not authenticated, and is not cached.
            match status.error.filter(|why| !why.is_empty()) {
                Some(why) => tracing::debug!(%why, "The TokenReview returned an error"),
                None => lock(&self.unauthenticated).put(key, (), self.times.identity, now),
            }
            return Ok(None);
        }
        let user = status.user.unwrap_or_default();
        let caller = Caller {
            name: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        };
        lock(&self.callers).put(key, caller.clone(), self.times.identity, now);
        Ok(Some(caller))
    }

    async fn review_access(&self, key: &AccessKey) -> Result<bool, ApiError> {
        let question = SubjectAccessReview { spec: question(&key.0, &key.1), ..SubjectAccessReview::default() };
        let answer: SubjectAccessReview = self.rights.ask(ACCESS_REVIEWS, &question).await?;
        let status = answer.status.unwrap_or_default();
        let allowed = status.allowed && !status.denied.unwrap_or_default();
        if length(key) < LONGEST {
            let keep = if allowed { self.times.allowed } else { self.times.refused };
            lock(&self.known_rights).put(key.clone(), allowed, keep, self.clock.mono());
        }
        Ok(allowed)
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Requests, K: Ord + Clone, V: Clone> Reviewer<R, K, V> {
    const fn new(api: R) -> Self {
        Self { api, slots: Semaphore::const_new(AT_ONCE), open: InFlight::new(MOST_OPEN) }
    }

    /// The result for `key`: of a review in flight, or of `review`.
    async fn join<F>(&self, key: K, review: impl Fn() -> F) -> Result<V, ApiError>
    where
        F: Future<Output = Result<V, ApiError>>,
    {
        let answer = self.open.join(key, || async {
            let late = |_| ApiError {
                kind: ApiErrorKind::Timeout,
                detail: format!("the API server did not respond to a review within {DEADLINE:?}"),
            };
            tokio::time::timeout(DEADLINE, review()).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
        });
        answer.await.unwrap_or_else(|Full| {
            let detail = format!("{MOST_OPEN} reviews are waiting for the API server already; this one was not sent");
            Err(ApiError { kind: ApiErrorKind::Busy { retry_after: None }, detail })
        })
    }

    async fn ask<T: Serialize + Sync, A: DeserializeOwned + Send>(
        &self,
        path: &str,
        question: &T,
    ) -> Result<A, ApiError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            match self.ask_once(path, question).await {
                Err(err) if may_pass(err.kind) => {}
                answer => return answer,
            }
            tokio::time::sleep(pause).await;
            pause += pause / 2;
        }
        self.ask_once(path, question).await
    }

    async fn ask_once<T: Serialize + Sync, A: DeserializeOwned + Send>(
        &self,
        path: &str,
        question: &T,
    ) -> Result<A, ApiError> {
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await;
        self.api.create(path, question).await
    }
}

/// Whether a retry may succeed.
const fn may_pass(kind: ApiErrorKind) -> bool {
    match kind {
        ApiErrorKind::Unavailable | ApiErrorKind::Timeout | ApiErrorKind::Busy { .. } | ApiErrorKind::Failed => true,
        ApiErrorKind::Unauthorized
        | ApiErrorKind::Forbidden
        | ApiErrorKind::NotFound
        | ApiErrorKind::AlreadyExists
        | ApiErrorKind::Conflict
        | ApiErrorKind::Gone
        | ApiErrorKind::Invalid
        | ApiErrorKind::Garbage => false,
    }
}

#[async_trait]
impl<R: Requests> Reviews for ApiReviews<R> {
    async fn who_is(&self, token: &str) -> Result<Option<Caller>, ApiError> {
        let key = [self.keys[0].hash_one(token), self.keys[1].hash_one(token)];
        let now = self.clock.mono();
        if let Some(caller) = lock(&self.callers).get(&key, now) {
            return Ok(Some(caller));
        }
        if lock(&self.unauthenticated).get(&key, now).is_some() {
            return Ok(None);
        }
        self.tokens.join(key, || self.review_token(key, token)).await
    }

    async fn may(&self, caller: &Caller, access: &NodeAccess) -> Result<bool, ApiError> {
        let key = (caller.clone(), access.clone());
        if let Some(known) = lock(&self.known_rights).get(&key, self.clock.mono()) {
            return Ok(known);
        }
        self.rights.join(key.clone(), || self.review_access(&key)).await
    }
}

fn question(caller: &Caller, access: &NodeAccess) -> SubjectAccessReviewSpec {
    let text = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
    SubjectAccessReviewSpec {
        user: text(&caller.name),
        uid: text(&caller.uid),
        groups: Some(caller.groups.clone()).filter(|groups| !groups.is_empty()),
        extra: Some(caller.extra.clone()).filter(|extra| !extra.is_empty()),
        resource_attributes: Some(ResourceAttributes {
            verb: text(&access.verb),
            version: Some("v1".to_owned()),
            resource: Some("nodes".to_owned()),
            name: text(&access.node),
            subresource: text(&access.subresource),
            ..ResourceAttributes::default()
        }),
        non_resource_attributes: None,
    }
}

/// Total length of the parts of a key that a caller chooses.
fn length((caller, access): &(Caller, NodeAccess)) -> usize {
    let groups: usize = caller.groups.iter().map(String::len).sum();
    let extra: usize = caller.extra.iter().map(|(k, v)| k.len() + v.iter().map(String::len).sum::<usize>()).sum();
    caller.name.len() + caller.uid.len() + groups + extra + access.verb.len() + access.subresource.len()
}
