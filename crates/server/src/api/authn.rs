//! Authentication: by client certificate, by token, or as anonymous (HTTP-02).
//! upstream: apiserver/pkg/authentication/authenticatorfactory/delegating.go New (v1.36)

use std::fmt::Write as _;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rubelet_engine::ports::{Caller, Reviews};
use tracing::{debug, warn};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::attempts::Attempts;
use super::connection::Peer;
use super::tls::Tls;
use crate::log_limiter::LogLimiter;

const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";
/// The credential of a user, for audit. upstream: apiserver/pkg/authentication/user CredentialIDKey (v1.36)
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";
/// The attribute of a certificate's subject that holds a user's UID.
/// upstream: apiserver/pkg/authentication/request/x509/x509.go (v1.36)
const UID: &str = "1.3.6.1.4.1.57683.2";

/// Authenticates requests.
pub(super) struct Authn {
    pub(super) tls: Arc<Tls>,
    /// Reviews tokens, if tokens are accepted.
    pub(super) tokens: Option<Arc<dyn Reviews>>,
    pub(super) anonymous: bool,
    /// Limits token reviews for connections that are not admitted yet.
    pub(super) attempts: Attempts,
    /// Limits a warning that any client can cause.
    pub(super) failures: LogLimiter,
}

/// Why a request is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthnError {
    /// No valid credential was presented.
    Unauthorized,
    /// Too many tokens from the peer's address were rejected; this one was not reviewed.
    TooOften,
}

impl Authn {
    /// The user of a request. A client that presents an invalid credential and no valid one is not anonymous.
    pub(super) async fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, AuthnError> {
        let mut refused = false;
        match self.tls.verify(&peer.presented).await {
            Some(Ok(())) => {
                if let Some(caller) = peer.presented.leaf().and_then(|leaf| subject(leaf)) {
                    return Ok(authenticated(caller));
                }
            }
            Some(Err(err)) => {
                debug!(%err, "A client certificate was rejected");
                refused = true;
            }
            None => {}
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, bearer(headers)) {
            match self.review_token(tokens.as_ref(), token, peer).await? {
                Some(caller) => return Ok(authenticated(caller)),
                None => refused = true,
            }
        }
        let anonymous = || Caller { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Caller::default() };
        if self.anonymous && !refused { Ok(anonymous()) } else { Err(AuthnError::Unauthorized) }
    }

    /// The user of a token, if it is authenticated.
    async fn review_token(&self, tokens: &dyn Reviews, token: &str, peer: &Peer) -> Result<Option<Caller>, AuthnError> {
        let attempt = if peer.is_admitted() {
            None
        } else {
            Some(self.attempts.begin(peer.origin()).await.ok_or(AuthnError::TooOften)?)
        };
        match tokens.who_is(token).await {
            Ok(Some(caller)) => {
                if let Some(attempt) = attempt {
                    attempt.succeeded();
                }
                Ok(Some(caller))
            }
            Ok(None) => Ok(None),
            Err(err) => {
                if let Some(suppressed) = self.failures.permit() {
                    warn!(%err, suppressed, "Unable to authenticate the request: the TokenReview failed");
                }
                Ok(None)
            }
        }
    }
}

/// upstream: apiserver/pkg/authentication/group/authenticated_group_adder.go (v1.36)
fn authenticated(mut caller: Caller) -> Caller {
    let has_group = caller.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
    if caller.name != ANONYMOUS && !has_group {
        caller.groups.push(AUTHENTICATED.into());
    }
    caller
}

/// upstream: apiserver/pkg/authentication/request/bearertoken/bearertoken.go (v1.36)
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut words = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().splitn(3, ' ');
    let scheme = words.next().filter(|word| word.eq_ignore_ascii_case("bearer"));
    scheme.and_then(|_| words.next()).filter(|token| !token.is_empty())
}

/// The user of a certificate: its common name, with its organizations as groups. `None` without a common name.
#[doc(alias = "CommonNameUserConversion")]
fn subject(der: &[u8]) -> Option<Caller> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().ok().map(str::to_owned);
    let name = subject.iter_common_name().filter_map(text).last().filter(|name| !name.is_empty())?;
    let groups = subject.iter_organization().filter_map(text).collect();
    let mut uids = subject.iter_attributes().filter(|attribute| attribute.attr_type().to_id_string() == UID);
    let uid = uids.next().and_then(text).unwrap_or_default();
    // As upstream, a certificate with two UIDs is rejected.
    if uids.next().is_some() {
        return None;
    }
    let mut print = "X509SHA256=".to_owned();
    for byte in ring::digest::digest(&ring::digest::SHA256, der).as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(print, "{byte:02x}");
    }
    Some(Caller { name, uid, groups, extra: [(CREDENTIAL.to_owned(), vec![print])].into() })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(parts: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, text) in parts {
            params.distinguished_name.push(kind.clone(), *text);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn http_02_a_certificate_names_a_user_and_its_groups() {
        let name = || (DnType::CommonName, "kube-apiserver-kubelet-client");
        let group = || (DnType::OrganizationName, "system:masters");
        let uid = || (DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "u-1");
        let rows: [(&[_], _); 5] = [
            (&[name(), group()], Some(("kube-apiserver-kubelet-client", "", vec!["system:masters"]))),
            (&[name()], Some(("kube-apiserver-kubelet-client", "", vec![]))),
            (&[name(), uid()], Some(("kube-apiserver-kubelet-client", "u-1", vec![]))),
            (&[group()], None),
            (&[], None),
        ];
        for (parts, expected) in rows {
            let found = subject(&certificate(parts));
            let expected = expected.map(|(name, uid, groups)| {
                (name.to_owned(), uid.to_owned(), groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>())
            });
            assert_eq!(found.map(|caller| (caller.name, caller.uid, caller.groups)), expected);
        }
        assert_eq!(subject(b"no certificate"), None);
    }

    #[test]
    fn http_02_a_token_is_one_word_after_bearer() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("  BEARER abc  ", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer ", None),
            ("Bearer", None),
            ("Basic abc", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, header.parse().unwrap())]);
            assert_eq!(bearer(&headers), token, "{header:?}");
        }
    }

    #[test]
    fn http_02_every_authenticated_user_is_in_one_group() {
        let caller = |name: &str, groups: &[&str]| Caller {
            name: name.into(),
            groups: groups.iter().map(|group| (*group).into()).collect(),
            ..Caller::default()
        };
        for (caller, groups) in [
            (caller("a", &[]), vec![AUTHENTICATED]),
            (caller("a", &["b"]), vec!["b", AUTHENTICATED]),
            (caller("a", &[AUTHENTICATED]), vec![AUTHENTICATED]),
            (caller(ANONYMOUS, &["b"]), vec!["b"]),
        ] {
            assert_eq!(authenticated(caller).groups, groups);
        }
    }
}
