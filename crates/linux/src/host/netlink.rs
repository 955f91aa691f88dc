//! Two netlink requests: the interfaces and their addresses.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::addresses::Interface;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST | NLM_F_DUMP
const DUMP: u16 = 0x301;

const IFLA_IFNAME: u16 = 3;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;
const IFF_POINTOPOINT: u32 = 0x10;

const HEADER: usize = 16;
/// `struct ifinfomsg`
const LINK_HEADER: usize = 16;
/// `struct ifaddrmsg`
const ADDR_HEADER: usize = 8;

/// The kernel fills at most 32 KiB per read.
const BUFFER: usize = 64 * 1024;

/// Reads per request. A node with more interfaces than fit is not supported.
const MAX_READS: usize = 4096;

/// The interfaces of this network namespace, by index, each with its addresses in the kernel's order.
pub(super) fn interfaces() -> io::Result<Vec<Interface>> {
    let mut found = BTreeMap::new();
    for link in dump(RTM_GETLINK, RTM_NEWLINK, LINK_HEADER)? {
        if let Some((index, interface)) = parse_link(&link) {
            found.insert(index, interface);
        }
    }
    for address in dump(RTM_GETADDR, RTM_NEWADDR, ADDR_HEADER)? {
        if let Some((index, address)) = parse_address(&address)
            && let Some(interface) = found.get_mut(&index)
        {
            interface.addresses.push(address);
        }
    }
    Ok(found.into_values().collect())
}

/// Requests all objects of a kind and returns the body of each message.
fn dump(question: u16, answer: u16, body: usize) -> io::Result<Vec<Vec<u8>>> {
    // Protocol 0 of netlink is `NETLINK_ROUTE`.
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let mut request = Vec::new();
    let length = u32::try_from(HEADER + body).map_err(io::Error::other)?;
    request.extend(length.to_ne_bytes());
    request.extend(question.to_ne_bytes());
    request.extend(DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.resize(HEADER + body, 0);
    rustix::net::sendto(&socket, &request, SendFlags::empty(), &netlink::SocketAddrNetlink::new(0, 0))?;
    let mut buffer = vec![0; BUFFER];
    let mut bodies = Vec::new();
    for _ in 0..MAX_READS {
        let (length, _) = rustix::net::recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        for (kind, body) in messages(buffer.get(..length).unwrap_or_default()) {
            match kind {
                NLMSG_DONE => return Ok(bodies),
                NLMSG_ERROR => {
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                }
                kind if kind == answer => bodies.push(body.to_vec()),
                _ => {}
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer has no end"))
}

/// Splits a datagram into messages: type and body of each. Stops at the first malformed one.
fn messages(mut rest: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some((length, kind)) = u32_at(rest, 0).zip(u16_at(rest, 4)) {
        let Ok(length) = usize::try_from(length) else { break };
        let Some(body) = rest.get(HEADER..length) else { break };
        found.push((kind, body));
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    found
}

/// Attributes: length, type, value, each aligned to four bytes.
fn attributes(mut rest: &[u8]) -> BTreeMap<u16, &[u8]> {
    let mut found = BTreeMap::new();
    while let Some((length, kind)) = u16_at(rest, 0).zip(u16_at(rest, 2)) {
        let length = usize::from(length);
        let Some(value) = rest.get(4..length) else { break };
        found.insert(kind, value);
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    found
}

fn parse_link(body: &[u8]) -> Option<(u32, Interface)> {
    let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
    let attributes = attributes(body.get(LINK_HEADER..)?);
    let name = attributes.get(&IFLA_IFNAME)?;
    let name = String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(name)).into_owned();
    let interface = Interface {
        name,
        up: flags & IFF_UP != 0,
        loopback: flags & IFF_LOOPBACK != 0,
        point_to_point: flags & IFF_POINTOPOINT != 0,
        addresses: Vec::new(),
    };
    Some((index, interface))
}

fn parse_address(body: &[u8]) -> Option<(u32, IpAddr)> {
    let index = u32_at(body, 4)?;
    let attributes = attributes(body.get(ADDR_HEADER..)?);
    // On a point-to-point link `IFA_ADDRESS` is the peer's address.
    let value = attributes.get(&IFA_LOCAL).or_else(|| attributes.get(&IFA_ADDRESS))?;
    let address = match value.len() {
        4 => IpAddr::from(*value.first_chunk::<4>()?),
        16 => IpAddr::from(*value.first_chunk::<16>()?),
        _ => return None,
    };
    Some((index, address))
}

fn aligned(length: usize) -> usize {
    length.max(4).next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let found = interfaces().unwrap();
        let lo = found.iter().find(|interface| interface.loopback).unwrap();
        assert_eq!(lo.name, "lo");
        assert!(!lo.up || lo.addresses.contains(&IpAddr::from([127, 0, 0, 1])));
    }

    proptest::proptest! {
        #[test]
        fn no_netlink_answer_panics(bytes in proptest::collection::vec(0_u8.., 0..256)) {
            for (_, body) in messages(&bytes) {
                parse_link(body);
                parse_address(body);
            }
            parse_link(&bytes);
            parse_address(&bytes);
        }
    }
}
