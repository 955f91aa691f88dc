use async_trait::async_trait;
use expect_test::{Expect, expect};
use rubelet_core::config;
use rubelet_core::config::KubeletConfiguration;
use rubelet_engine::ports::{
    CgroupDriver, ReadyCondition, RpcError, RpcErrorKind, RuntimeInfo, RuntimeStatus, RuntimeVersion,
};
use rubelet_linux::preflight::{Finding, Grade};

use super::{listens, render, runtime};
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

async fn check(fake: Fake, expected: Expect) {
    let nowhere = vec![rubelet_linux::dbus::Endpoint::Bus("/nonexistent/bus".into())];
    let found = runtime::ask(&fake, "unix:///run/c.sock", config::CgroupDriver::Cgroupfs, nowhere).await;
    expected.assert_eq(&render(&found, Style::Plain));
}

#[tokio::test]
async fn a_runtime_that_fits_is_reported_with_its_version() {
    check(
        Fake::well(),
        expect![[r#"
        ok   runtime        containerd 2.1.9 (v1) on unix:///run/c.sock
        ok   runtime-ready  ready
        ok   pod-network    ready
        ok   cgroup-driver  cgroupfs, as reported by the runtime

        This machine is ready.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn what_does_not_fit_is_reported_with_a_fix() {
    check(Fake { down: Some(RpcErrorKind::Unavailable), ..Fake::well() }, expect![[r#"
        FAIL runtime  unix:///run/c.sock: version: no such file
                      fix: start the runtime (such as `systemctl start containerd`), or name its socket with --container-runtime-endpoint

        This machine is not ready: 1 check failed.
    "#]]).await;
    check(Fake { down: Some(RpcErrorKind::Unimplemented), ..Fake::well() }, expect![[r#"
        FAIL runtime  unix:///run/c.sock: version: no such file
                      fix: a runtime that speaks CRI v1 is needed: containerd 1.6 or later with its CRI plugin on, or CRI-O

        This machine is not ready: 1 check failed.
    "#]]).await;
    let network = ReadyCondition {
        ready: false,
        reason: "NetworkPluginNotReady".into(),
        message: "cni config uninitialized".into(),
    };
    check(Fake { network, driver: None, ..Fake::well() }, expect![[r#"
        ok   runtime        containerd 2.1.9 (v1) on unix:///run/c.sock
        ok   runtime-ready  ready
        warn pod-network    not ready: NetworkPluginNotReady: cni config uninitialized
                            fix: put a network configuration into /etc/cni/net.d and the CNI plugins into /opt/cni/bin; pods on the host's network run without
        ok   cgroup-driver  cgroupfs, as configured; the runtime does not report its driver, which must be the same

        This machine is ready, with 1 warning.
    "#]]).await;
    check(Fake { driver: Some(CgroupDriver::Systemd), ..Fake::well() }, expect![[r#"
        ok   runtime        containerd 2.1.9 (v1) on unix:///run/c.sock
        ok   runtime-ready  ready
        ok   pod-network    ready
        FAIL cgroup-driver  systemd, as reported by the runtime; systemd does not answer: connect to D-Bus at /nonexistent/bus: No such file or directory (os error 2)
                            fix: the systemd cgroup driver needs systemd as PID 1, and D-Bus (`systemctl start dbus`) or root; on a host without systemd set SystemdCgroup = false for containerd's runc (cgroup_manager = "cgroupfs" for CRI-O) and cgroupDriver: cgroupfs

        This machine is not ready: 1 check failed.
    "#]]).await;
}

#[tokio::test]
async fn a_runtime_that_is_not_there_fails_the_check() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("none.sock");
    let config = KubeletConfiguration {
        container_runtime_endpoint: format!("unix://{}", socket.display()),
        ..KubeletConfiguration::legacy_defaults()
    };
    let found = runtime::findings(&config).await;
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
fn what_is_missing_is_listed_once_each_and_fails_nothing() {
    let finding = super::not_yet();
    assert_eq!(finding.grade, Grade::Warn);
    assert_eq!(finding.what.lines().count(), rubelet_core::config::MISSING.len());
    assert!(finding.what.contains("eviction (evictionHard): pods are not evicted"), "{}", finding.what);
    let line = super::super::not_yet();
    assert!(line.lines().count() == 1 && line.contains("eviction; image garbage collection;"), "{line}");
    assert!(!line.contains("node shutdown"), "what upstream does only on request is not listed: {line}");
}

#[test]
fn a_field_that_does_not_exist_fails_the_check() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("k.yaml");
    let text =
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPod: 5\nfailCgroupV1: false\n";
    std::fs::write(&file, text).expect("a file");
    let words = [format!("--config={}", file.display())];
    let Ok(Command::Run(options)) = parse(words.iter().map(Into::into)) else { panic!("a command line") };
    let (finding, _) = super::configuration(&options);
    assert_eq!(finding.grade, Grade::Fail);
    assert!(finding.what.ends_with("k.yaml:3:1: maxPod: unknown field; did you mean maxPods?"), "{}", finding.what);
}

#[test]
fn every_port_that_is_on_is_checked() {
    let config = KubeletConfiguration { read_only_port: 0, ..KubeletConfiguration::legacy_defaults() };
    let checked: Vec<String> = listens(&config).into_iter().map(|(field, at)| format!("{field} {at}")).collect();
    assert_eq!(checked, ["healthzPort 127.0.0.1:10248", "port 0.0.0.0:10250"]);
}
