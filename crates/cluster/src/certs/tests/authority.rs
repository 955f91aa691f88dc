//! A signing authority in the process: stores CSRs as the API server does, and approves and signs as a test configures it.

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

use super::super::csr_api::{CsrApi, Problem, SignedInAs};
use super::super::pem;
use super::super::request::Requests;

/// How requests are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    /// Approved and signed at once.
    Signs,
    /// Left pending.
    Waits,
    /// Denied.
    Denies,
    /// Signed without addresses.
    LeavesOut,
}

#[derive(Clone)]
pub(super) struct Authority {
    state: Arc<Mutex<State>>,
    version: watch::Sender<u64>,
    /// Number of 401 responses, as the API client counts them.
    pub(super) refusals: watch::Sender<u64>,
    issuer: Arc<Issuer<'static, KeyPair>>,
    clock: Clock,
}

struct State {
    handling: Handling,
    life: Duration,
    requests: BTreeMap<String, CertificateSigningRequest>,
    /// The credentials and the name of each request.
    log: Vec<String>,
    /// Credentials that are answered 401.
    unknown: Vec<SignedInAs>,
    away: bool,
}

impl Authority {
    pub(super) fn new(clock: &Clock, handling: Handling, life: Duration) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = Issuer::new(params, KeyPair::generate().expect("a key"));
        let state =
            State { handling, life, requests: BTreeMap::new(), log: Vec::new(), unknown: Vec::new(), away: false };
        Self {
            state: Arc::new(Mutex::new(state)),
            version: watch::Sender::new(1),
            refusals: watch::Sender::new(0),
            issuer: Arc::new(issuer),
            clock: clock.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    pub(super) fn set_handling(&self, handling: Handling) {
        self.state().handling = handling;
    }

    pub(super) fn set_away(&self, away: bool) {
        self.state().away = away;
    }

    pub(super) fn does_not_know(&self, signed_in_as: SignedInAs) {
        self.state().unknown.push(signed_in_as);
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    pub(super) fn requests(&self) -> Vec<CertificateSigningRequest> {
        self.state().requests.values().cloned().collect()
    }

    /// Approves and signs all pending requests.
    pub(super) fn approve_all(&self) {
        let names: Vec<String> = self.state().requests.keys().cloned().collect();
        for name in names {
            self.settle(&name, Handling::Signs);
        }
    }

    /// The certificate for a CSR, in PEM.
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

    fn settle(&self, name: &str, handling: Handling) {
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
            message: Some("set by the test".into()),
            ..Default::default()
        };
        let status = match handling {
            Handling::Waits => return,
            Handling::Denies => {
                CertificateSigningRequestStatus { certificate: None, conditions: Some(vec![condition("Denied")]) }
            }
            Handling::Signs | Handling::LeavesOut => CertificateSigningRequestStatus {
                certificate: Some(ByteString(self.sign(
                    &request.spec.request.0,
                    life,
                    handling == Handling::LeavesOut,
                ))),
                conditions: Some(vec![condition("Approved")]),
            },
        };
        request.status = Some(status);
        self.version.send_modify(|version| *version += 1);
        request.metadata.resource_version = Some(self.version.borrow().to_string());
    }

    fn check(&self, signed_in_as: SignedInAs) -> Result<(), ApiError> {
        let state = self.state();
        let error = |kind, detail: &str| Err(ApiError { kind, detail: detail.into() });
        if state.away {
            return error(ApiErrorKind::Unavailable, "connection refused");
        }
        if state.unknown.contains(&signed_in_as) {
            self.refusals.send_modify(|count| *count += 1);
            return error(ApiErrorKind::Unauthorized, "Unauthorized");
        }
        Ok(())
    }
}

fn since_epoch(at: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(at.as_second()).expect("after 1970"))
}

/// The API with one kind of credentials.
struct CsrClient(Authority, SignedInAs);

#[async_trait]
impl Requests for CsrClient {
    async fn create(&self, request: &CertificateSigningRequest) -> Result<CertificateSigningRequest, ApiError> {
        let Self(authority, signed_in_as) = self;
        authority.check(*signed_in_as)?;
        let (handling, name) = {
            let mut state = authority.state();
            let number = state.requests.len();
            let generated = request.metadata.generate_name.as_ref().map(|prefix| format!("{prefix}{number}"));
            let name = request.metadata.name.clone().or(generated).expect("a name");
            if state.requests.contains_key(&name) {
                state.log.push(format!("{signed_in_as:?} again"));
                return Err(ApiError { kind: ApiErrorKind::AlreadyExists, detail: name });
            }
            let short = name.split_at_checked(9).map_or("", |(short, _)| short);
            let shown = if short == "node-csr-" { short } else { &name };
            let line = format!("{signed_in_as:?} {} {shown}", request.spec.signer_name);
            state.log.push(line);
            let mut made = request.clone();
            made.metadata.name = Some(name.clone());
            made.metadata.uid = Some(format!("uid-{number}"));
            made.metadata.resource_version = Some(authority.version.borrow().to_string());
            state.requests.insert(name.clone(), made);
            (state.handling, name)
        };
        let made = authority.state().requests.get(&name).cloned().expect("just made");
        authority.settle(&name, handling);
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

pub(super) struct FakeCsrApi {
    pub(super) authority: Authority,
    pub(super) bootstrap: bool,
}

#[async_trait]
impl CsrApi for FakeCsrApi {
    async fn open(&self, signed_in_as: SignedInAs) -> Result<Box<dyn Requests>, Problem> {
        Ok(Box::new(CsrClient(self.authority.clone(), signed_in_as)))
    }

    fn has_bootstrap(&self) -> bool {
        self.bootstrap
    }
}
