//! A signing authority in the process: certificate requests as the API server has them, approved and signed as told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};
use rcgen::{BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair};
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::CertificateSigningRequestDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::super::keeper::{Desk, Problem, Standing};
use super::super::pem;
use super::super::request::Requests;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Approved and signed at once.
    Signs,
    /// Left alone.
    Waits,
    /// Denied.
    Denies,
    /// Signed, but for nobody's address.
    LeavesOut,
}

#[derive(Clone)]
pub(super) struct Authority {
    state: Arc<Mutex<State>>,
    version: watch::Sender<u64>,
    /// Counts the answers 401, as the API client does.
    pub(super) refusals: watch::Sender<u64>,
    issuer: Arc<Issuer<'static, KeyPair>>,
    clock: Clock,
}

struct State {
    mood: Mood,
    life: Duration,
    requests: BTreeMap<String, CertificateSigningRequest>,
    /// How each request was handed in, and its name.
    log: Vec<String>,
    /// Whose requests are answered 401.
    unknown: Vec<Standing>,
    away: bool,
}

impl Authority {
    pub(super) fn new(clock: &Clock, mood: Mood, life: Duration) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = Issuer::new(params, KeyPair::generate().expect("a key"));
        let state = State { mood, life, requests: BTreeMap::new(), log: Vec::new(), unknown: Vec::new(), away: false };
        Self {
            state: Arc::new(Mutex::new(state)),
            version: watch::Sender::new(1),
            refusals: watch::Sender::new(0),
            issuer: Arc::new(issuer),
            clock: clock.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    pub(super) fn set_mood(&self, mood: Mood) {
        self.state().mood = mood;
    }

    pub(super) fn set_away(&self, away: bool) {
        self.state().away = away;
    }

    pub(super) fn does_not_know(&self, standing: Standing) {
        self.state().unknown.push(standing);
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    pub(super) fn requests(&self) -> Vec<CertificateSigningRequest> {
        self.state().requests.values().cloned().collect()
    }

    /// Signs whatever waits, as an administrator does.
    pub(super) fn approve_all(&self) {
        let names: Vec<String> = self.state().requests.keys().cloned().collect();
        for name in names {
            self.settle(&name, Mood::Signs);
        }
    }

    /// A certificate for whoever holds `key`, as this authority signs it: certificate and key in PEM.
    pub(super) fn issue(&self, request_pem: &str) -> Vec<u8> {
        let state = self.state();
        self.sign(request_pem.as_bytes(), state.life, false)
    }

    fn sign(&self, request: &[u8], life: Duration, leaves_out: bool) -> Vec<u8> {
        let der = CertificateSigningRequestDer::from_pem_slice(request).expect("a request in PEM");
        let mut csr = CertificateSigningRequestParams::from_der(&der).expect("a request that is signed by its key");
        let now = since_epoch(self.clock.wall());
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        (csr.params.not_before, csr.params.not_after) = (epoch + now, epoch + now + life);
        if leaves_out {
            csr.params.subject_alt_names.clear();
        }
        pem::encode(pem::CERTIFICATE, csr.signed_by(&self.issuer).expect("signed").der()).into_bytes()
    }

    fn settle(&self, name: &str, mood: Mood) {
        let mut state = self.state();
        let life = state.life;
        let Some(request) = state.requests.get_mut(name) else { return };
        if request.status.is_some() {
            return;
        }
        let condition = |type_: &str| CertificateSigningRequestCondition {
            type_: type_.into(),
            status: "True".into(),
            reason: Some("Test".into()),
            message: Some("as the test has it".into()),
            ..Default::default()
        };
        let status = match mood {
            Mood::Waits => return,
            Mood::Denies => {
                CertificateSigningRequestStatus { certificate: None, conditions: Some(vec![condition("Denied")]) }
            }
            Mood::Signs | Mood::LeavesOut => CertificateSigningRequestStatus {
                certificate: Some(ByteString(self.sign(&request.spec.request.0, life, mood == Mood::LeavesOut))),
                conditions: Some(vec![condition("Approved")]),
            },
        };
        request.status = Some(status);
        self.version.send_modify(|version| *version += 1);
        request.metadata.resource_version = Some(self.version.borrow().to_string());
    }

    fn check(&self, standing: Standing) -> Result<(), ApiError> {
        let state = self.state();
        let error = |kind, detail: &str| Err(ApiError { kind, detail: detail.into() });
        if state.away {
            return error(ApiErrorKind::Unavailable, "connection refused");
        }
        if state.unknown.contains(&standing) {
            self.refusals.send_modify(|count| *count += 1);
            return error(ApiErrorKind::Unauthorized, "Unauthorized");
        }
        Ok(())
    }
}

fn since_epoch(at: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(at.as_second()).expect("after 1970"))
}

/// The way in for one standing.
struct Window(Authority, Standing);

#[async_trait]
impl Requests for Window {
    async fn create(&self, request: &CertificateSigningRequest) -> Result<CertificateSigningRequest, ApiError> {
        let Self(authority, standing) = self;
        authority.check(*standing)?;
        let (mood, name) = {
            let mut state = authority.state();
            let number = state.requests.len();
            let generated = request.metadata.generate_name.as_ref().map(|prefix| format!("{prefix}{number}"));
            let name = request.metadata.name.clone().or(generated).expect("a name");
            if state.requests.contains_key(&name) {
                state.log.push(format!("{standing:?} again"));
                return Err(ApiError { kind: ApiErrorKind::AlreadyExists, detail: name });
            }
            let short = name.split_at_checked(9).map_or("", |(short, _)| short);
            let shown = if short == "node-csr-" { short } else { &name };
            let line = format!("{standing:?} {} {shown}", request.spec.signer_name);
            state.log.push(line);
            let mut made = request.clone();
            made.metadata.name = Some(name.clone());
            made.metadata.uid = Some(format!("uid-{number}"));
            made.metadata.resource_version = Some(authority.version.borrow().to_string());
            state.requests.insert(name.clone(), made);
            (state.mood, name)
        };
        let made = authority.state().requests.get(&name).cloned().expect("just made");
        authority.settle(&name, mood);
        Ok(made)
    }

    async fn get(&self, name: &str) -> Result<CertificateSigningRequest, ApiError> {
        self.0.check(self.1)?;
        let found = self.0.state().requests.get(name).cloned();
        found.ok_or(ApiError { kind: ApiErrorKind::NotFound, detail: name.into() })
    }

    async fn changed(&self, _name: &str, version: &str) -> Result<(), ApiError> {
        let mut changes = self.0.version.subscribe();
        let old: u64 = version.parse().expect("a version of ours");
        changes.wait_for(|new| *new != old).await.map(drop).expect("the authority is there");
        Ok(())
    }
}

pub(super) struct FakeDesk {
    pub(super) authority: Authority,
    pub(super) bootstrap: bool,
}

#[async_trait]
impl Desk for FakeDesk {
    async fn open(&self, standing: Standing) -> Result<Box<dyn Requests>, Problem> {
        Ok(Box::new(Window(self.authority.clone(), standing)))
    }

    fn has_bootstrap(&self) -> bool {
        self.bootstrap
    }
}
