//! Checks the configuration: its files, its drop-ins, and what it asks for that rubelet lacks.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use rubelet_core::config::{CgroupVersion, FeatureGates, Given, KubeletConfiguration, MISSING, Missing, When};
use rubelet_engine::chain::Chain;
use rubelet_linux::preflight::Finding;

use super::cgroup_version;
use crate::config_load::{Loaded, load};
use crate::flags::RunOptions;

/// The settings that the other checks judge by. If the configuration cannot be loaded, they are those of flags and defaults.
pub(super) struct Settings {
    pub(super) config: KubeletConfiguration,
    pub(super) gates: FeatureGates,
    pub(super) given: Given,
}

/// The configuration in effect, and what was found about it.
pub(super) fn load_settings(options: &RunOptions) -> (Settings, Vec<Finding>) {
    // A forbidden cgroup version of the host is reported as a separate finding, not as an error of the configuration.
    let loaded = load(options, cgroup_version()).or_else(|err| match load(options, CgroupVersion::V2) {
        Ok(loaded) if loaded.config.fail_cgroup_v1 => Ok(loaded),
        Ok(_) | Err(_) => Err(err),
    });
    match loaded {
        Ok(loaded) => {
            let mut found = vec![judge(&loaded)];
            if !loaded.flags.config_dir.is_empty() {
                found.push(drop_ins(
                    &loaded.flags.config_dir,
                    &used(Path::new(&loaded.flags.config_dir)),
                    &loaded.skipped,
                ));
            }
            (Settings { config: loaded.config, gates: loaded.gates, given: loaded.given }, found)
        }
        Err(err) => {
            let mend = "fix this first; the checks below use flags and defaults alone";
            let found = vec![Finding::fail("configuration", Chain(&err).to_string(), mend)];
            let config = options.config.clone();
            let gates = FeatureGates::lenient(&config.feature_gates);
            (Settings { config, gates, given: options.given() }, found)
        }
    }
}

fn judge(loaded: &Loaded) -> Finding {
    let name = "configuration";
    if !loaded.tolerated.is_empty() {
        let mend = "fix or remove these: the node starts, but ignores them";
        return Finding::fail(name, loaded.tolerated.join("\n"), mend);
    }
    if !loaded.warnings.is_empty() {
        let mend = "change these settings, or accept that they have no effect";
        return Finding::warn(name, loaded.warnings.join("\n"), mend);
    }
    Finding::ok(
        name,
        match loaded.flags.config.as_str() {
            "" => "flags and defaults",
            path => path,
        },
    )
}

/// The files below the directory of drop-ins that were merged, in the order of their names.
fn used(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            files.extend(used(&path));
        } else if path.extension().is_some_and(|extension| extension == "conf") {
            files.push(path);
        }
    }
    files
}

/// Drop-ins that were used, and files beside them that were passed over.
fn drop_ins(dir: &str, used: &[PathBuf], skipped: &[PathBuf]) -> Finding {
    let name = "drop-ins";
    let below = |path: &PathBuf| path.strip_prefix(dir).unwrap_or(path).display().to_string();
    let list = |paths: &[PathBuf]| paths.iter().map(below).collect::<Vec<_>>().join(", ");
    let read = match used {
        [] => format!("{dir}: none"),
        used => format!("{dir}: {}, the last one counts most", list(used)),
    };
    if skipped.is_empty() {
        return Finding::ok(name, read);
    }
    let what = format!("{read}\npassed over: {}", list(skipped));
    Finding::warn(name, what, "a drop-in's name ends in .conf: rename these, or move them elsewhere")
}

/// Capabilities of upstream's kubelet that rubelet lacks.
pub(super) fn not_yet() -> Finding {
    let line = |missing: &Missing| {
        let fields = missing.fields.first().map(|field| format!(" ({field})")).unwrap_or_default();
        let asked = match missing.when {
            When::ByDefault => "",
            When::Asked => "only if configured: ",
        };
        format!("{asked}{}{fields}: {}", missing.what, missing.instead)
    };
    let what: Vec<String> = MISSING.iter().map(line).collect();
    let mend = "keep pods that need one of these off this node; leave the fields out of the configuration";
    Finding::warn("not-yet", what.join("\n"), mend)
}

