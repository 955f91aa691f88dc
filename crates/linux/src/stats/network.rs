//! Interfaces of network namespaces, read through a process in each: no thread enters a namespace.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rubelet_core::usage::{Interface, NetworkUsage, Traffic};

use super::files::{Dir, Reader, open_dir};
use super::open_files;

/// Most interfaces of a namespace. A container with the right to make interfaces makes as many as it likes.
const MOST_INTERFACES: usize = 256;

/// Prefixes of interfaces that are not shown: the loopback interface, and the node's ends of containers' pairs.
/// upstream: cadvisor container/libcontainer/handler.go ignoredDevicePrefixes, as of v1.36
const HIDDEN: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];

/// The networks of these cgroups, by their paths. A cgroup on the node's own network is left out, but for `/`. `known` are
/// processes that were just seen in a cgroup.
pub(super) fn networks(
    list: &OwnedFd,
    proc: &Path,
    cgroups: Vec<String>,
    known: &BTreeMap<String, Vec<u32>>,
) -> BTreeMap<String, NetworkUsage> {
    let mut reader = Reader::default();
    let node = rustix::fs::stat(proc.join("1/ns/net")).or_else(|_| rustix::fs::stat(proc.join("self/ns/net")));
    let node = node.ok().map(|stat| (stat.st_dev, stat.st_ino));
    let mut networks = BTreeMap::new();
    for path in cgroups {
        let below = path.trim_matches('/');
        let network = if below.is_empty() {
            let text = reader.path(&proc.join("1/net/dev")).map(interfaces);
            text.or_else(|| reader.path(&proc.join("self/net/dev")).map(interfaces))
        } else {
            let mut of = |pid: &u32| of_process(&proc.join(pid.to_string()), node, &mut reader);
            match known.get(&path).and_then(|processes| processes.iter().find_map(&mut of)) {
                Some(network) => Some(network),
                None => {
                    let Ok(dir) = open_dir(list, below) else { continue };
                    let dir = Dir { fd: dir.as_fd(), below: "" };
                    let processes = open_files::processes(dir, &mut reader).unwrap_or_default();
                    let of = |pid: &u32| of_process(&proc.join(pid.to_string()), node, &mut reader);
                    processes.iter().take(open_files::FIRST).find_map(of)
                }
            }
        };
        if let Some(network) = network {
            networks.insert(path, network);
        }
    }
    networks
}

/// The network of a process, unless it is the node's. The directory of the process is opened once: a process that ends
/// meanwhile cannot be mistaken for another one of the same number.
fn of_process(process: &Path, node: Option<(u64, u64)>, reader: &mut Reader) -> Option<NetworkUsage> {
    let process = open_dir(rustix::fs::CWD, process.to_str()?).ok()?;
    let own = rustix::fs::statat(&process, "ns/net", rustix::fs::AtFlags::empty()).ok()?;
    if Some((own.st_dev, own.st_ino)) == node {
        return None;
    }
    reader.list(Dir { fd: process.as_fd(), below: "net" }, "dev").map(interfaces)
}

/// `/proc/net/dev`: two lines of headings, then a line for each interface.
fn interfaces(text: &str) -> NetworkUsage {
    let lines = text.lines().skip(2).filter_map(interface);
    NetworkUsage { interfaces: lines.take(MOST_INTERFACES).collect() }
}

fn interface(line: &str) -> Option<Interface> {
    let (name, numbers) = line.rsplit_once(':')?;
    let name = name.trim();
    if HIDDEN.iter().any(|prefix| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))) {
        return None;
    }
    // Eight columns of what was received, then eight of what was sent.
    let numbers: Vec<u64> = numbers.split_whitespace().map_while(|number| number.parse().ok()).collect();
    let traffic = |first: usize| match *numbers.get(first..first + 4)? {
        [bytes, packets, errors, dropped] => Some(Traffic { bytes, packets, errors, dropped }),
        _ => None,
    };
    let (receive, transmit) = (traffic(0)?, traffic(8)?);
    Some(Interface { name: name.to_owned(), receive, transmit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sts_02_interfaces_but_for_the_hidden_ones() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets |bytes packets\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n  \
                    eth0: 1 2 3 4 5 6 7 8 11 12 13 14 15 16 17 18\nveth01: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\nbad: 1 2\n";
        let receive = Traffic { bytes: 1, packets: 2, errors: 3, dropped: 4 };
        let transmit = Traffic { bytes: 11, packets: 12, errors: 13, dropped: 14 };
        let eth0 = Interface { name: "eth0".into(), receive, transmit };
        assert_eq!(interfaces(text), NetworkUsage { interfaces: vec![eth0] });
    }
}
