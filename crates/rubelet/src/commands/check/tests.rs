use async_trait::async_trait;
use expect_test::{Expect, expect};
use rubelet_core::config::KubeletConfiguration;
use rubelet_engine::ports::{
    CgroupDriver, ReadyCondition, RpcError, RpcErrorKind, RuntimeInfo, RuntimeStatus, RuntimeVersion,
};
use rubelet_linux::preflight::{Finding, Grade};

use super::driver::Answer;
use super::runtime::RuntimeSeen;
use super::{document, findings, render, runtime};
use crate::commands::json;
use crate::commands::style::Style;
use crate::flags::{Command, parse};

struct Fake {
    down: Option<RpcErrorKind>,
    network: ReadyCondition,
    driver: Option<CgroupDriver>,
}

impl Fake {
    fn well() -> Self {
        let network = ReadyCondition { ready: true, ..ReadyCondition::default() };
        Self { down: None, network, driver: Some(CgroupDriver::Cgroupfs) }
    }
}

#[async_trait]
impl RuntimeInfo for Fake {
    async fn version(&self) -> Result<RuntimeVersion, RpcError> {
        match self.down {
            Some(kind) => Err(RpcError { operation: "version", kind, detail: "no such file".into() }),
            None => Ok(RuntimeVersion { name: "containerd".into(), version: "2.1.9".into(), api_version: "v1".into() }),
        }
    }

    async fn status(&self) -> Result<RuntimeStatus, RpcError> {
        let runtime = ReadyCondition { ready: true, ..ReadyCondition::default() };
        Ok(RuntimeStatus { runtime, network: self.network.clone(), ..RuntimeStatus::default() })
    }

    async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, RpcError> {
        Ok(self.driver)
    }
}

async fn check(fake: Fake, expected: Expect) -> RuntimeSeen {
    let (seen, found) = runtime::ask(&fake, "unix:///run/c.sock").await;
    expected.assert_eq(&render(&found, Style::Plain));
    seen
}

/// Findings as text, for tables.
pub(super) fn lines(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let Finding { name, grade, what, mend } = finding;
        let fix = if mend.is_empty() { String::new() } else { format!("  fix: {mend}\n") };
        format!("{grade:?} {name}: {what}\n{fix}")
    };
    findings.iter().map(line).collect()
}

