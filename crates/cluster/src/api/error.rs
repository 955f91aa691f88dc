//! What can go wrong on the way, before the API server has said a word.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rubelet_engine::ports::{ApiError, ApiErrorKind};
use tokio_rustls::rustls;
use tokio_rustls::rustls::{AlertDescription, CertificateError};

use super::credentials::CredentialsError;
use crate::decode::explain;

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("connect to {server}")]
    Connect { server: String, source: std::io::Error },
    #[error("connect to {server}: no answer within {after:?}")]
    ConnectTimeout { server: String, after: Duration },
    #[error("TLS with {server}")]
    Tls { server: String, source: std::io::Error },
    #[error("our credentials for {server}")]
    Credentials { server: String, source: CredentialsError },
    #[error("trust in {server}")]
    Trust { server: String, source: super::endpoint::BadTrust },
    #[error("HTTP/2 with {server}")]
    Http2 { server: String, source: h2::Error },
    #[error("the connection to {server} was lost")]
    Lost { server: String, source: Arc<h2::Error> },
    #[error("the connection to {server} was closed by the server")]
    Closed { server: String },
    #[error("HTTP with {server}")]
    Http1 { server: String, source: hyper::Error },
    #[error("the proxy at {proxy} does not let us through to {server}: it answered {answer:?}")]
    Proxy { proxy: String, server: String, answer: String },
    #[error("the connection to {server} stalled: no sign of life for {after:?}")]
    Stalled { server: String, after: Duration },
    #[error("the request cannot be made")]
    Request(#[from] http::Error),
    #[error("the answer is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the client has been stopped")]
    Stopped,
}

impl WireError {
    /// For the caller: with what a person can do about it.
    pub(super) fn to_api(&self) -> ApiError {
        let mut detail = explain(self);
        if let Some(hint) = hint(self) {
            detail = format!("{detail} ({hint})");
        }
        // A connection that did not come about in time is no answer of the server: nothing was asked of it.
        let kind = match self {
            Self::TooLarge { .. } | Self::Request(_) => ApiErrorKind::Garbage,
            _ => ApiErrorKind::Unavailable,
        };
        ApiError { kind, detail }
    }
}

/// What a person should look at, where the library's words do not say so.
fn hint(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return tls_hint(tls);
        }
        // An I/O error shows its inner error's causes, not the inner error itself.
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
            AlertDescription::CertificateExpired => Some("our client certificate has expired"),
            AlertDescription::CertificateRevoked => Some("our client certificate has been revoked"),
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate => Some("the server does not accept our client certificate"),
            AlertDescription::CertificateRequired => Some("the server wants a client certificate, and we have none"),
            _ => None,
        },
        rustls::Error::InvalidMessage(_) => Some("does the server speak TLS at all?"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handshake storm must not turn each resume of a watch into a list: see the reflector.
    #[test]
    fn a_connection_that_does_not_come_about_in_time_is_no_answer_of_the_server() {
        let error = WireError::ConnectTimeout { server: "https://api".into(), after: Duration::from_secs(10) };
        assert_eq!(error.to_api().kind, ApiErrorKind::Unavailable);
    }
}
