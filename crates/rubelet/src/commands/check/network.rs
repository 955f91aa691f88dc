//! Checks the files of the pod network (CNI), for a runtime that is down or not satisfied with its network.

use std::io;
use std::path::{Path, PathBuf};

use rubelet_linux::preflight::Finding;
use serde_json::Value;

use super::containerd::Containerd;
use super::runtime::NO_NETWORK;

const NAME: &str = "cni";
const USUAL_CONFIG: &str = "/etc/cni/net.d";
const USUAL_PROGRAMS: &str = "/opt/cni/bin";

/// What was read of the network's files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    dir: PathBuf,
    /// The first configuration in lexical order, which runtimes use; `None` if there is none.
    config: Option<(String, Result<Vec<String>, String>)>,
    programs: Vec<PathBuf>,
    /// Plugins that the configuration names and no directory has.
    missing: Vec<String>,
}

pub(super) fn finding(containerd: &Containerd) -> Finding {
    let dir = containerd.cni_config.as_deref().unwrap_or(USUAL_CONFIG);
    let programs: Vec<PathBuf> = match containerd.cni_programs.as_slice() {
        [] => vec![USUAL_PROGRAMS.into()],
        dirs => dirs.iter().map(PathBuf::from).collect(),
    };
    judge(&look(Path::new(dir), programs))
}

fn look(dir: &Path, programs: Vec<PathBuf>) -> Seen {
    let config = first(dir).map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read(&path);
        (name, text.map_err(|err| err.to_string()).and_then(|text| plugins(&text)))
    });
    let named = config.iter().filter_map(|(_, plugins)| plugins.as_ref().ok()).flatten();
    let absent = |name: &&String| !programs.iter().any(|dir| dir.join(name).is_file());
    let missing = named.filter(absent).cloned().collect();
    Seen { dir: dir.to_owned(), config, missing, programs }
}

/// The configuration that runtimes use. upstream: containernetworking libcni ConfFiles
fn first(dir: &Path) -> Option<PathBuf> {
    let entries: io::Result<Vec<_>> = std::fs::read_dir(dir).and_then(Iterator::collect);
    let mut paths: Vec<PathBuf> = entries.unwrap_or_default().into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        path.extension().is_some_and(|end| ["conf", "conflist", "json"].iter().any(|known| end == *known))
    });
    paths.into_iter().min()
}

/// The programs that a configuration or a list of them names.
fn plugins(text: &[u8]) -> Result<Vec<String>, String> {
    let config: Value = serde_json::from_slice(text).map_err(|err| err.to_string())?;
    let list = config.get("plugins").and_then(Value::as_array);
    let mut names = Vec::new();
    for plugin in list.map_or(std::slice::from_ref(&config), Vec::as_slice) {
        let Some(name) = plugin.get("type").and_then(Value::as_str) else {
            return Err("a plugin has no `type`".to_owned());
        };
        names.push(name.to_owned());
        names.extend(plugin.pointer("/ipam/type").and_then(Value::as_str).map(str::to_owned));
    }
    Ok(names)
}

fn judge(seen: &Seen) -> Finding {
    let dir = seen.dir.display();
    let programs = seen.programs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ");
    match &seen.config {
        None => Finding::warn(NAME, format!("{dir} has no network configuration"), NO_NETWORK),
        Some((name, Err(why))) => Finding::warn(
            NAME,
            format!("{dir}/{name} is no network configuration: {why}"),
            format!("correct or remove {dir}/{name}"),
        ),
        Some((name, Ok(_))) if !seen.missing.is_empty() => {
            let what = format!("{dir}/{name} names plugins that are not in {programs}: {}", seen.missing.join(", "));
            Finding::warn(NAME, what, format!("install the CNI plugins into {programs}"))
        }
        Some((name, Ok(plugins))) => {
            Finding::ok(NAME, format!("{dir}/{name}, with {} of {programs}", plugins.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests::lines;
    use super::*;

    #[test]
    fn the_first_configuration_and_its_plugins_are_looked_for() {
        let temp = tempfile::tempdir().expect("a directory");
        let (dir, programs) = (temp.path().join("net.d"), temp.path().join("bin"));
        let mut found = Vec::new();
        let mut check = || found.push(judge(&look(&dir, vec![programs.clone()])));
        check();
        std::fs::create_dir_all(&dir).expect("made");
        std::fs::create_dir_all(&programs).expect("made");
        std::fs::write(dir.join("README"), "").expect("written");
        check();
        std::fs::write(dir.join("20-b.conf"), "{}").expect("written");
        check();
        let list = r#"{"plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "portmap"}]}"#;
        std::fs::write(dir.join("10-a.conflist"), list).expect("written");
        std::fs::write(programs.join("bridge"), "").expect("written");
        check();
        for name in ["host-local", "portmap"] {
            std::fs::write(programs.join(name), "").expect("written");
        }
        check();
        expect![[r#"
            Warn cni: TEMP/net.d has no network configuration
              fix: put a network configuration into /etc/cni/net.d and the CNI plugins into /opt/cni/bin, as a network add-on does; pods on the host's network run without
            Warn cni: TEMP/net.d has no network configuration
              fix: put a network configuration into /etc/cni/net.d and the CNI plugins into /opt/cni/bin, as a network add-on does; pods on the host's network run without
            Warn cni: TEMP/net.d/20-b.conf is no network configuration: a plugin has no `type`
              fix: correct or remove TEMP/net.d/20-b.conf
            Warn cni: TEMP/net.d/10-a.conflist names plugins that are not in TEMP/bin: host-local, portmap
              fix: install the CNI plugins into TEMP/bin
            Ok cni: TEMP/net.d/10-a.conflist, with bridge, host-local, portmap of TEMP/bin
        "#]]
        .assert_eq(&lines(&found).replace(temp.path().to_str().expect("a plain path"), "TEMP"));
    }
}
