//! Failures of the connection to the API server, before any response.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rubelet_engine::ports::{ApiError, ApiErrorKind};
use tokio_rustls::rustls;
use tokio_rustls::rustls::{AlertDescription, CertificateError};

use super::credentials::CredentialsError;
use crate::decode::explain;

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("connect to {server}")]
    Connect { server: String, source: std::io::Error },
    #[error("connect to {server}: timed out after {after:?}")]
    ConnectTimeout { server: String, after: Duration },
    #[error("TLS with {server}")]
    Tls { server: String, source: std::io::Error },
    #[error("credentials for {server}")]
    Credentials { server: String, source: CredentialsError },
    #[error("verification of {server}")]
    Trust { server: String, source: super::endpoint::BadTrust },
    #[error("HTTP/2 with {server}")]
    Http2 { server: String, source: h2::Error },
    #[error("the connection to {server} was lost")]
    Lost { server: String, source: Arc<h2::Error> },
    #[error("the connection to {server} was closed by the server")]
    Closed { server: String },
    #[error("HTTP with {server}")]
    Http1 { server: String, source: hyper::Error },
    #[error("the proxy at {proxy} refused to connect to {server}: it answered {answer:?}")]
    Proxy { proxy: String, server: String, answer: String },
    #[error("the connection to {server} stalled: nothing was received for {after:?}")]
    Stalled { server: String, after: Duration },
    #[error("the request cannot be made")]
    Request(#[from] http::Error),
    #[error("the response is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the client has been stopped")]
    Stopped,
}

impl WireError {
    /// The error for the caller, with a hint for the administrator.
    pub(super) fn to_api(&self) -> ApiError {
        let mut detail = explain(self);
        if let Some(hint) = hint(self) {
            detail = format!("{detail} ({hint})");
        }
        // A connect timeout is `Unavailable`, not `Timeout`: no request was sent.
        let kind = match self {
            Self::TooLarge { .. } | Self::Request(_) => ApiErrorKind::Garbage,
            _ => ApiErrorKind::Unavailable,
        };
        ApiError { kind, detail }
    }
}

/// What the administrator should check, where the library's text does not say it.
fn hint(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return tls_hint(tls);
        }
        // `source` of an I/O error skips the inner error itself.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(tls) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return tls_hint(tls);
        }
        let http = error.downcast_ref::<h2::Error>().or(error.downcast_ref::<Arc<h2::Error>>().map(|error| &**error));
        if let Some(io) = http.and_then(h2::Error::get_io)
            && let Some(tls) = io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            return tls_hint(tls);
        }
        next = error.source();
    }
    None
}

fn tls_hint(error: &rustls::Error) -> Option<&'static str> {
    match error {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Some("the server's certificate is not signed by the certificate-authority of the kubeconfig")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                Some("the server's certificate has expired, or this machine's clock is wrong")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Some("the server's certificate is not valid yet: is this machine's clock right?")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Some("the server's certificate is for another name: see server and tls-server-name in the kubeconfig")
            }
            _ => None,
        },
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateExpired => Some("the client certificate has expired"),
            AlertDescription::CertificateRevoked => Some("the client certificate has been revoked"),
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate => Some("the server does not accept the client certificate"),
            AlertDescription::CertificateRequired => {
                Some("the server requires a client certificate, and none is configured")
            }
            _ => None,
        },
        rustls::Error::InvalidMessage(_) => Some("does the server speak TLS at all?"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a wave of slow handshakes would turn every resumed watch into a relist: see the reflector.
    #[test]
    fn a_connect_timeout_is_unavailable_and_not_a_request_timeout() {
        let error = WireError::ConnectTimeout { server: "https://api".into(), after: Duration::from_secs(10) };
        assert_eq!(error.to_api().kind, ApiErrorKind::Unavailable);
    }
}