#[tokio::test]
async fn a_runtime_that_fits_is_reported_with_its_version() {
    let seen = check(
        Fake::well(),
        expect![[r#"
        ok   runtime        containerd 2.1.9 (v1) on unix:///run/c.sock
        ok   runtime-ready  ready
        ok   pod-network    ready

        This machine is ready.
    "#]],
    )
    .await;
    assert_eq!(seen, RuntimeSeen { driver: Answer::Reports(CgroupDriver::Cgroupfs), network: Some(true) });
}

#[tokio::test]
async fn what_does_not_fit_is_reported_with_a_fix() {
    let down = RuntimeSeen { driver: Answer::Down, network: None };
    let seen = check(Fake { down: Some(RpcErrorKind::Unavailable), ..Fake::well() }, expect![[r#"
        FAIL runtime  unix:///run/c.sock: version: no such file
                      fix: start the runtime (such as `systemctl start containerd`), or name its socket with --container-runtime-endpoint

        This machine is not ready: 1 check failed.
    "#]]).await;
    assert_eq!(seen, down);
    let seen = check(Fake { down: Some(RpcErrorKind::Unimplemented), ..Fake::well() }, expect![[r#"
        FAIL runtime  unix:///run/c.sock: version: no such file
                      fix: a runtime that speaks CRI v1 is needed: containerd 1.6 or later with its CRI plugin on, or CRI-O

        This machine is not ready: 1 check failed.
    "#]]).await;
    assert_eq!(seen, down);
    let network = ReadyCondition {
        ready: false,
        reason: "NetworkPluginNotReady".into(),
        message: "cni config uninitialized".into(),
    };
    let seen = check(Fake { network, driver: None, ..Fake::well() }, expect![[r#"
        ok   runtime        containerd 2.1.9 (v1) on unix:///run/c.sock
        ok   runtime-ready  ready
        warn pod-network    not ready: NetworkPluginNotReady: cni config uninitialized
                            fix: put a network configuration into /etc/cni/net.d and the CNI plugins into /opt/cni/bin, as a network add-on does; pods on the host's network run without

        This machine is ready, with 1 warning.
    "#]]).await;
    assert_eq!(seen, RuntimeSeen { driver: Answer::Silent, network: Some(false) });
}

#[tokio::test]
async fn a_runtime_that_is_not_there_fails_the_check() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("none.sock");
    let config = KubeletConfiguration {
        container_runtime_endpoint: format!("unix://{}", socket.display()),
        ..KubeletConfiguration::legacy_defaults()
    };
    let (_, found) = runtime::findings(&config).await;
    let [only] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((only.name.as_str(), only.grade), ("runtime", Grade::Fail));
    assert!(only.what.contains("none.sock"), "{}", only.what);
    assert!(only.mend.contains("--container-runtime-endpoint"), "{}", only.mend);
}

#[test]
fn findings_are_a_table_with_a_sum() {
    let finding = |name: &str, grade, what: &str, mend: &str| Finding {
        name: name.into(),
        grade,
        what: what.into(),
        mend: mend.into(),
    };
    let all = [
        finding("kernel", Grade::Ok, "6.18", ""),
        finding("cgroup-controllers", Grade::Warn, "missing: pids\nand more", "mount them"),
        finding("swap", Grade::Fail, "on", "`swapoff -a`"),
    ];
    expect![[r#"
        ok   kernel              6.18
        warn cgroup-controllers  missing: pids
                                 and more
                                 fix: mount them
        FAIL swap                on
                                 fix: `swapoff -a`

        This machine is not ready: 1 check failed, 1 warning.
    "#]]
    .assert_eq(&render(&all, Style::Plain));
    expect![[r#"
        ^[32m✓^[0m kernel              6.18
        ^[33m!^[0m cgroup-controllers  missing: pids
                              and more
                              ^[1mfix: mount them^[0m
        ^[31m✗^[0m swap                on
                              ^[1mfix: `swapoff -a`^[0m

        This machine is not ready: 1 check failed, 1 warning.
    "#]]
    .assert_eq(&render(&all, Style::Rich).replace('\x1b', "^"));
    assert!(render(&all[..1], Style::Plain).ends_with("\nThis machine is ready.\n"));
    assert!(render(&all[..2], Style::Plain).ends_with("\nThis machine is ready, with 1 warning.\n"));
}

#[test]
fn the_json_document_has_a_version_and_says_whether_the_machine_is_ready() {
    let found = [Finding::ok("kernel", "6.18"), Finding::warn("psi", "absent", "boot with psi=1")];
    let ready = json(&document(&found)).expect("it can be written");
    expect![[r#"
        {
          "apiVersion": "rubelet/v1",
          "kind": "Check",
          "ready": true,
          "findings": [
            {
              "name": "kernel",
              "grade": "ok",
              "what": "6.18",
              "mend": ""
            },
            {
              "name": "psi",
              "grade": "warn",
              "what": "absent",
              "mend": "boot with psi=1"
            }
          ]
        }
    "#]]
    .assert_eq(&ready);
    let failed = json(&document(&[Finding::fail("swap", "on", "`swapoff -a`")])).expect("it can be written");
    assert!(failed.contains("\"ready\": false"), "{failed}");
}

#[tokio::test]
async fn every_finding_of_this_machine_has_a_name_that_fits_and_a_fix_if_something_is_wrong() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let words = [
        format!("--kubeconfig={}", path("kubelet.conf")),
        format!("--cert-dir={}", path("pki")),
        format!("--root-dir={}", path("root")),
        format!("--container-runtime-endpoint=unix://{}", path("none.sock")),
    ];
    let Ok(Command::Run(options)) = parse(words.iter().map(Into::into)) else { panic!("a command line") };
    let found = findings(&options).await;
    for name in
        ["configuration", "cgroup-tree", "runtime", "cni", "cgroup-driver", "systemd", "kubeconfig", "serving-cert"]
    {
        assert!(found.iter().any(|finding| finding.name == name), "{name}");
    }
    for finding in &found {
        assert!(finding.name.len() <= "cgroup-controllers".len(), "the table keeps its width: {finding:?}");
        assert_eq!(finding.mend.is_empty(), finding.grade == Grade::Ok, "{finding:?}");
    }
}
