//! The outcome of a certificate signing request.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

/// The state of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is not approved yet.
    Waiting,
    /// It is approved, and will be signed.
    Approved,
    /// The certificate, in PEM.
    Issued(Vec<u8>),
    /// It will never be signed.
    Refused {
        /// `denied` or `failed`.
        how: &'static str,
        /// Reason of the condition.
        reason: String,
        /// Message of the condition.
        message: String,
    },
    /// It is another request of the same name.
    Replaced,
}

/// Reads the state of `request`, which was made with this UID.
///
/// upstream: client-go util/certificate/csr/csr.go WaitForCertificate (v1.36)
#[doc(alias = "WaitForCertificate")]
pub fn answer(request: &CertificateSigningRequest, uid: &str) -> Answer {
    if request.metadata.uid.as_deref().unwrap_or_default() != uid {
        return Answer::Replaced;
    }
    let Some(status) = &request.status else { return Answer::Waiting };
    let mut approved = false;
    for condition in status.conditions.iter().flatten() {
        let how = match condition.type_.as_str() {
            "Denied" => "denied",
            "Failed" => "failed",
            "Approved" => {
                approved = true;
                continue;
            }
            _ => continue,
        };
        return Answer::Refused {
            how,
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
        };
    }
    match &status.certificate {
        Some(certificate) if approved && !certificate.0.is_empty() => Answer::Issued(certificate.0.clone()),
        _ if approved => Answer::Approved,
        _ => Answer::Waiting,
    }
}
