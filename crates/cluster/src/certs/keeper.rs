//! Keeps one certificate valid: requests the first one, and rotates it before it expires.
//!
//! Each round decides from the certificate in use, its required content and the current time, so it notices a changed clock,
//! a changed node address and a replaced file. The loop never gives up and never ends the process: an expired certificate
//! is requested again with the bootstrap credentials.
//!
//! upstream: client-go util/certificate/certificate_manager.go; kubelet/certificate/transport.go exits five minutes after
//! the client certificate has expired, to be started again with the bootstrap credentials (v1.36).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rubelet_core::certs::{Phase, Purpose, Renewal, Why, Wish, renewal, retry_delay, rotation_deadline};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::Rng;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::csr_api::{CsrApi, SignedInAs};
use super::pair::Pair;
use super::store::Store;
use super::wishes::Wishes;
use crate::decode::explain;
use crate::metrics::ClusterMetrics;

mod attempt;

use attempt::{AttemptError, blocking};

/// Longest time between two readings of the clock, which may have been set.
const LOOK: Duration = Duration::from_secs(60);
/// Shortest time between two rotations because the API server rejected the certificate.
///
/// upstream: cmd/kubelet/app/server.go buildKubeletClientConfig (v1.36): after five minutes without one it exits.
const REFUSAL_PAUSE: Duration = Duration::from_secs(5 * 60);

/// Whether a certificate is rotated before it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rotate {
    /// Yes.
    Yes,
    /// Only a first certificate is requested, and a replacement of an expired one.
    No,
}

/// Receives each new certificate, and when it will be rotated.
pub(super) type Publish = Box<dyn Fn(&Pair, Option<Timestamp>) + Send + Sync>;

/// Inputs of a keeper.
pub(super) struct Parts {
    pub(super) purpose: Purpose,
    pub(super) rotate: Rotate,
    pub(super) store: Store,
    /// Where the private key is stored until its certificate is issued, so that a restart finds its CSR again.
    pub(super) kept_key: Option<PathBuf>,
    pub(super) wishes: Wishes,
    pub(super) csr_api: Box<dyn CsrApi>,
    pub(super) publish: Publish,
    /// Number of 401 responses of the API server.
    pub(super) refusals: Option<watch::Receiver<u64>>,
    pub(super) clock: Clock,
    pub(super) rng: Arc<dyn Rng>,
    pub(super) metrics: Arc<ClusterMetrics>,
}

pub(super) struct Keeper {
    parts: Parts,
    held: Option<Held>,
    /// The first certificate comes from the kubeconfig and is replaced at once.
    forced: bool,
    /// The API server rejects the certificate in use.
    refused: bool,
    refused_at: Option<rubelet_core::time::Instant>,
    failures: u32,
    /// The failure that was logged last.
    problem: Option<String>,
    /// The problem with the certificate on disk that was logged last.
    disk_problem: Option<String>,
    /// The certificate that was last logged as not valid yet.
    early: Option<Timestamp>,
}

struct Held {
    pair: Pair,
    deadline: Timestamp,
}

impl Keeper {
    /// Starts with the certificate on disk, if it is usable. `first` is a certificate and key in PEM from the kubeconfig: it
    /// is stored and replaced at once.
    pub(super) async fn new(parts: Parts, first: Option<(Vec<u8>, Vec<u8>)>) -> Self {
        let mut keeper = Self {
            parts,
            held: None,
            forced: false,
            refused: false,
            refused_at: None,
            failures: 0,
            problem: None,
            disk_problem: None,
            early: None,
        };
        keeper.look_at_disk().await;
        if let (None, Some((certificate, key))) = (&keeper.held, first) {
            let text = String::from_utf8_lossy(&key).into_owned();
            match keeper.store(certificate, text).await {
                Ok(pair) => {
                    keeper.hold(pair);
                    keeper.forced = true;
                }
                Err(error) => warn!(err = explain(&error), "The certificate of the kubeconfig cannot be stored"),
            }
        }
        keeper
    }

