//! Facts about the node, read once at start.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use rubelet_engine::blocking::HOST;
use rubelet_engine::ports::{CgroupVersion, NodeFacts};

use super::KernelFiles;
use super::addresses::{AddressError, node_addresses};
use crate::cgroups::Layout;

/// Settings on which the facts depend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactsRequest {
    /// `--hostname-override`; empty for none.
    pub hostname_override: String,
    /// `--node-ip`: up to two; an unspecified address asks for any address of its family.
    pub node_ips: Vec<IpAddr>,
    /// `resolvConf`.
    pub resolv_conf: String,
    /// Where `/proc` and `/sys` are.
    pub files: KernelFiles,
}

/// The facts, and the errors with which the node can live.
#[derive(Debug)]
pub struct Facts {
    /// The facts.
    pub node: NodeFacts,
    /// Its addresses at the start, primary family first.
    pub ips: Vec<IpAddr>,
    /// Why the node has no addresses, if it has none.
    pub no_address: Option<AddressError>,
}

/// A fact without which there is no node could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// BOOT-03.
    #[error("empty hostname is invalid: give the machine a name or set --hostname-override")]
    NoHostname,
    /// A file of the kernel could not be read or makes no sense.
    #[error("read {what} from {path}")]
    Unreadable {
        /// The fact.
        what: &'static str,
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Reads the facts.
pub async fn node_facts(request: FactsRequest) -> Result<Facts, FactsError> {
    let name = hostname(&request.hostname_override)?;
    let addresses = node_addresses(&request.node_ips, &name, &request.files.proc).await;
    let (ips, no_address) = match addresses {
        Ok(ips) => (ips, None),
        Err(err) => (Vec::new(), Some(err)),
    };
    let node = HOST
        .run("facts", move || {
            let files = &request.files;
            let meminfo = files.proc.join("meminfo");
            let memory = read("memory", &meminfo)?;
            let size = |key: &'static str| kilobytes(&memory, key).ok_or_else(|| not_a_number(key, &meminfo));
            let cpus = files.sys.join("devices/system/cpu/online");
            let count = parse_cpus(&read("CPUs", &cpus)?).ok_or_else(|| not_a_number("CPUs", &cpus))?;
            let layout = Layout::discover(&files.proc).map_err(|source| FactsError::Unreadable {
                what: "mounts",
                path: files.proc.join("self/mountinfo").display().to_string(),
                source,
            })?;
            Ok(NodeFacts {
                hostname: name.clone(),
                name,
                cpu_millis: count.saturating_mul(1000),
                memory_bytes: size("MemTotal")?,
                swap_bytes: kilobytes(&memory, "SwapTotal").unwrap_or_default(),
                hugepage_sizes: hugepage_sizes(&files.sys),
                cgroups: layout.version(),
                resolv_conf: request.resolv_conf,
                apparmor: apparmor(&files.sys),
                selinux: files.sys.join("fs/selinux/enforce").exists(),
                swap_controller: swap_can_be_limited(files, layout.version()),
                thermal_throttle_paths: thermal_throttle_paths(&files.sys),
                kernel: running_kernel().unwrap_or_default(),
            })
        })
        .await?;
    Ok(Facts { node, ips, no_address })
}

/// The override or the machine's own name, without blanks, in lower case (BOOT-03).
/// upstream: component-helpers/node/util/hostname.go GetHostname (v1.36)
pub fn hostname(hostname_override: &str) -> Result<String, FactsError> {
    let name = match hostname_override {
        "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        name => name.to_owned(),
    };
    match name.trim().to_lowercase() {
        name if name.is_empty() => Err(FactsError::NoHostname),
        name => Ok(name),
    }
}

/// Whether any swap is on (BOOT-09). A kernel without the table has no swap.
/// upstream: kubelet/util/swap/swap_util.go IsSwapOn (v1.36)
#[doc(alias = "IsSwapOn")]
pub fn swap_is_on(files: &KernelFiles) -> io::Result<bool> {
    match std::fs::read_to_string(files.proc.join("swaps")) {
        // The first line is the heading.
        Ok(table) => Ok(table.trim().lines().count() > 1),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(err) => Err(err),
    }
}

/// Whether the kernel can limit the swap of a cgroup, so that a container's swap limit can be set (RT-94). On v2 the
/// root cgroup has no such limit, so our own cgroup is checked.
/// upstream: kuberuntime/kuberuntime_container_linux.go swapControllerAvailable (v1.36)
#[doc(alias = "swapControllerAvailable")]
pub fn swap_can_be_limited(files: &KernelFiles, version: CgroupVersion) -> bool {
    let cgroups = files.sys.join("fs/cgroup");
    let file = match version {
        CgroupVersion::V1 => cgroups.join("memory/memory.memsw.limit_in_bytes"),
        CgroupVersion::V2 => {
            let own = std::fs::read_to_string(files.proc.join("self/cgroup")).unwrap_or_default();
            let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::/")) else { return false };
            cgroups.join(path).join("memory.swap.max")
        }
    };
    file.exists()
}

/// Whether tmpfs can be kept out of swap: from kernel 6.4 on, outside of user namespaces (BOOT-09).
/// upstream: kubelet/util/swap/swap_util.go IsTmpfsNoswapOptionSupported (v1.36)
pub fn tmpfs_noswap(files: &KernelFiles) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    // The first user namespace maps all ids onto themselves.
    let map = std::fs::read_to_string(files.proc.join("self/uid_map")).unwrap_or_default();
    let is_first = map.split_whitespace().eq(["0", "0", "4294967295"]);
    is_first && kernel_version(&release).is_some_and(|version| version >= (6, 4))
}

