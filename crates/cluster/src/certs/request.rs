//! Asking for one certificate: a request is made, or found again, and waited for.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_core::certs::{Answer, Purpose, answer};
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use tracing::{debug, info};

/// How long a request is waited for before another is made.
///
/// upstream: certificate_manager.go certificateWaitTimeout (v1.36).
pub(super) const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// A watch that broke, or told nothing new, is made again after this time.
const PAUSE: Duration = Duration::from_secs(1);

/// Certificate requests in the API.
#[async_trait]
pub(super) trait Requests: Send + Sync {
    async fn create(&self, request: &CertificateSigningRequest) -> Result<CertificateSigningRequest, ApiError>;
    async fn get(&self, name: &str) -> Result<CertificateSigningRequest, ApiError>;
    /// Waits until the request may be another than at `version`. Nothing is lost if the wait is given up.
    async fn changed(&self, name: &str, version: &str) -> Result<(), ApiError>;
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("ask for a certificate")]
    Create(#[source] ApiError),
    #[error("look at certificate request {name}")]
    Get { name: String, source: ApiError },
    #[error("certificate request {name} was {how}: {reason}: {message}")]
    Refused { name: String, how: &'static str, reason: String, message: String },
    #[error("certificate request {name} was deleted or replaced by another before it was answered")]
    Gone { name: String },
    #[error("there is a certificate request {name} already, for signer {signer}")]
    Foreign { name: String, signer: String },
    #[error(
        "certificate request {name} was not approved and signed within {PATIENCE:?}: approve it with `kubectl certificate approve {name}`, or see whether the approving and signing controllers run"
    )]
    Late { name: String },
}

impl RequestError {
    /// The API server does not know who asks.
    pub(super) fn is_unauthorized(&self) -> bool {
        match self {
            Self::Create(error) | Self::Get { source: error, .. } => error.kind == ApiErrorKind::Unauthorized,
            _ => false,
        }
    }

    /// Asking again with the same key and name would be answered the same.
    pub(super) fn spoils_the_key(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Gone { .. } | Self::Foreign { .. })
    }
}

/// What is asked for.
pub(super) struct Asked {
    pub(super) purpose: Purpose,
    /// The request, in PEM.
    pub(super) pem: String,
    /// A name by which a restart finds it again; without one the API server gives it a name.
    pub(super) name: Option<String>,
}

/// Asks, and waits. The certificate is in PEM.
///
/// upstream: client-go util/certificate/csr/csr.go RequestCertificate, WaitForCertificate (v1.36)
#[doc(alias = "RequestCertificate")]
pub(super) async fn obtain(requests: &dyn Requests, asked: &Asked) -> Result<Vec<u8>, RequestError> {
    let request = hand_in(requests, asked).await?;
    let name = request.metadata.name.clone().unwrap_or_default();
    let work = wait(requests, &name, request);
    tokio::time::timeout(PATIENCE, work).await.unwrap_or(Err(RequestError::Late { name: name.clone() }))
}

async fn hand_in(requests: &dyn Requests, asked: &Asked) -> Result<CertificateSigningRequest, RequestError> {
    let signer = asked.purpose.signer();
    match requests.create(&object(asked)).await {
        Ok(request) => {
            info!(csr = request.metadata.name, signer, "Asked for a certificate");
            Ok(request)
        }
        Err(error) if error.kind == ApiErrorKind::AlreadyExists && asked.name.is_some() => {
            let name = asked.name.clone().unwrap_or_default();
            let found = requests.get(&name).await;
            let found = found.map_err(|source| RequestError::Get { name: name.clone(), source })?;
            if found.spec.signer_name != signer {
                return Err(RequestError::Foreign { name, signer: found.spec.signer_name });
            }
            info!(csr = name, signer, "Found the certificate request of an earlier run");
            Ok(found)
        }
        Err(error) => Err(RequestError::Create(error)),
    }
}

async fn wait(
    requests: &dyn Requests,
    name: &str,
    mut request: CertificateSigningRequest,
) -> Result<Vec<u8>, RequestError> {
    let uid = request.metadata.uid.clone().unwrap_or_default();
    let mut told = false;
    loop {
        match answer(&request, &uid) {
            Answer::Issued(certificate) => return Ok(certificate),
            Answer::Refused { how, reason, message } => {
                return Err(RequestError::Refused { name: name.into(), how, reason, message });
            }
            Answer::Replaced => return Err(RequestError::Gone { name: name.into() }),
            Answer::Approved => debug!(csr = name, "The certificate request is approved"),
            Answer::Waiting if !told => {
                told = true;
                info!(csr = name, "Waiting for the certificate request to be approved");
            }
            Answer::Waiting => {}
        }
        let version = request.metadata.resource_version.clone().unwrap_or_default();
        if let Err(error) = requests.changed(name, &version).await {
            debug!(csr = name, err = %error, "The watch of the certificate request broke");
            tokio::time::sleep(PAUSE).await;
        }
        request = match requests.get(name).await {
            Ok(request) => request,
            Err(error) if error.is_not_found() => return Err(RequestError::Gone { name: name.into() }),
            // The API server may be away for a while; the request waits for us.
            Err(error) if matches!(error.kind, ApiErrorKind::Unauthorized | ApiErrorKind::Forbidden) => {
                return Err(RequestError::Get { name: name.into(), source: error });
            }
            Err(error) => {
                debug!(csr = name, err = %error, "The certificate request cannot be read");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        if request.metadata.resource_version.as_ref() == Some(&version) {
            // The watch is behind, or was looked past: not again at once.
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn object(asked: &Asked) -> CertificateSigningRequest {
    CertificateSigningRequest {
        metadata: ObjectMeta {
            generate_name: asked.name.is_none().then(|| "csr-".to_owned()),
            name: asked.name.clone(),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(asked.pem.clone().into_bytes()),
            signer_name: asked.purpose.signer().into(),
            usages: Some(asked.purpose.usages().map(str::to_owned).to_vec()),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}
