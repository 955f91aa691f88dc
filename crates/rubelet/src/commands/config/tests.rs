//! What `rubelet config` shows.

use expect_test::{Expect, expect};

use super::*;
use crate::flags::{Command, parse};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// The output for these files; `DIR` stands for their directory.
fn check_shown(files: &[(&str, &str)], line: &str, expected: Expect) {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().to_str().expect("text");
    for (name, text) in files {
        std::fs::write(dir.path().join(name), HEAD.to_owned() + text).expect("written");
    }
    let line = line.replace("DIR", root);
    let report = match parse(line.split(' ').map(Into::into)) {
        Ok(Command::ConfigShow { options, all, format }) => show(&options, all, format, Style::Plain),
        Ok(Command::ConfigValidate { options, output }) => check(&options, CgroupVersion::V2, output, Style::Plain),
        other => panic!("{line}: {other:?}"),
    };
    let text = match report {
        Ok(report) => report.text + &report.notes.join("\n"),
        Err(problem) => format!("Err: {problem}"),
    };
    expected.assert_eq(&text.replace(root, "DIR"));
}

const FILES: [(&str, &str); 2] = [
    (
        "k.yaml",
        "maxPods: 10\nport: 10255\nevictionHard:\n  memory.available: 1Gi\nauthentication:\n  anonymous: {enabled: false}\n",
    ),
    ("a.conf", "maxPods: 20\nclusterDNS: [10.0.0.10]\nstaticPodURLHeader: {Authorization: [secret]}\n"),
];

#[test]
fn each_value_has_its_origin() {
    let line =
        "config show --config DIR/k.yaml --config-dir DIR --port 10251 --feature-gates=MemoryQoS=true --root-dir /r";
    check_shown(
        &FILES,
        line,
        expect![[r#"
        FIELD                             VALUE          FROM
        authentication.anonymous.enabled  false          DIR/k.yaml:8
        clusterDNS                        ["10.0.0.10"]  DIR/a.conf:4
        evictionHard.memory.available     1Gi            DIR/k.yaml:6
        featureGates.MemoryQoS            true           --feature-gates
        maxPods                           20             DIR/a.conf:3
        port                              10251          --port
        staticPodURLHeader.Authorization  <masked>       DIR/a.conf:5
        --root-dir                        /r             --root-dir
    "#]],
    );
    check_shown(
        &FILES,
        "config show --config DIR/k.yaml -o json",
        expect![[r#"
        {
          "apiVersion": "rubelet/v1",
          "kind": "Config",
          "fields": [
            {
              "name": "authentication.anonymous.enabled",
              "value": false,
              "source": "file",
              "origin": "DIR/k.yaml",
              "line": 8
            },
            {
              "name": "evictionHard.memory.available",
              "value": "1Gi",
              "source": "file",
              "origin": "DIR/k.yaml",
              "line": 6
            },
            {
              "name": "maxPods",
              "value": 10,
              "source": "file",
              "origin": "DIR/k.yaml",
              "line": 3
            },
            {
              "name": "port",
              "value": 10255,
              "source": "file",
              "origin": "DIR/k.yaml",
              "line": 4
            }
          ]
        }
    "#]],
    );
    check_shown(
        &FILES,
        "config show --config DIR/k.yaml --config-dir DIR -o yaml",
        expect![[r#"
        apiVersion: kubelet.config.k8s.io/v1beta1
        kind: KubeletConfiguration
        authentication:
          anonymous:
            enabled: false
        clusterDNS:
        - "10.0.0.10"
        evictionHard:
          memory.available: 1Gi
        maxPods: 20
        port: 10255
        staticPodURLHeader:
          Authorization: <masked>
    "#]],
    );
    check_shown(&[], "config show", expect!["Every field has its default.\n"]);
}

#[test]
fn all_shows_defaults_too_and_what_it_writes_is_a_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, second) = (dir.path().join("a.yaml"), dir.path().join("b.yaml"));
    std::fs::write(&first, HEAD.to_owned() + FILES[0].1).expect("written");
    let printed = |path: &std::path::Path, format: &str| {
        let line = format!("config show --all -o {format} --config {}", path.display());
        let Ok(Command::ConfigShow { options, all, format }) = parse(line.split(' ').map(Into::into)) else {
            panic!("{line}")
        };
        show(&options, all, format, Style::Plain).expect("it is valid").text
    };
    let table = printed(&first, "table");
    assert!(table.lines().any(|line| line.starts_with("syncFrequency ") && line.ends_with(" default")), "{table}");
    let text = printed(&first, "yaml");
    std::fs::write(&second, &text).expect("written");
    assert_eq!(printed(&second, "yaml"), text, "the file that it writes means the same");
}

#[test]
fn an_invalid_configuration_is_not_shown_but_listed() {
    let files = [("k.yaml", "maxPod: 10\nport: many\nsyncFrequency: -1s\n")];
    check_shown(
        &files,
        "config show --config DIR/k.yaml",
        expect![[r#"
        Err: DIR/k.yaml:4:7: port: must be a whole number between -2147483648 and 2147483647, not the text "many"
        rubelet config validate lists all errors"#]],
    );
    check_shown(
        &files,
        "config validate --config DIR/k.yaml",
        expect![[r#"
        FAIL DIR/k.yaml:3: maxPod: unknown field; did you mean maxPods?
        FAIL DIR/k.yaml:4: port: must be a whole number between -2147483648 and 2147483647, not the text "many"

        The configuration is not valid: 2 errors.
    "#]],
    );
    check_shown(
        &files,
        "config validate --config DIR/k.yaml -o json",
        expect![[r#"
        {
          "apiVersion": "rubelet/v1",
          "kind": "ConfigFaults",
          "valid": false,
          "faults": [
            {
              "place": "DIR/k.yaml:3",
              "problem": "maxPod: unknown field; did you mean maxPods?"
            },
            {
              "place": "DIR/k.yaml:4",
              "problem": "port: must be a whole number between -2147483648 and 2147483647, not the text \"many\""
            }
          ]
        }
    "#]],
    );
    check_shown(&[], "config validate", expect!["The configuration is valid.\n"]);
}
