//! All faults of a configuration, for `rubelet config validate`. [`super::load`] stops at the first, because a node must not
//! start with any.

use std::path::Path;

use rubelet_core::config::{CgroupVersion, KubeletConfiguration, check_node_labels, validate};
use rubelet_engine::chain::Chain;
use serde::Serialize;

use super::decode::{Problem, Tolerated, decode};
use super::{LoadError, Origin, Sources, drop_ins, read_tree};
use crate::flags::RunOptions;

/// Most values of the wrong type that are reported for one file.
const MOST: usize = 50;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The file and the line, or the flag; `None` if it has no place.
    pub place: Option<String>,
    /// The field and what is wrong with it.
    pub problem: String,
}

/// Every fault of the configuration that these options name, in the order of precedence; empty if there is none.
#[must_use]
pub fn faults(options: &RunOptions, host: CgroupVersion) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut files = Vec::new();
    if !options.flags.config.is_empty() {
        files.push(Path::new(&options.flags.config).to_owned());
    }
    if !options.flags.config_dir.is_empty() {
        let mut drop_ins = Vec::new();
        match drop_ins::walk(Path::new(&options.flags.config_dir), drop_ins::MAX_DEPTH, &mut drop_ins) {
            Ok(()) => {
                files.extend(drop_ins.into_iter().filter(|path| path.extension().is_some_and(|end| end == "conf")))
            }
            Err(error) => found.push(plain(Chain(&error).to_string())),
        }
    }
    for file in files {
        of_file(&file, &mut found);
    }
    found.extend(
        check_node_labels(&options.flags.node_labels)
            .iter()
            .map(|error| Fault { place: Some("--node-labels".to_owned()), problem: error.to_string() }),
    );
    found.extend(of_values(options, host));
    found
}

fn plain(problem: String) -> Fault {
    Fault { place: None, problem }
}

/// Values of the wrong type, unknown fields and duplicate keys.
fn of_file(path: &Path, found: &mut Vec<Fault>) {
    let (mut tree, mut tolerated) = match read_tree(path) {
        Ok(read) => read,
        Err(LoadError::Problems { problems, .. }) => {
            return found.extend(problems.iter().map(|problem| of_problem(path, problem)));
        }
        Err(error) => return found.push(plain(Chain(&error).to_string())),
    };
    let mut problems = tolerated.take();
    // What is wrong is removed, so that the decoder comes to the next problem.
    for _ in 0..MOST {
        let mut unknown = Tolerated::default();
        let decoded = decode::<KubeletConfiguration>(&tree, &mut unknown);
        let Err(problem) = decoded else {
            problems.extend(unknown.take());
            break;
        };
        let removed = problem.place().is_some_and(|place| tree.remove(place));
        problems.push(problem);
        if !removed {
            break;
        }
    }
    problems.sort_by_key(Problem::order);
    found.extend(problems.iter().map(|problem| of_problem(path, problem)));
}

fn of_problem(path: &Path, problem: &Problem) -> Fault {
    let line = problem.place().map(|place| format!(":{}", place.line)).unwrap_or_default();
    Fault { place: Some(format!("{}{line}", path.display())), problem: problem.without_place() }
}

/// Values that break a rule. They are known only if every file can be decoded.
fn of_values(options: &RunOptions, host: CgroupVersion) -> Vec<Fault> {
    let mut sources = Sources::default();
    let Ok(config) = super::read_all(options, &mut sources) else { return Vec::new() };
    let Ok(config) = options.apply_over(config) else { return Vec::new() };
    sources.origins.set_by_flags(options);
    let origin = |field: &str| {
        let field = field.split(' ').next().unwrap_or_default();
        sources.origins.of(field).map(Origin::to_string)
    };
    let invalid = validate(&config, host);
    invalid.iter().map(|invalid| Fault { place: origin(&invalid.field), problem: invalid.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::config_load::load;
    use crate::flags::{Command, parse};

    const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn shown(files: &[(&str, &str)], line: &str) -> String {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().to_str().expect("text");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text.replace("HEAD\n", HEAD)).expect("written");
        }
        let line = line.replace("DIR", root);
        let Ok(Command::ConfigValidate { options, .. }) = parse(line.split(' ').map(Into::into)) else {
            panic!("{line}")
        };
        let lines = faults(&options, CgroupVersion::V2).into_iter();
        let lines = lines.map(|fault| format!("{}: {}\n", fault.place.as_deref().unwrap_or("no place"), fault.problem));
        let loads = load(&options, CgroupVersion::V2).is_ok_and(|loaded| loaded.tolerated.is_empty());
        let text = lines.collect::<String>().replace(root, "DIR");
        assert_eq!(text.is_empty(), loads, "a start finds a fault if and only if there is one: {text}");
        text
    }

    #[test]
    fn every_fault_has_its_line() {
        let file = "HEAD\nmaxPod: 5\nmaxPods: many\nport: 0\nsyncFrequency: -1s\nauthentication:\n  webhook:\n    \
                    enabled: 7\nfailSwapOn: yes please\nevictionHard:\n  memory.availabel: 1Mi\nmaxPods: 7\n";
        expect![[r#"
            DIR/k.yaml:3: maxPod: unknown field; did you mean maxPods?
            DIR/k.yaml:9: authentication.webhook.enabled: must be true or false, not the number 7
            DIR/k.yaml:10: failSwapOn: must be true or false, not the text "yes please"
            DIR/k.yaml:13: maxPods: is a duplicate key; the value of line 4 is ignored
        "#]]
        .assert_eq(&shown(&[("k.yaml", file)], "config validate --config DIR/k.yaml"));
        let file = "HEAD\nport: 0\nsyncFrequency: -1s\nevictionHard:\n  memory.availabel: 1Mi\n";
        let line = "config validate --config DIR/k.yaml --read-only-port=-7 --node-labels=kubernetes.io/x=y";
        expect![[r#"
            --node-labels: node label "kubernetes.io/x" is in a reserved domain; a node may set beta.kubernetes.io/arch, beta.kubernetes.io/instance-type, beta.kubernetes.io/os, failure-domain.beta.kubernetes.io/region, failure-domain.beta.kubernetes.io/zone, kubernetes.io/arch, kubernetes.io/hostname, kubernetes.io/os, node.kubernetes.io/instance-type, topology.kubernetes.io/region, topology.kubernetes.io/zone and labels in kubelet.kubernetes.io or node.kubernetes.io
            --read-only-port: readOnlyPort (--read-only-port) -7: must be between 0 and 65535
            DIR/k.yaml:4: syncFrequency (--sync-frequency) -1s: must not be negative
            DIR/k.yaml:6: evictionHard (--eviction-hard) memory.availabel: is no eviction signal; there are memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, containerfs.available, containerfs.inodesFree, allocatableMemory.available, pid.available; did you mean memory.available?
        "#]].assert_eq(&shown(&[("k.yaml", file)], line));
    }

    #[test]
    fn a_valid_file_has_none_and_an_unreadable_one_is_named() {
        assert_eq!(shown(&[("k.yaml", "HEAD\nmaxPods: 5\n")], "config validate --config DIR/k.yaml"), "");
        expect![[r#"
            no place: cannot read configuration DIR/none.yaml: No such file or directory (os error 2)
        "#]]
        .assert_eq(&shown(&[], "config validate --config DIR/none.yaml"));
        expect![[r#"
            DIR/k.yaml:1: unclosed bracket '['
        "#]]
        .assert_eq(&shown(&[("k.yaml", "a: [")], "config validate --config DIR/k.yaml"));
    }
}