    /// Runs until cancelled. Cancelled at any point, the next start continues from the files on disk.
    pub(super) async fn run(mut self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&mut self) {
        loop {
            let wish = self.parts.wishes.now();
            match (self.decide(wish.as_ref()), wish) {
                (Renewal::Now(why), Some(wish)) => {
                    let pause = self.renew(&wish, &why).await;
                    // Only a change of the required content ends the pause: a 401 may be the answer to our own CSR.
                    tokio::select! {
                        biased;
                        () = self.parts.wishes.changed() => {}
                        () = tokio::time::sleep(pause) => {}
                    }
                }
                (Renewal::At(due), _) => self.rest(left(self.parts.clock.wall(), due).min(LOOK)).await,
                (Renewal::Nothing | Renewal::Now(_), _) => self.rest(LOOK).await,
            }
        }
    }

    /// Waits, or returns earlier when something changes.
    async fn rest(&mut self, wait: Duration) {
        let refused = tokio::select! {
            biased;
            () = self.parts.wishes.changed() => false,
            () = changed(self.parts.refusals.as_mut()) => true,
            () = tokio::time::sleep(wait) => false,
        };
        if refused {
            self.rejected_by_the_server();
        }
    }

    fn decide(&mut self, wish: Option<&Wish>) -> Renewal {
        let now = self.parts.clock.wall();
        self.warn_if_early(now);
        let held = self.held.as_ref().map(|held| (&held.pair.leaf, held.deadline));
        let decision = renewal(held, wish, now);
        let urgent = matches!(decision, Renewal::Now(Why::Missing | Why::Expired(_)) | Renewal::Nothing);
        if urgent {
            return decision;
        }
        if self.refused {
            return Renewal::Now(Why::Refused);
        }
        match self.parts.rotate {
            Rotate::Yes if self.forced => Renewal::Now(Why::Due(now)),
            Rotate::Yes => decision,
            Rotate::No => Renewal::At(now.checked_add(SignedDuration::from_hours(1)).unwrap_or(now)),
        }
    }

    fn warn_if_early(&mut self, now: Timestamp) {
        let Some(held) = &self.held else { return };
        let validity = held.pair.leaf.validity;
        if validity.at(now) == Phase::Early && self.early != Some(validity.not_before) {
            self.early = Some(validity.not_before);
            error!(purpose = %self.parts.purpose, not_before = %validity.not_before, clock = %now,
                "The certificate is not valid yet: check this machine's clock");
        }
    }

    /// One attempt. Returns the pause before the next round.
    async fn renew(&mut self, wish: &Wish, why: &Why) -> Duration {
        if self.failures == 0 {
            self.log_reason(why);
        }
        // An administrator or another program may have replaced the files.
        if self.look_at_disk().await {
            return self.succeeded(wish);
        }
        match self.attempt(wish).await {
            Ok(None) => Duration::ZERO,
            Ok(Some(pair)) => {
                info!(purpose = %self.parts.purpose, until = %pair.leaf.validity.not_after, "The certificate was issued");
                if let Some(old) = &self.held {
                    let age = self.parts.clock.wall().duration_since(old.pair.leaf.validity.not_before);
                    self.parts.metrics.rotated(self.parts.purpose, Duration::try_from(age).unwrap_or_default());
                }
                self.hold(pair);
                self.succeeded(wish)
            }
            Err(error) => self.failed(&error),
        }
    }

    fn log_reason(&self, why: &Why) {
        let (purpose, how) = (self.parts.purpose, self.signed_in_as());
        match why {
            Why::Expired(at) if purpose == Purpose::Client && !self.parts.csr_api.has_bootstrap() => {
                error!(expired = %at, clock = %self.parts.clock.wall(), file = %self.parts.store.current_path().display(),
                    "The client certificate has expired, and there is no bootstrap kubeconfig to request another with: \
                     put a new certificate and key into the file, or set --bootstrap-kubeconfig");
            }
            Why::Expired(at) => warn!(%purpose, expired = %at, clock = %self.parts.clock.wall(), ?how,
                "The certificate has expired; requesting a new one"),
            Why::Refused => {
                warn!(%purpose, ?how, "The API server rejects the certificate; requesting a new one")
            }
            Why::Missing | Why::Lacks(_) | Why::Due(_) => info!(%purpose, %why, ?how, "Rotating certificates"),
        }
    }

