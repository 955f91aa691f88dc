//! I/O by block device.

use std::collections::BTreeMap;
use std::path::Path;

use rubelet_core::usage::DeviceIo;

use super::files::Reader;

/// Most devices whose I/O is shown for one cgroup, and whose names are remembered.
const MOST_DEVICES: usize = 1024;

/// Names of block devices by their numbers.
#[derive(Debug, Default)]
pub(super) struct DeviceNames {
    known: BTreeMap<(u32, u32), String>,
}

impl DeviceNames {
    /// Fills in the names. upstream: cadvisor container/common/helpers.go AssignDeviceNamesToDiskStats, as of v1.36
    pub(super) fn fill(&mut self, io: &mut [DeviceIo], sys: &Path) {
        for device in io {
            let number = (device.major, device.minor);
            if let Some(name) = self.known.get(&number) {
                device.device.clone_from(name);
                continue;
            }
            device.device = name_of(number, sys).unwrap_or_default();
            // A device may be taken out, and its number be given to another: the names are read anew now and then.
            if self.known.len() >= MOST_DEVICES {
                self.known.clear();
            }
            if !device.device.is_empty() {
                self.known.insert(number, device.device.clone());
            }
        }
    }
}

/// The path below `/dev`, as the kernel names it.
fn name_of((major, minor): (u32, u32), sys: &Path) -> Option<String> {
    let mut reader = Reader::default();
    let text = reader.path(&sys.join(format!("dev/block/{major}:{minor}/uevent")))?;
    let name = text.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
    Some(format!("/dev/{name}"))
}

/// What a file of v1 counts.
#[derive(Clone, Copy)]
pub(super) enum Counted {
    Bytes,
    Operations,
}

/// A file of v1: `8:0 Read 4096`.
pub(super) fn add_v1(text: &str, counted: Counted, io: &mut Vec<DeviceIo>) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(number), Some(operation), Some(value)) = (words.next().and_then(device), words.next(), words.next())
        else {
            continue;
        };
        let Ok(value) = value.parse::<u64>() else { continue };
        let Some(entry) = entry(number, io) else { return };
        match (operation, counted) {
            ("Read", Counted::Bytes) => entry.read_bytes = value,
            ("Write", Counted::Bytes) => entry.write_bytes = value,
            ("Read", Counted::Operations) => entry.reads = value,
            ("Write", Counted::Operations) => entry.writes = value,
            _ => {}
        }
    }
}

/// `io.stat` of v2: `8:0 rbytes=1 wbytes=2 rios=3 wios=4`.
pub(super) fn stat_v2(text: &str) -> Vec<DeviceIo> {
    let mut io = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(number) = words.next().and_then(device) else { continue };
        let Some(entry) = entry(number, &mut io) else { break };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            let Ok(value) = value.parse::<u64>() else { continue };
            match key {
                "rbytes" => entry.read_bytes = value,
                "wbytes" => entry.write_bytes = value,
                "rios" => entry.reads = value,
                "wios" => entry.writes = value,
                _ => {}
            }
        }
    }
    // The kernel also lists devices on which there was nothing yet.
    io.retain(|device| device.read_bytes > 0 || device.write_bytes > 0 || device.reads > 0 || device.writes > 0);
    io
}

fn device(word: &str) -> Option<(u32, u32)> {
    let (major, minor) = word.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn entry((major, minor): (u32, u32), io: &mut Vec<DeviceIo>) -> Option<&mut DeviceIo> {
    let at = match io.iter().position(|device| (device.major, device.minor) == (major, minor)) {
        Some(at) => at,
        None if io.len() >= MOST_DEVICES => return None,
        None => {
            io.push(DeviceIo { major, minor, ..DeviceIo::default() });
            io.len() - 1
        }
    };
    io.get_mut(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_show_the_same_io() {
        let mut io = Vec::new();
        let bytes = "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 1\n8:0 Total 12288\n253:1 Write 512\nTotal 12800\n";
        add_v1(bytes, Counted::Bytes, &mut io);
        add_v1("8:0 Read 1\n8:0 Write 2\n253:1 Write 3\nTotal 6\n", Counted::Operations, &mut io);
        let v2 = "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n7:0 \n253:1 wbytes=512 wios=3\n";
        assert_eq!(stat_v2(v2), io);
        assert_eq!(io.len(), 2);
    }
}
