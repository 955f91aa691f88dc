//! The host name of a pod (HN-01, HN-02).

use k8s_openapi::api::core::v1::Pod;

use crate::pod::PodExt;

#[cfg(test)]
mod tests;

/// Longest host name: the kernel's field holds 64 bytes, and a DNS label 63.
const MAX_HOSTNAME: usize = 63;
/// Longest name that the kernel's field holds.
const MAX_KERNEL_NAME: usize = 64;

/// A pod's host name and, if it has one, its domain.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Hostname {
    /// The short name.
    pub host: String,
    /// `subdomain.namespace.svc.cluster-domain`; empty without a subdomain.
    pub domain: String,
}

/// Why a pod has no valid host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostnameError {
    /// A field of the spec is not a DNS name.
    #[error("pod {field} {value:?} is not a valid DNS {kind}: {why}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// `label` or `subdomain`.
        kind: &'static str,
        /// The rule for valid values.
        why: String,
    },
    /// The name is empty after it was truncated.
    #[error("hostname for pod {pod:?} was invalid: {hostname:?}")]
    Empty {
        /// Name of the pod.
        pod: String,
        /// The name before it was truncated.
        hostname: String,
    },
    /// The full name is too long for the kernel.
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long ({MAX_KERNEL_NAME} characters is the max, {} characters requested)",
        fqdn.len()
    )]
    TooLong {
        /// The name.
        fqdn: String,
    },
}

/// The host name and domain of a pod. `override_allowed` is the gate `HostnameOverride`.
///
/// upstream: kubelet_pods.go GeneratePodHostNameAndDomain (v1.36)
#[doc(alias = "GeneratePodHostNameAndDomain")]
pub fn pod_hostname(pod: &Pod, cluster_domain: &str, override_allowed: bool) -> Result<Hostname, HostnameError> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let spec = pod.pod_spec();
    let whole = spec.and_then(|spec| spec.hostname_override.as_deref()).filter(|_| override_allowed);
    if let Some(whole) = whole {
        check("HostnameOverride", whole, Kind::Subdomain)?;
        return Ok(Hostname { host: cut(name, whole)?, domain: String::new() });
    }
    let asked = spec.and_then(|spec| spec.hostname.as_deref()).filter(|host| !host.is_empty());
    if let Some(asked) = asked {
        check("Hostname", asked, Kind::Label)?;
    }
    let host = cut(name, asked.unwrap_or(name))?;
    let subdomain = spec.and_then(|spec| spec.subdomain.as_deref()).filter(|sub| !sub.is_empty());
    let domain = match subdomain {
        Some(sub) => {
            check("Subdomain", sub, Kind::Label)?;
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            format!("{sub}.{namespace}.svc.{cluster_domain}")
        }
        None => String::new(),
    };
    Ok(Hostname { host, domain })
}

/// The host name that is set in the kernel: the short name, or the full one if the pod has `setHostnameAsFQDN`.
///
/// upstream: util/util.go GetNodenameForKernel (v1.36)
#[doc(alias = "GetNodenameForKernel")]
pub fn kernel_hostname(pod: &Pod, name: &Hostname) -> Result<String, HostnameError> {
    let full = pod.pod_spec().and_then(|spec| spec.set_hostname_as_fqdn).unwrap_or_default();
    if !full || name.domain.is_empty() {
        return Ok(name.host.clone());
    }
    let fqdn = format!("{}.{}", name.host, name.domain);
    if fqdn.len() > MAX_KERNEL_NAME { Err(HostnameError::TooLong { fqdn }) } else { Ok(fqdn) }
}

fn cut(pod: &str, hostname: &str) -> Result<String, HostnameError> {
    if hostname.len() <= MAX_HOSTNAME {
        return Ok(hostname.to_owned());
    }
    // Validated names are ASCII; any other name is cut between characters.
    let end = (0..=MAX_HOSTNAME).rev().find(|end| hostname.is_char_boundary(*end)).unwrap_or(0);
    let kept = hostname.get(..end).unwrap_or_default().trim_end_matches(['-', '.']);
    if kept.is_empty() {
        return Err(HostnameError::Empty { pod: pod.to_owned(), hostname: hostname.to_owned() });
    }
    Ok(kept.to_owned())
}

#[derive(Clone, Copy)]
enum Kind {
    Label,
    Subdomain,
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

fn check(field: &'static str, value: &str, kind: Kind) -> Result<(), HostnameError> {
    let mut why = Vec::new();
    let (word, max) = match kind {
        Kind::Label => ("label", 63),
        Kind::Subdomain => ("subdomain", 253),
    };
    if value.len() > max {
        why.push(format!("must be no more than {max} characters"));
    }
    let valid = match kind {
        Kind::Label => is_label(value),
        Kind::Subdomain => value.split('.').all(is_label),
    };
    if !valid {
        why.push(match kind {
            Kind::Label if value.split('.').all(is_label) => "must not contain dots".to_owned(),
            Kind::Label => format!(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '{LABEL}')"
            ),
            Kind::Subdomain => format!(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                 must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                 '{LABEL}(\\.{LABEL})*')"
            ),
        });
    }
    if why.is_empty() {
        return Ok(());
    }
    Err(HostnameError::Invalid { field, value: value.to_owned(), kind: word, why: why.join(";") })
}

fn is_label(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}
