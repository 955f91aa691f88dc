//! Asks the API server who somebody is and what they may do, and remembers the answers for a while (section 27.2).

mod memory;
#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, ApiErrorKind, Caller, NodeAccess, Reviews};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::requests::Requests;
use memory::Memory;

/// How many answers of each kind are remembered.
#[doc(alias = "NewLRUExpireCache")]
const REMEMBERED: usize = 8192;
/// Questions whose words are longer than this are not remembered: whoever asks chooses them.
#[doc(alias = "maxControlledAttrCacheSize")]
const LONGEST: usize = 10_000;
/// How often a question is asked if the API server does not answer, …
const TRIES: u32 = 5;
/// … and the pause after the first try, which grows by half each time. Whoever asks us waits meanwhile.
///
/// upstream: apiserver options DefaultAuthWebhookRetryBackoff (v1.36)
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// How long answers are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewTimes {
    /// Whose a token is: `authentication.webhook.cacheTTL`.
    pub identity: Duration,
    /// That somebody may: `authorization.webhook.cacheAuthorizedTTL`.
    pub allowed: Duration,
    /// That they may not: `authorization.webhook.cacheUnauthorizedTTL`.
    pub refused: Duration,
}

/// Asks, and remembers.
pub struct ApiReviews<R> {
    api: R,
    clock: Clock,
    times: ReviewTimes,
    /// Two keyed hashes stand for a token, so that none is held in memory.
    keys: [RandomState; 2],
    callers: Mutex<Memory<[u64; 2], Option<Caller>>>,
    rights: Mutex<Memory<(Caller, NodeAccess), bool>>,
}

impl<R: Requests> ApiReviews<R> {
    /// Remembers nothing.
    pub fn new(api: R, clock: Clock, times: ReviewTimes) -> Self {
        Self {
            api,
            clock,
            times,
            keys: [RandomState::new(), RandomState::new()],
            callers: Mutex::new(Memory::new(REMEMBERED)),
            rights: Mutex::new(Memory::new(REMEMBERED)),
        }
    }

    async fn ask<T: Serialize + Sync, A: DeserializeOwned + Send>(
        &self,
        path: &str,
        question: &T,
    ) -> Result<A, ApiError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            match self.api.create(path, question).await {
                Err(err) if may_pass(err.kind) => {}
                answer => return answer,
            }
            tokio::time::sleep(pause).await;
            pause += pause / 2;
        }
        self.api.create(path, question).await
    }
}

/// Asking again may help.
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
        let known = self.callers.lock().unwrap_or_else(PoisonError::into_inner).get(&key, self.clock.mono());
        if let Some(known) = known {
            return Ok(known);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let question = TokenReview { spec, ..TokenReview::default() };
        let answer: TokenReview = self.ask("/apis/authentication.k8s.io/v1/tokenreviews", &question).await?;
        let status = answer.status.unwrap_or_default();
        let caller = status.authenticated.unwrap_or_default().then(|| {
            let user = status.user.unwrap_or_default();
            Caller {
                name: user.username.unwrap_or_default(),
                uid: user.uid.unwrap_or_default(),
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default(),
            }
        });
        // An error of whoever checked the token is told as "nobody's", and not remembered.
        if let Some(why) = status.error.filter(|why| !why.is_empty() && caller.is_none()) {
            tracing::debug!(%why, "A token was refused");
            return Ok(None);
        }
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.put(key, caller.clone(), self.times.identity, self.clock.mono());
        Ok(caller)
    }

    async fn may(&self, caller: &Caller, access: &NodeAccess) -> Result<bool, ApiError> {
        let key = (caller.clone(), access.clone());
        let known = self.rights.lock().unwrap_or_else(PoisonError::into_inner).get(&key, self.clock.mono());
        if let Some(known) = known {
            return Ok(known);
        }
        let question = SubjectAccessReview { spec: question(caller, access), ..SubjectAccessReview::default() };
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer: SubjectAccessReview = self.ask(path, &question).await?;
        let status = answer.status.unwrap_or_default();
        let allowed = status.allowed && !status.denied.unwrap_or_default();
        if length(&key) < LONGEST {
            let keep = if allowed { self.times.allowed } else { self.times.refused };
            self.rights.lock().unwrap_or_else(PoisonError::into_inner).put(key, allowed, keep, self.clock.mono());
        }
        Ok(allowed)
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

/// How long the words are that whoever asks has chosen.
fn length((caller, access): &(Caller, NodeAccess)) -> usize {
    let groups: usize = caller.groups.iter().map(String::len).sum();
    let extra: usize = caller.extra.iter().map(|(k, v)| k.len() + v.iter().map(String::len).sum::<usize>()).sum();
    caller.name.len() + caller.uid.len() + groups + extra + access.verb.len() + access.subresource.len()
}
