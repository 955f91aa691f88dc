//! Certificates of the node: the request, the time of renewal, and the answer.
//!
//! Nothing here reads a certificate or a clock: the content of a certificate is a [`Leaf`], and time and randomness are
//! arguments. The loops that send requests and write files are in `cluster::certs`.
//! upstream: client-go util/certificate/certificate_manager.go, kubelet/certificate/kubelet.go (v1.36)

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::NodeAddress;

use crate::backoff::Doubling;

mod answer;
mod name;

pub use answer::{Answer, answer};
pub use name::{DIGEST_LEN, base64_url, csr_name};

/// Share of a certificate's life after which it is renewed at the earliest.
const RENEW_FROM: f64 = 0.7;
/// Share of its life over which nodes that were made together spread their renewals.
const RENEW_SPREAD: f64 = 0.2;
/// Pauses after requests that brought no certificate.
const RETRIES: Doubling = Doubling::new(Duration::from_secs(2), Duration::from_secs(32));
/// So many pauses have jitter; after that each is the longest.
const GROWING_RETRIES: u32 = 4;
/// Share of a growing pause that chance adds.
const RETRY_JITTER: f64 = 0.1;

/// What a certificate is for. It decides signer, usages, and names of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The kubelet presents it to the API server.
    Client,
    /// The kubelet's server presents it.
    Serving,
}

impl Purpose {
    /// The signer.
    pub fn signer(self) -> &'static str {
        match self {
            Self::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::Serving => "kubernetes.io/kubelet-serving",
        }
    }

    /// What it may be used for. Our keys are elliptic: `key encipherment` is for RSA alone (TLS-02, TLS-03).
    pub fn usages(self) -> [&'static str; 2] {
        match self {
            Self::Client => ["digital signature", "client auth"],
            Self::Serving => ["digital signature", "server auth"],
        }
    }

    /// Prefix of its file names.
    #[doc(alias = "pairNamePrefix")]
    pub fn file_prefix(self) -> &'static str {
        match self {
            Self::Client => "kubelet-client",
            Self::Serving => "kubelet-server",
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Serving => "serving",
        })
    }
}

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Not before this.
    pub not_before: Timestamp,
    /// Not after this.
    pub not_after: Timestamp,
}

impl Validity {
    /// Where `now` lies.
    pub fn at(self, now: Timestamp) -> Phase {
        if now > self.not_after {
            Phase::Expired
        } else if now < self.not_before {
            Phase::Early
        } else {
            Phase::Valid
        }
    }
}

/// Where a moment lies in a certificate's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before its start: a clock is wrong.
    Early,
    /// Within it.
    Valid,
    /// After it.
    Expired,
}

/// The content of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its validity.
    pub validity: Validity,
    /// Subject: common name.
    pub common_name: String,
    /// Subject: organisations.
    pub organizations: BTreeSet<String>,
    /// Alternative names: DNS.
    pub dns_names: BTreeSet<String>,
    /// Alternative names: addresses.
    pub ips: BTreeSet<IpAddr>,
}

/// A certificate in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// What it is for.
    pub purpose: Purpose,
    /// Its content.
    pub leaf: Leaf,
    /// When it will be rotated; `None` if it is replaced by others or not at all.
    pub renewal: Option<Timestamp>,
}

/// The required content of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "x509.CertificateRequest")]
pub struct Wish {
    /// Subject: common name.
    pub common_name: String,
    /// Subject: organisations.
    pub organizations: Vec<String>,
    /// Alternative names: DNS.
    pub dns_names: BTreeSet<String>,
    /// Alternative names: addresses.
    pub ips: BTreeSet<IpAddr>,
}

impl Wish {
    /// For a client certificate: the node's identity.
    pub fn client(node: &str) -> Self {
        Self {
            common_name: format!("system:node:{node}"),
            organizations: vec!["system:nodes".into()],
            dns_names: BTreeSet::new(),
            ips: BTreeSet::new(),
        }
    }

    /// For a serving certificate: the node's identity and addresses. `None` while it has no address, because such a request
    /// would not be signed; a DNS name alone suffices only under the gate `AllowDNSOnlyNodeCSR` (TLS-02).
    ///
    /// upstream: kubelet/certificate/kubelet.go newGetTemplateFn, addressesToHostnamesAndIPs (v1.36)
    #[doc(alias = "newGetTemplateFn")]
    pub fn serving(node: &str, addresses: &[NodeAddress], dns_only: DnsOnly) -> Option<Self> {
        let mut wish = Self::client(node);
        for NodeAddress { type_, address } in addresses {
            if address.is_empty() {
                continue;
            }
            let ip = address.parse::<IpAddr>().ok();
            match (type_.as_str(), ip) {
                ("Hostname" | "ExternalIP" | "InternalIP", Some(ip)) => {
                    wish.ips.insert(ip);
                }
                ("Hostname", None) | ("ExternalDNS" | "InternalDNS", _) => {
                    wish.dns_names.insert(address.clone());
                }
                _ => {}
            }
        }
        let enough = !wish.ips.is_empty() || (dns_only == DnsOnly::Allowed && !wish.dns_names.is_empty());
        enough.then_some(wish)
    }

