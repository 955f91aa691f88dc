//! Machine information for the Node object (NODE-13), read once at start.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rubelet_core::node::Machine;
use rubelet_engine::ports::{AddressesUnknown, NodeAddresses, NodeFacts};

use super::addresses::node_addresses;

/// Where machine information is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFiles {
    /// `/`; another directory in a test.
    pub host: PathBuf,
    /// The root directory: its file system is the node's ephemeral storage.
    pub root_dir: PathBuf,
}

/// Reads the machine information. A value that cannot be read stays empty: the node can do without it.
pub fn machine(files: &MachineFiles, facts: &NodeFacts) -> Machine {
    let host = &files.host;
    let first = |paths: &[&str]| paths.iter().find_map(|path| text(&host.join(path))).unwrap_or_default();
    Machine {
        machine_id: first(&["etc/machine-id", "var/lib/dbus/machine-id"]),
        // upstream: cadvisor utils/sysfs/sysfs.go GetSystemUUID
        system_uuid: first(&[
            "sys/class/dmi/id/product_uuid",
            "proc/device-tree/system-id",
            "proc/device-tree/vm,uuid",
            "etc/machine-id",
        ]),
        boot_id: first(&["proc/sys/kernel/random/boot_id"]),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        os_image: os_image(host),
        architecture: architecture(std::env::consts::ARCH).to_owned(),
        cpu_millis: facts.cpu_millis,
        memory_bytes: facts.memory_bytes,
        swap_bytes: facts.swap_bytes,
        hugepages: hugepages(&host.join("sys/kernel/mm/hugepages")),
        process_ids: process_ids(&host.join("proc/sys/kernel")),
        storage_bytes: storage(&files.root_dir),
    }
}

/// The least of the two kernel settings that bound processes and threads (CG-23).
/// upstream: stats/pidlimit/pidlimit_linux.go Stats (v1.36)
fn process_ids(settings: &Path) -> Option<i64> {
    let number = |name: &str| text(&settings.join(name))?.parse().ok();
    ["pid_max", "threads-max"].into_iter().filter_map(number).min()
}

/// What upstream's device manager noted under the root directory, if one ever ran here.
pub fn device_checkpoint(root_dir: &Path) -> Option<String> {
    std::fs::read_to_string(root_dir.join("device-plugins/kubelet_internal_checkpoint")).ok()
}

/// File content without surrounding blanks; device tree files end with a zero byte.
fn text(path: &Path) -> Option<String> {
    let content = std::fs::read_to_string(path).ok()?;
    Some(content.trim_end_matches('\0').trim().to_owned())
}

/// upstream: cadvisor machine/operatingsystem_unix.go
fn os_image(host: &Path) -> String {
    let files = ["etc/os-release", "usr/lib/os-release"];
    let Some(release) = files.iter().find_map(|file| text(&host.join(file))) else { return String::new() };
    let name = release.lines().find_map(|line| line.split_once("PRETTY_NAME=").map(|(_, name)| name));
    name.map_or("Linux", |name| name.trim_matches('"')).to_owned()
}

/// The API spells architectures as Go does.
pub fn architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        same => same,
    }
}

/// Preallocated pages, by page size in bytes.
fn hugepages(dir: &Path) -> BTreeMap<u64, u64> {
    let Ok(entries) = std::fs::read_dir(dir) else { return BTreeMap::new() };
    let pages = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let kilobytes: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = text(&entry.path().join("nr_hugepages"))?.parse().ok()?;
        Some((kilobytes.checked_mul(1024)?, count))
    };
    entries.flatten().filter_map(pages).collect()
}

/// Size of the file system that holds `dir`, or will hold it once `dir` is made.
fn storage(dir: &Path) -> Option<i64> {
    let stat = dir.ancestors().find_map(|place| rustix::fs::statvfs(place).ok())?;
    i64::try_from(stat.f_frsize.checked_mul(stat.f_blocks)?).ok()
}

/// The node's addresses, determined anew on each call.
#[derive(Clone, Debug)]
pub struct HostAddresses {
    /// `--node-ip`.
    pub asked: Vec<IpAddr>,
    /// Name of the node.
    pub name: String,
    /// `/proc`.
    pub proc: PathBuf,
}

#[async_trait]
impl NodeAddresses for HostAddresses {
    async fn addresses(&self) -> Result<Vec<IpAddr>, AddressesUnknown> {
        let found = node_addresses(&self.asked, &self.name, &self.proc).await;
        found.map_err(|err| AddressesUnknown(err.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::temp_dir;

    fn facts() -> NodeFacts {
        NodeFacts {
            name: "web".into(),
            hostname: "web".into(),
            cpu_millis: 2000,
            memory_bytes: 4 << 30,
            swap_bytes: 1 << 30,
            hugepage_sizes: vec![2 << 20],
            cgroups: rubelet_engine::ports::CgroupVersion::V2,
            resolv_conf: String::new(),
            apparmor: false,
            selinux: false,
            swap_controller: false,
            thermal_throttle_paths: Vec::new(),
            kernel: (6, 1),
        }
    }

    fn write(host: &Path, file: &str, content: &str) {
        let path = host.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    #[test]
    fn node_13_machine_information_is_read_from_the_host() {
        let dir = temp_dir();
        let host = dir.path();
        let files = MachineFiles { host: host.into(), root_dir: host.join("var/lib/kubelet") };
        let bare = machine(&files, &facts());
        assert_eq!((bare.machine_id.as_str(), bare.os_image.as_str(), bare.hugepages.len()), ("", "", 0));

        write(host, "var/lib/dbus/machine-id", "older\n");
        write(host, "sys/class/dmi/id/product_uuid", "4C4C4544-0000\n");
        write(host, "proc/sys/kernel/random/boot_id", "boot-1\n");
        write(host, "usr/lib/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n");
        write(host, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n");
        write(host, "proc/sys/kernel/pid_max", "4194304\n");
        write(host, "proc/sys/kernel/threads-max", "63000\n");
        let seen = machine(&files, &facts());
        assert_eq!((bare.process_ids, seen.process_ids), (None, Some(63_000)), "CG-23");
        assert_eq!(seen.machine_id, "older");
        assert_eq!(seen.system_uuid, "4C4C4544-0000");
        assert_eq!(seen.boot_id, "boot-1");
        assert_eq!(seen.os_image, "Debian GNU/Linux 13 (trixie)");
        assert_eq!(seen.hugepages, BTreeMap::from([(2 << 20, 3)]));
        assert!(seen.storage_bytes.is_some_and(|bytes| bytes > 0), "of the nearest existing parent directory");
        assert!(!seen.kernel.is_empty());
        assert_eq!((seen.cpu_millis, seen.swap_bytes), (2000, 1 << 30));

        write(host, "etc/machine-id", "newer\n");
        write(host, "etc/os-release", "NAME=x\n");
        let seen = machine(&files, &facts());
        assert_eq!((seen.machine_id.as_str(), seen.os_image.as_str()), ("newer", "Linux"));
    }

    #[test]
    fn node_02_architectures_are_spelt_as_the_api_does() {
        for (rust, api) in [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", "riscv64"), ("s390x", "s390x")] {
            assert_eq!(architecture(rust), api);
        }
    }
}