/// Every address that a run listens on. A port of 0 is off; an invalid address was reported with the configuration.
pub(super) fn listens(config: &KubeletConfiguration) -> Vec<(String, SocketAddr)> {
    let ports = [
        ("healthzPort", &config.healthz_bind_address, config.healthz_port, true),
        ("port", &config.address, config.port, config.enable_server),
        ("readOnlyPort", &config.address, config.read_only_port, config.enable_server),
    ];
    ports
        .into_iter()
        .filter_map(|(field, address, port, on)| {
            let port = u16::try_from(port).ok().filter(|port| on && *port != 0)?;
            let address = address.parse::<IpAddr>().ok()?;
            Some((field.to_owned(), SocketAddr::new(address, port)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use rubelet_linux::preflight::Grade;

    use super::super::tests::lines;
    use super::*;
    use crate::flags::{Command, parse};

    fn loaded(words: &[String]) -> Vec<Finding> {
        let Ok(Command::Run(options)) = parse(words.iter().map(Into::into)) else { panic!("a command line") };
        load_settings(&options).1
    }

    #[test]
    fn a_field_that_does_not_exist_fails_the_check() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("k.yaml");
        let text =
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 5\nfailCgroupV1: false\n";
        std::fs::write(&file, text).expect("a file");
        let found = loaded(&[format!("--config={}", file.display())]);
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(finding.grade, Grade::Fail);
        assert!(finding.what.ends_with("k.yaml:3:1: maxPod: unknown field; did you mean maxPods?"), "{}", finding.what);
    }

    #[test]
    fn drop_ins_are_listed_in_their_order_and_other_files_named() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path();
        std::fs::create_dir(dir.join("15-more")).expect("made");
        for name in ["20-b.conf", "10-a.conf", "15-more/x.conf", "30-c.yaml", "README"] {
            let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
            std::fs::write(dir.join(name), text).expect("written");
        }
        let found = loaded(&[format!("--config-dir={}", dir.display())]);
        let drop_ins = found.iter().filter(|finding| finding.name == "drop-ins").cloned().collect::<Vec<_>>();
        expect![[r#"
            Warn drop-ins: TEMP: 10-a.conf, 15-more/x.conf, 20-b.conf, the last one counts most
            passed over: 30-c.yaml, README
              fix: a drop-in's name ends in .conf: rename these, or move them elsewhere
        "#]]
        .assert_eq(&lines(&drop_ins).replace(dir.to_str().expect("a plain path"), "TEMP"));
        let ok = drop_ins_of(&["a.conf"], &[]);
        assert_eq!((ok.grade, ok.what.as_str()), (Grade::Ok, "/d: a.conf, the last one counts most"));
        assert_eq!(drop_ins_of(&[], &[]).what, "/d: none");
    }

    fn drop_ins_of(used: &[&str], skipped: &[&str]) -> Finding {
        let paths = |names: &[&str]| names.iter().map(|name| Path::new("/d").join(name)).collect::<Vec<_>>();
        drop_ins("/d", &paths(used), &paths(skipped))
    }

    #[test]
    fn what_is_missing_is_listed_once_each_and_fails_nothing() {
        let finding = not_yet();
        assert_eq!(finding.grade, Grade::Warn);
        assert_eq!(finding.what.lines().count(), MISSING.len());
        assert!(finding.what.contains("eviction (evictionHard): pods are not evicted"), "{}", finding.what);
        let line = crate::commands::not_yet();
        assert!(line.lines().count() == 1 && line.contains("eviction; volumes beyond emptyDir"), "{line}");
        assert!(!line.contains("node shutdown"), "what upstream does only on request is not listed: {line}");
    }

    #[test]
    fn every_port_that_is_on_is_checked() {
        let config = KubeletConfiguration { read_only_port: 0, ..KubeletConfiguration::legacy_defaults() };
        let listens = |config: &KubeletConfiguration| -> Vec<String> {
            listens(config).into_iter().map(|(field, at)| format!("{field} {at}")).collect()
        };
        assert_eq!(listens(&config), ["healthzPort 127.0.0.1:10248", "port 0.0.0.0:10250"]);
        let off = KubeletConfiguration { enable_server: false, read_only_port: 10255, ..config };
        assert_eq!(listens(&off), ["healthzPort 127.0.0.1:10248"]);
    }
}