/// Directories that show the load of other tenants (RT-98). upstream: pkg/kubelet defaultMaskedPaths (v1.36)
fn thermal_throttle_paths(sys: &Path) -> Vec<String> {
    let cpus = std::fs::read_dir(sys.join("devices/system/cpu")).into_iter().flatten().flatten();
    let mut paths: Vec<String> = cpus
        .map(|cpu| cpu.path().join("thermal_throttle"))
        .filter(|path| path.exists())
        .filter_map(|path| path.to_str().map(str::to_owned))
        .collect();
    paths.sort();
    paths
}

/// The major and minor version of the running kernel, if it can be read.
pub fn running_kernel() -> Option<(u32, u32)> {
    kernel_version(&rustix::system::uname().release().to_string_lossy())
}

/// Major and minor version of a kernel release such as `6.1.0-13-amd64`.
pub(crate) fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn read(what: &'static str, path: &Path) -> Result<String, FactsError> {
    std::fs::read_to_string(path).map_err(|source| FactsError::Unreadable {
        what,
        path: path.display().to_string(),
        source,
    })
}

fn not_a_number(what: &'static str, path: &Path) -> FactsError {
    let source = io::Error::new(io::ErrorKind::InvalidData, "no number where one should be");
    FactsError::Unreadable { what, path: path.display().to_string(), source }
}

/// A line of `/proc/meminfo` in bytes.
fn kilobytes(meminfo: &str, key: &str) -> Option<i64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<i64>().ok()?.checked_mul(1024)
}

/// How many CPUs a list such as `0-3,8` has.
fn parse_cpus(list: &str) -> Option<i64> {
    let mut count = 0_i64;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first).filter(|length| *length >= 0)?)?.checked_add(1)?;
    }
    Some(count)
}

/// The sizes in bytes, smallest first.
fn hugepage_sizes(sys: &Path) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(sys.join("kernel/mm/hugepages")) else { return Vec::new() };
    let size = |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?.checked_mul(1024);
    let mut sizes: Vec<_> = entries.filter_map(|entry| size(&entry.ok()?.file_name().to_string_lossy())).collect();
    sizes.sort_unstable();
    sizes
}

fn apparmor(sys: &Path) -> bool {
    std::fs::read_to_string(sys.join("module/apparmor/parameters/enabled")).is_ok_and(|text| text.starts_with('Y'))
        && sys.join("kernel/security/apparmor").is_dir()
}

#[cfg(test)]
mod tests;