    fn signed_in_as(&self) -> SignedInAs {
        let now = self.parts.clock.wall();
        let good = self.held.as_ref().is_some_and(|held| held.pair.leaf.validity.at(now) != Phase::Expired);
        if self.parts.csr_api.has_bootstrap() && (!good || self.refused) {
            SignedInAs::Bootstrap
        } else {
            SignedInAs::Node
        }
    }

    /// Uses the certificate on disk if it is valid and not the one in use. Returns whether it did.
    async fn look_at_disk(&mut self) -> bool {
        let store = self.parts.store.clone();
        let found = match blocking(move || store.current()).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                let err = explain(&error);
                if self.disk_problem.as_ref() != Some(&err) {
                    warn!(purpose = %self.parts.purpose, err, "The certificate on disk is not usable");
                }
                self.disk_problem = Some(err);
                None
            }
            Err(_) => None,
        };
        let Some(pair) = found else { return false };
        let known = self.held.as_ref().is_some_and(|held| held.pair == pair);
        let expired = pair.leaf.validity.at(self.parts.clock.wall()) == Phase::Expired;
        if known || (expired && self.held.is_some()) {
            return false;
        }
        self.hold(pair);
        !expired
    }

    fn hold(&mut self, pair: Pair) {
        let deadline = rotation_deadline(pair.leaf.validity, self.parts.rng.fraction());
        (self.parts.publish)(&pair, (self.parts.rotate == Rotate::Yes).then_some(deadline));
        info!(purpose = %self.parts.purpose, until = %pair.leaf.validity.not_after, renewal = %deadline,
            "Using a certificate");
        self.held = Some(Held { pair, deadline });
        (self.forced, self.refused) = (false, false);
        if let Some(refusals) = &mut self.parts.refusals {
            // Earlier 401 responses concern the old certificate.
            refusals.borrow_and_update();
        }
    }

    fn succeeded(&mut self, wish: &Wish) -> Duration {
        self.parts.csr_api.close();
        self.problem = None;
        let Renewal::Now(why) = self.decide(Some(wish)) else {
            self.failures = 0;
            return Duration::ZERO;
        };
        // The signer omits something or issues for too short a time: retrying without a pause would not help.
        self.failures = self.failures.saturating_add(1);
        let wait = retry_delay(self.failures, self.parts.rng.fraction());
        warn!(purpose = %self.parts.purpose, %why, again_in = ?wait, "The issued certificate is not as requested");
        wait
    }

    fn failed(&mut self, error: &AttemptError) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.parts.metrics.renewal_failed(self.parts.purpose);
        if error.is_unauthorized() && self.held.is_some() {
            self.refused = true;
        }
        let wait = retry_delay(self.failures, self.parts.rng.fraction());
        let problem = explain(error);
        if self.problem.as_ref() != Some(&problem) {
            error!(purpose = %self.parts.purpose, err = problem, again_in = ?wait, "Certificate request was not signed");
            self.problem = Some(problem);
        }
        wait
    }

    fn rejected_by_the_server(&mut self) {
        let now = self.parts.clock.mono();
        let soon = self.refused_at.is_some_and(|at| now.since(at) < REFUSAL_PAUSE);
        if self.held.is_some() && self.parts.csr_api.has_bootstrap() && !soon {
            self.refused = true;
            self.refused_at = Some(now);
        }
    }
}

async fn changed(refusals: Option<&mut watch::Receiver<u64>>) {
    let over = match refusals {
        None => true,
        Some(refusals) => refusals.changed().await.is_err(),
    };
    if over {
        std::future::pending().await
    }
}

fn left(now: Timestamp, due: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or_default()
}
