//! Cgroups, pod directories and logs.

use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::qos::{CgroupPath, CgroupValues};
use rubelet_engine::ports::{CgroupState, Cgroups, LogCleaner, PodDirs, PodLogs};

/// Cgroups below `root` are made, found and removed with their descendants; repetition is harmless.
pub async fn check_cgroups(cgroups: &dyn Cgroups, root: &CgroupPath) {
    let uid = PodUid::from("c0ffee00-1111-2222-3333-444455556666");
    let pod = root.child(format!("pod{uid}"));
    let values = CgroupValues { cpu_shares: Some(102), ..CgroupValues::default() };

    let found = async || {
        let pods = cgroups.pods().await.expect("pods can be listed");
        pods.contains(&(uid.clone(), pod.clone()))
    };
    let look = async |values: &CgroupValues| cgroups.look(&pod, values).await.expect("a cgroup can be looked at");
    assert!(!found().await, "nothing is left of an earlier run");
    assert!(matches!(look(&values).await, CgroupState::Missing(places) if !places.is_empty()));
    assert!(!found().await, "a look makes nothing");
    cgroups.destroy(&pod).await.expect("destroying a missing cgroup succeeds");
    for _ in 0..2 {
        cgroups.ensure(&pod, &values).await.expect("a cgroup can be made, and made again");
        assert!(found().await);
    }
    cgroups.ensure(&pod, &CgroupValues::default()).await.expect("setting nothing is harmless");
    for same in [&values, &CgroupValues::default()] {
        assert_eq!(look(same).await, CgroupState::AsWanted);
    }
    let others = CgroupValues { cpu_shares: Some(2048), ..CgroupValues::default() };
    assert!(matches!(look(&others).await, CgroupState::Differs(values) if values.len() == 1));
    assert_eq!(look(&values).await, CgroupState::AsWanted, "a look changes nothing");
    let inner = pod.child("inner");
    cgroups.ensure(&inner, &CgroupValues::default()).await.expect("a cgroup below another can be made");

    for _ in 0..2 {
        cgroups.destroy(&pod).await.expect("a cgroup can be destroyed, and destroyed again");
        assert!(!found().await);
    }
}

/// A pod's directory is made, filled, listed and removed; repetition is harmless.
pub async fn check_pod_dirs(dirs: &dyn PodDirs) {
    let uid = PodUid::from("c0ffee00-1111-2222-3333-444455556666");
    dirs.remove(&uid).await.expect("removing a missing directory succeeds");
    let dir = dirs.make(&uid).await.expect("a directory can be made");
    assert_eq!(dirs.make(&uid).await.expect("and made again"), dir);
    assert!(dirs.list().await.expect("directories can be listed").contains(&uid));

    let hosts = dirs.write_hosts(&uid, "127.0.0.1 localhost\n").await.expect("a hosts file can be written");
    assert_eq!(dirs.write_hosts(&uid, "127.0.0.1 other\n").await.expect("and written again"), hosts);
    assert!(hosts.starts_with(&dir));

    let message = dirs.make_termination_file(&uid, "app", "a1b2c3d4").await.expect("a message file can be made");
    let path = message.to_str().expect("paths of ours are UTF-8");
    let read = |limit| dirs.read_termination_file(&uid, path, limit);
    assert_eq!(read(10).await.expect("an empty file can be read"), b"");
    let gone = format!("{path}-gone");
    let gone = dirs.read_termination_file(&uid, &gone, 10).await;
    assert_eq!(gone.expect("a missing file counts as empty"), b"");

    for _ in 0..2 {
        dirs.remove(&uid).await.expect("a directory can be removed, and removed again");
        assert!(!dirs.list().await.expect("directories can be listed").contains(&uid));
    }
}

/// Log directories are made, and removed with their pod; repetition is harmless.
pub async fn check_pod_logs<L: PodLogs + LogCleaner>(logs: &L) {
    let pod = PodRef { namespace: "default".into(), name: "contract".into(), uid: "c0ffee00".into() };
    for _ in 0..2 {
        let greatest = logs.make(&pod, "app").await.expect("a log directory can be made, and made again");
        assert_eq!(greatest, None, "there is no log yet");
    }
    logs.remove_container(&pod, "app", "no-such-id", 0).await.expect("removing missing logs succeeds");
    assert!(logs.list().await.expect("log directories can be listed").contains(&pod));
    for _ in 0..2 {
        logs.remove(&pod).await.expect("a log directory can be removed, and removed again");
        assert!(!logs.list().await.expect("log directories can be listed").contains(&pod));
    }
}
