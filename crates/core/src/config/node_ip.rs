//! `--node-ip` (FLAG-01): one address, or one of each family. `0.0.0.0` and `::` alone only choose the preferred family.

use std::net::IpAddr;

/// The addresses in `--node-ip`, and the parts that are not addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeIps {
    /// At most two, then of different families.
    pub addresses: Vec<IpAddr>,
    /// Ignored with a warning, as upstream does.
    pub ignored: Vec<String>,
}

/// Addresses that do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeIpError {
    /// Too many, or two of one family.
    #[error("{0:?} is not one address, or one IPv4 and one IPv6 address")]
    NotAPair(String),
    /// A pair with a wildcard in it.
    #[error("{0:?} cannot have 0.0.0.0 or :: in a pair; name both addresses, or give the wildcard alone")]
    Wildcard(String),
}

/// Reads `--node-ip`.
///
/// # Errors
/// See [`NodeIpError`].
// upstream: component-helpers/node/util/ips.go ParseNodeIPArgument (v1.36).
#[doc(alias = "ParseNodeIPArgument")]
pub fn node_ips(text: &str) -> Result<NodeIps, NodeIpError> {
    let mut ips = NodeIps::default();
    for word in text.split(',').map(str::trim).filter(|_| !text.is_empty()) {
        match word.parse() {
            Ok(address) => ips.addresses.push(address),
            Err(_) => ips.ignored.push(word.to_owned()),
        }
    }
    match ips.addresses.as_slice() {
        [] | [_] => Ok(ips),
        [a, b] if a.is_ipv4() == b.is_ipv4() => Err(NodeIpError::NotAPair(text.to_owned())),
        [a, b] if a.is_unspecified() || b.is_unspecified() => Err(NodeIpError::Wildcard(text.to_owned())),
        [_, _] => Ok(ips),
        _ => Err(NodeIpError::NotAPair(text.to_owned())),
    }
}
