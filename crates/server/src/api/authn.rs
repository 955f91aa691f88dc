//! Who asks: by client certificate, by token, or nobody in particular (HTTP-02).
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
use crate::rarely::Rarely;

const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";
/// By which credential somebody is known, for audit. upstream: apiserver/pkg/authentication/user CredentialIDKey (v1.36)
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";
/// The attribute of a certificate's subject that holds a user's UID.
/// upstream: apiserver/pkg/authentication/request/x509/x509.go (v1.36)
const UID: &str = "1.3.6.1.4.1.57683.2";

/// How it is told who asks.
pub(super) struct Authn {
    pub(super) tls: Arc<Tls>,
    /// Whose token it is, if tokens are taken.
    pub(super) tokens: Option<Arc<dyn Reviews>>,
    pub(super) anonymous: bool,
    /// How often tokens of clients that were not let in yet are reviewed.
    pub(super) attempts: Attempts,
    /// Paces a warning that any client can cause.
    pub(super) failures: Rarely,
}

/// Why it is not known who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotKnown {
    /// Nothing was shown that is believed.
    Unauthorized,
    /// Too many tokens from the peer's address were refused for another to be looked at.
    TooOften,
}

impl Authn {
    /// Who asks. A client that shows something that is not believed, and nothing that is, is not taken for anonymous.
    pub(super) async fn who(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, NotKnown> {
        let mut refused = false;
        match self.tls.verify(&peer.shown).await {
            Some(Ok(())) => {
                if let Some(caller) = peer.shown.leaf().and_then(|leaf| subject(leaf)) {
                    return Ok(authenticated(caller));
                }
            }
            Some(Err(err)) => {
                debug!(%err, "A client certificate is not believed");
                refused = true;
            }
            None => {}
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, bearer(headers)) {
            match self.owner(tokens.as_ref(), token, peer).await? {
                Some(caller) => return Ok(authenticated(caller)),
                None => refused = true,
            }
        }
        let nobody = || Caller { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Caller::default() };
        if self.anonymous && !refused { Ok(nobody()) } else { Err(NotKnown::Unauthorized) }
    }

    /// Whose token it is, if that can be known.
    async fn owner(&self, tokens: &dyn Reviews, token: &str, peer: &Peer) -> Result<Option<Caller>, NotKnown> {
        let attempt = if peer.is_admitted() {
            None
        } else {
            Some(self.attempts.begin(peer.origin()).await.ok_or(NotKnown::TooOften)?)
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
                if let Some(left_out) = self.failures.turn() {
                    warn!(%err, left_out, "Cannot ask the API server whose token it is");
                }
                Ok(None)
            }
        }
    }
}

/// upstream: apiserver/pkg/authentication/group/authenticated_group_adder.go (v1.36)
fn authenticated(mut caller: Caller) -> Caller {
    let told = caller.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
    if caller.name != ANONYMOUS && !told {
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

/// The user that a certificate is about: its common name, with its organizations as groups. `None` without a name.
#[doc(alias = "CommonNameUserConversion")]
fn subject(der: &[u8]) -> Option<Caller> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().ok().map(str::to_owned);
    let name = subject.iter_common_name().filter_map(text).last().filter(|name| !name.is_empty())?;
    let groups = subject.iter_organization().filter_map(text).collect();
    let mut uids = subject.iter_attributes().filter(|attribute| attribute.attr_type().to_id_string() == UID);
    let uid = uids.next().and_then(text).unwrap_or_default();
    // Two of them are none: upstream refuses the certificate.
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
    fn http_02_everybody_known_is_in_one_group() {
        let caller = |name: &str, groups: &[&str]| Caller {
            name: name.into(),
            groups: groups.iter().map(|group| (*group).into()).collect(),
            ..Caller::default()
        };
        for (given, groups) in [
            (caller("a", &[]), vec![AUTHENTICATED]),
            (caller("a", &["b"]), vec!["b", AUTHENTICATED]),
            (caller("a", &[AUTHENTICATED]), vec![AUTHENTICATED]),
            (caller(ANONYMOUS, &["b"]), vec!["b"]),
        ] {
            assert_eq!(authenticated(given).groups, groups);
        }
    }
}
