//! What this process uses, for its metrics.

use std::io;
use std::path::Path;
use std::time::Duration;

use rubelet_engine::blocking::HOST;
use rustix::process::{Resource, getrlimit};

use super::KernelFiles;

/// What this process uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnUsage {
    /// CPU time, of the process and in the kernel for it.
    pub cpu: Duration,
    /// Bytes of address space.
    pub virtual_memory: u64,
    /// The limit of that; `None` if there is none.
    pub virtual_memory_max: Option<u64>,
    /// Bytes of memory.
    pub resident_memory: u64,
    /// Open files.
    pub open_files: u64,
    /// The limit of that; `None` if there is none.
    pub open_files_max: Option<u64>,
    /// Bytes that came by IP to the network of this process, which other processes share.
    pub received: u64,
    /// Bytes that left it.
    pub sent: u64,
}

/// Reads what this process uses now.
pub async fn own_usage(files: &KernelFiles) -> io::Result<OwnUsage> {
    let own = files.proc.join("self");
    HOST.run("own usage", move || read(&own)).await
}

/// How long the machine is up.
pub fn uptime() -> Duration {
    Duration::from_secs(u64::try_from(rustix::system::sysinfo().uptime).unwrap_or_default())
}

fn read(own: &Path) -> io::Result<OwnUsage> {
    let Stat { ticks, virtual_memory, pages } = stat(&std::fs::read_to_string(own.join("stat"))?).unwrap_or_default();
    let page = u64::try_from(rustix::param::page_size()).unwrap_or_default();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    // The network is not there in some sandboxes.
    let (received, sent) =
        std::fs::read_to_string(own.join("net/netstat")).ok().and_then(|text| octets(&text)).unwrap_or_default();
    let open = std::fs::read_dir(own.join("fd"))?.count();
    Ok(OwnUsage {
        cpu: Duration::from_millis(ticks.saturating_mul(1000) / per_second),
        virtual_memory,
        virtual_memory_max: getrlimit(Resource::As).current,
        resident_memory: pages.saturating_mul(page),
        // One of them is the directory itself.
        open_files: u64::try_from(open.saturating_sub(1)).unwrap_or(u64::MAX),
        open_files_max: getrlimit(Resource::Nofile).current,
        received,
        sent,
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stat {
    ticks: u64,
    virtual_memory: u64,
    pages: u64,
}

/// The fields of `/proc/self/stat` after the program's name, which may hold anything.
fn stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat { ticks: number(11)?.saturating_add(number(12)?), virtual_memory: number(20)?, pages: number(21)? })
}

/// Bytes in and out by IP: a line with names, and one with numbers.
fn octets(text: &str) -> Option<(u64, u64)> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| {
        let at = names.split(' ').position(|name| name == wanted)?;
        numbers.split(' ').nth(at)?.parse::<u64>().ok()
    };
    Some((of("InOctets")?, of("OutOctets")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_process_uses_something() {
        let usage = own_usage(&KernelFiles::default()).await.expect("procfs is there");
        assert!(usage.resident_memory > 0 && usage.virtual_memory >= usage.resident_memory, "{usage:?}");
        assert!(usage.open_files > 2, "{usage:?}");
        assert!(uptime() > Duration::ZERO);
    }

    #[test]
    fn a_programs_name_cannot_shift_the_fields() {
        let text = "1 (a) b (c) S 1 1 1 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 12345 1048576 300 184467";
        assert_eq!(stat(text), Some(Stat { ticks: 300, virtual_memory: 1_048_576, pages: 300 }));
        assert_eq!(stat("nonsense"), None);
    }

    #[test]
    fn bytes_are_found_by_their_names() {
        let text = "TcpExt: A B\nTcpExt: 1 2\nIpExt: X InOctets OutOctets\nIpExt: 7 8 9\n";
        assert_eq!(octets(text), Some((8, 9)));
        assert_eq!(octets("TcpExt: A\nTcpExt: 1\n"), None);
    }
}
