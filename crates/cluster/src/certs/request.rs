//! One certificate signing request: created or found again, then waited for.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_core::certs::{Answer, Purpose, answer};
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use tracing::{debug, info};

/// How long a CSR is waited for before another one is created.
///
/// upstream: certificate_manager.go certificateWaitTimeout (v1.36).
pub(super) const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Pause before a watch that failed or brought no change is restarted.
const PAUSE: Duration = Duration::from_secs(1);

/// Certificate signing requests in the API.
#[async_trait]
pub(super) trait Requests: Send + Sync {
    async fn create(&self, request: &CertificateSigningRequest) -> Result<CertificateSigningRequest, ApiError>;
    async fn get(&self, name: &str) -> Result<CertificateSigningRequest, ApiError>;
    /// Waits until the CSR may differ from `version`. Cancel-safe.
    async fn changed(&self, name: &str, version: &str) -> Result<(), ApiError>;
}

/// Why no certificate was issued.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("create a certificate request")]
    Create(#[source] ApiError),
    #[error("read certificate request {name}")]
    Get { name: String, source: ApiError },
    #[error("certificate request {name} was {how}: {reason}: {message}")]
    Refused { name: String, how: &'static str, reason: String, message: String },
    #[error("certificate request {name} was deleted or replaced by another before it was signed")]
    Gone { name: String },
    #[error("there is a certificate request {name} already, for signer {signer}")]
    Foreign { name: String, signer: String },
    #[error(
        "certificate request {name} was not approved and signed within {PATIENCE:?}: approve it with `kubectl certificate approve {name}`, or check the approving and signing controllers"
    )]
    Late { name: String },
}

impl RequestError {
    /// Whether the API server answered 401.
    pub(super) fn is_unauthorized(&self) -> bool {
        match self {
            Self::Create(error) | Self::Get { source: error, .. } => error.kind == ApiErrorKind::Unauthorized,
            _ => false,
        }
    }

    /// Whether a request with the same key and name would fail the same way.
    pub(super) fn needs_a_new_key(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Gone { .. } | Self::Foreign { .. })
    }
}

/// The content of a CSR.
pub(super) struct Asked {
    pub(super) purpose: Purpose,
    /// The PKCS #10 request, in PEM.
    pub(super) pem: String,
    /// A name by which a restart finds the CSR; without one the API server generates a name.
    pub(super) name: Option<String>,
}

/// Creates a CSR and waits for its certificate, which is in PEM.
///
/// upstream: client-go util/certificate/csr/csr.go RequestCertificate, WaitForCertificate (v1.36)
#[doc(alias = "RequestCertificate")]
pub(super) async fn obtain(requests: &dyn Requests, asked: &Asked) -> Result<Vec<u8>, RequestError> {
    let request = create(requests, asked).await?;
    let name = request.metadata.name.clone().unwrap_or_default();
    let work = wait(requests, &name, request);
    tokio::time::timeout(PATIENCE, work).await.unwrap_or(Err(RequestError::Late { name: name.clone() }))
}

async fn create(requests: &dyn Requests, asked: &Asked) -> Result<CertificateSigningRequest, RequestError> {
    let signer = asked.purpose.signer();
    match requests.create(&object(asked)).await {
        Ok(request) => {
            info!(csr = request.metadata.name, signer, "Created a certificate request");
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
    let mut logged = false;
    loop {
        match answer(&request, &uid) {
            Answer::Issued(certificate) => return Ok(certificate),
            Answer::Refused { how, reason, message } => {
                return Err(RequestError::Refused { name: name.into(), how, reason, message });
            }
            Answer::Replaced => return Err(RequestError::Gone { name: name.into() }),
            Answer::Approved => debug!(csr = name, "The certificate request is approved"),
            Answer::Waiting if !logged => {
                logged = true;
                info!(csr = name, "Waiting for the certificate request to be approved");
            }
            Answer::Waiting => {}
        }
        let version = request.metadata.resource_version.clone().unwrap_or_default();
        if let Err(error) = requests.changed(name, &version).await {
            debug!(csr = name, err = %error, "The watch of the certificate request failed");
            tokio::time::sleep(PAUSE).await;
        }
        request = match requests.get(name).await {
            Ok(request) => request,
            Err(error) if error.is_not_found() => return Err(RequestError::Gone { name: name.into() }),
            // During an outage the CSR stays pending.
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
            // The watch is behind, or missed the change: it is not restarted at once.
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