    /// What `leaf` lacks, if anything. Additional names are fine.
    #[doc(alias = "certSatisfiesTemplate")]
    pub fn lack(&self, leaf: &Leaf) -> Option<Lack> {
        if self.common_name != leaf.common_name {
            return Some(Lack::CommonName { has: leaf.common_name.clone(), wanted: self.common_name.clone() });
        }
        if let Some(name) = self.dns_names.difference(&leaf.dns_names).next() {
            return Some(Lack::DnsName(name.clone()));
        }
        if let Some(ip) = self.ips.difference(&leaf.ips).next() {
            return Some(Lack::Ip(*ip));
        }
        let organization = self.organizations.iter().find(|wanted| !leaf.organizations.contains(*wanted));
        organization.map(|wanted| Lack::Organization(wanted.clone()))
    }
}

/// Whether a serving certificate may be asked for with names alone: the gate `AllowDNSOnlyNodeCSR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsOnly {
    /// It may.
    Allowed,
    /// At least one address is needed.
    Refused,
}

/// What a certificate lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// It has another subject.
    CommonName {
        /// Whose.
        has: String,
        /// Whose it should be.
        wanted: String,
    },
    /// This name.
    DnsName(String),
    /// This address.
    Ip(IpAddr),
    /// This group.
    Organization(String),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommonName { has, wanted } => write!(f, "it is for {has}, not for {wanted}"),
            Self::DnsName(name) => write!(f, "it lacks the name {name}"),
            Self::Ip(ip) => write!(f, "it lacks the address {ip}"),
            Self::Organization(group) => write!(f, "it lacks the group {group}"),
        }
    }
}

/// Whether to ask for a certificate, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// At once, and why.
    Now(Why),
    /// At this time.
    At(Timestamp),
    /// Not while the required content is unknown.
    Nothing,
}

/// Why a certificate is asked for at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is none.
    Missing,
    /// It is past its end, as this node's clock has it.
    Expired(Timestamp),
    /// It lacks a name, address or group.
    Lacks(Lack),
    /// It is old enough.
    Due(Timestamp),
    /// The API server rejects it although it is valid: it was revoked, or its CA was replaced.
    Refused,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is none"),
            Self::Expired(at) => write!(f, "it expired at {at}"),
            Self::Lacks(lack) => lack.fmt(f),
            Self::Due(at) => write!(f, "it was due for renewal at {at}"),
            Self::Refused => f.write_str("the API server does not accept it"),
        }
    }
}

/// When a certificate with this life is renewed: after 70 to 90 % of it, as `chance` (0 to 1) has it (TLS-03).
#[doc(alias = "nextRotationDeadline")]
#[doc(alias = "jitteryDuration")]
pub fn rotation_deadline(validity: Validity, chance: f64) -> Timestamp {
    let life = validity.not_after.duration_since(validity.not_before).max(SignedDuration::ZERO);
    let share = RENEW_FROM + RENEW_SPREAD * chance.clamp(0.0, 1.0);
    validity.not_before.checked_add(life.mul_f64(share)).unwrap_or(validity.not_after)
}

/// Whether to ask for a new certificate now, later, or not at all. `deadline` is the
/// [`rotation_deadline`] of `current`, which is drawn once for each certificate.
#[doc(alias = "needsRenewal")]
pub fn renewal(current: Option<(&Leaf, Timestamp)>, wish: Option<&Wish>, now: Timestamp) -> Renewal {
    let Some(wish) = wish else { return Renewal::Nothing };
    let Some((leaf, deadline)) = current else { return Renewal::Now(Why::Missing) };
    if leaf.validity.at(now) == Phase::Expired {
        return Renewal::Now(Why::Expired(leaf.validity.not_after));
    }
    if let Some(lack) = wish.lack(leaf) {
        return Renewal::Now(Why::Lacks(lack));
    }
    if deadline <= now { Renewal::Now(Why::Due(deadline)) } else { Renewal::At(deadline) }
}

/// How long to wait after `failures` requests in a row that brought no certificate.
///
/// upstream: certificate_manager.go run (v1.36): five tries from 2 s, doubling, a tenth of jitter, then each 32 s.
pub fn retry_delay(failures: u32, chance: f64) -> Duration {
    match failures.max(1) {
        growing @ ..=GROWING_RETRIES => RETRIES.jittered(growing, RETRY_JITTER * chance.clamp(0.0, 1.0)),
        _ => RETRIES.most,
    }
}

#[cfg(test)]
mod tests;
