//! The host's network addresses, and which of them are the node's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use rubelet_engine::blocking::HOST;

use super::netlink;

/// Time limit for resolving the node's own name. Without an answer the default route decides.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Such as `eth0`.
    pub name: String,
    /// The interface is up.
    pub up: bool,
    /// A loopback interface.
    pub loopback: bool,
    /// A point-to-point interface.
    pub point_to_point: bool,
    /// Its addresses, in the kernel's order.
    pub addresses: Vec<IpAddr>,
}

/// The preferred address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// The node has no usable address. Pods run without one; those that need the host's address wait.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// A configured address cannot be the node's.
    #[error("node IP {address} {why}")]
    Unusable {
        /// The address.
        address: IpAddr,
        /// Upstream's reason.
        why: &'static str,
    },
    /// Neither configuration, name resolution nor routes yield an address.
    #[error(
        "no address for node {name}: its name resolves to none of this host, and no default route leads out; set --node-ip"
    )]
    None {
        /// The node.
        name: String,
    },
    /// The kernel did not list its interfaces.
    #[error("list network interfaces")]
    List(#[source] io::Error),
}

/// The interfaces of this machine.
pub async fn interfaces() -> io::Result<Vec<Interface>> {
    HOST.run("interfaces", netlink::interfaces).await
}

/// The node's addresses: the configured ones, else the address that the node's name resolves to if it belongs to this
/// host, else the address of the interface that the default route uses.
/// upstream: nodestatus/setters.go NodeAddress (v1.36)
pub async fn node_addresses(wanted: &[IpAddr], name: &str, proc: &Path) -> Result<Vec<IpAddr>, AddressError> {
    let interfaces = interfaces().await.map_err(AddressError::List)?;
    let given: Vec<IpAddr> = wanted.iter().copied().filter(|address| !address.is_unspecified()).collect();
    for address in &given {
        check(*address, &interfaces)?;
    }
    if !given.is_empty() {
        return Ok(given);
    }
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let prefer = wanted.first().map_or(Family::V4, |address| Family::of(*address));
    if let Some(address) = pick(prefer, &resolve(name).await, &interfaces) {
        return Ok(vec![address]);
    }
    let proc = proc.to_path_buf();
    let routes = HOST.run("routes", move || default_routes(&proc)).await;
    match choose(&interfaces, routes.as_deref(), prefer) {
        Some(address) => Ok(vec![address]),
        None => Err(AddressError::None { name: name.to_owned() }),
    }
}

/// Refuses an address that cannot be the node's. upstream: kubelet_node_status.go validateNodeIP (v1.36)
pub fn check(address: IpAddr, interfaces: &[Interface]) -> Result<(), AddressError> {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let why = if address.is_loopback() {
        "can't be loopback address"
    } else if address.is_multicast() {
        "can't be a multicast address"
    } else if link_local {
        "can't be a link-local unicast address"
    } else if address.is_unspecified() {
        "can't be an all zeros address"
    } else if !interfaces.iter().any(|interface| interface.addresses.contains(&address)) {
        "not found in the host's network interfaces"
    } else {
        return Ok(());
    };
    Err(AddressError::Unusable { address, why })
}

/// The first usable address of the preferred family, else the first usable one.
fn pick(prefer: Family, addresses: &[IpAddr], interfaces: &[Interface]) -> Option<IpAddr> {
    let usable = addresses.iter().copied().filter(|address| check(*address, interfaces).is_ok());
    usable.clone().find(|address| Family::of(*address) == prefer).or_else(|| usable.clone().next())
}

async fn resolve(name: &str) -> Vec<IpAddr> {
    let name = name.to_owned();
    let asked = HOST.run("name of the node", move || (&*name, 0).to_socket_addrs());
    match tokio::time::timeout(LOOKUP_TIMEOUT, asked).await {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// The address of the interface that a default route uses; if that has none, a global address of the loopback
/// interface; without a table of routes, the first global address of any interface.
/// upstream: apimachinery/pkg/util/net/interface.go chooseHostInterface (v1.36)
pub fn choose(interfaces: &[Interface], routes: Option<&[(String, Family)]>, prefer: Family) -> Option<IpAddr> {
    let order = if prefer == Family::V4 { [Family::V4, Family::V6] } else { [Family::V6, Family::V4] };
    let global = |interface: &Interface, family: Family| {
        interface.addresses.iter().copied().find(|address| Family::of(*address) == family && is_global(*address))
    };
    let up = || interfaces.iter().filter(|interface| interface.up);
    let Some(routes) = routes else {
        let outward = || up().filter(|interface| !interface.loopback && !interface.point_to_point);
        return order.into_iter().find_map(|family| outward().find_map(|interface| global(interface, family)));
    };
    order.into_iter().find_map(|family| {
        routes.iter().filter(|(_, route)| *route == family).find_map(|(name, _)| {
            let by_route = up().find(|interface| interface.name == *name);
            let by_route = by_route.and_then(|interface| global(interface, family));
            by_route.or_else(|| up().filter(|interface| interface.loopback).find_map(|lo| global(lo, family)))
        })
    })
}

/// Go's `IsGlobalUnicast`: private addresses count.
fn is_global(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address == Ipv4Addr::BROADCAST,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || link_local)
}

/// The interfaces of default routes, IPv4 first; `None` if the kernel shows no table.
fn default_routes(proc: &Path) -> Option<Vec<(String, Family)>> {
    let v4 = std::fs::read_to_string(proc.join("net/route")).ok()?;
    let v6 = std::fs::read_to_string(proc.join("net/ipv6_route")).unwrap_or_default();
    Some(parse_routes(&v4, &v6))
}

fn parse_routes(v4: &str, v6: &str) -> Vec<(String, Family)> {
    let zero = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte == b'0');
    let mut routes = Vec::new();
    for line in v4.lines().skip(1) {
        let mut fields = line.split_whitespace();
        if let (Some(name), Some(destination)) = (fields.next(), fields.next())
            && zero(destination)
        {
            routes.push((name.to_owned(), Family::V4));
        }
    }
    for line in v6.lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        if let [destination, _, _, _, gateway, _, _, _, _, name] = fields.as_slice()
            && zero(destination)
            && !zero(gateway)
        {
            routes.push(((*name).to_owned(), Family::V6));
        }
    }
    routes
}

/// Unspecified addresses: in `--node-ip` they ask for any address of their family.
pub const ANY: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

#[cfg(test)]
mod tests;
