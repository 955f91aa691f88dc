//! Reads containerd's configuration file, for a check while containerd does not run.
//!
//! Only the few keys that decide whether it fits are read, line by line: the file is TOML that containerd itself checks. What
//! is not found counts as unknown, never as containerd's default, because other files may be imported.

use rubelet_engine::ports::CgroupDriver;

/// The usual place of the file.
pub(super) const USUAL: &str = "/etc/containerd/config.toml";

/// What the file says; `None` and empty for what it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Containerd {
    /// The cgroup driver of the default runtime.
    pub(super) driver: Option<CgroupDriver>,
    /// Where network configurations are.
    pub(super) cni_config: Option<String>,
    /// Where network plugins are.
    pub(super) cni_programs: Vec<String>,
}

pub(super) fn parse(text: &str) -> Containerd {
    let mut found = Containerd::default();
    let mut default_runtime = "runc".to_owned();
    let mut drivers = Vec::new();
    let mut table = String::new();
    for line in text.lines().map(without_comment) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            table = header.trim().to_owned();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        match (key.trim(), texts(value).as_slice()) {
            ("default_runtime_name", [name, ..]) => default_runtime.clone_from(name),
            ("SystemdCgroup", _) => drivers.push((table.clone(), value.trim() == "true")),
            ("conf_dir", [dir, ..]) if table.ends_with(".cni") => found.cni_config = Some(dir.clone()),
            ("bin_dir" | "bin_dirs", dirs) if table.ends_with(".cni") => found.cni_programs.extend_from_slice(dirs),
            _ => {}
        }
    }
    let options = format!(".runtimes.{default_runtime}.options");
    let driver = drivers.into_iter().rev().find(|(table, _)| table.ends_with(&options));
    found.driver = driver.map(|(_, systemd)| if systemd { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs });
    found
}

/// The line without blanks at its ends, and without a comment that is not within a text.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let end = line.char_indices().find(|(_, c)| match (quote, *c) {
        (None, '#') => true,
        (None, '"' | '\'') => {
            quote = Some(*c);
            false
        }
        (Some(open), c) if open == c => {
            quote = None;
            false
        }
        _ => false,
    });
    line.get(..end.map_or(line.len(), |(at, _)| at)).unwrap_or_default().trim()
}

/// The texts of a value: one, or those of a list on one line.
fn texts(value: &str) -> Vec<String> {
    let unquoted = |part: &str| part.trim().trim_matches(['"', '\'']).to_owned();
    let parts = value.trim().trim_start_matches('[').trim_end_matches(']').split(',').map(unquoted);
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_that_of_the_default_runtime() {
        let options =
            |runtime: &str, line: &str| format!("[plugins.'x'.containerd.runtimes.{runtime}.options]\n  {line}\n");
        let systemd = Some(CgroupDriver::Systemd);
        for (text, driver) in [
            (options("runc", "SystemdCgroup = true"), systemd),
            (options("runc", "SystemdCgroup = false # not true"), Some(CgroupDriver::Cgroupfs)),
            (options("runc", "# SystemdCgroup = true"), None),
            (options("kata", "SystemdCgroup = true"), None),
            (format!("default_runtime_name = \"crun\"\n{}", options("crun", "SystemdCgroup=true")), systemd),
            (options("runc", "BinaryName = \"a#b\"\nSystemdCgroup = true"), systemd),
            ("SystemdCgroup = true".to_owned(), None),
            ("\u{0}[[[=]\n=".to_owned(), None),
        ] {
            assert_eq!(parse(&text).driver, driver, "{text}");
        }
    }

    #[test]
    fn directories_of_the_network_are_read_in_both_forms() {
        let one = parse(
            "[plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \"/opt/cni/bin\"\nconf_dir = '/etc/cni/net.d'\n",
        );
        assert_eq!(
            (one.cni_config.as_deref(), one.cni_programs),
            (Some("/etc/cni/net.d"), vec!["/opt/cni/bin".to_owned()])
        );
        let many = parse("[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['/a', \"/b\"]\n");
        assert_eq!((many.cni_config, many.cni_programs), (None, vec!["/a".to_owned(), "/b".to_owned()]));
        assert_eq!(parse("[other]\nbin_dir = '/a'\nconf_dir = '/b'\n"), Containerd::default());
    }
}
