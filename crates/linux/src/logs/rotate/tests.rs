use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use flate2::read::GzDecoder;
use rubelet_core::id::PodRef;

use super::*;
use crate::testing::{TempDir, temp_dir};

struct Setup {
    dir: TempDir,
    logs: DiskLogs,
    log: LogId,
}

fn setup() -> Setup {
    let dir = temp_dir();
    let pods = dir.path().join("pods");
    fs::create_dir_all(pods.join("ns_web_u1/app")).unwrap();
    let logs = DiskLogs::new(LogDirs { pods, containers: dir.path().join("containers") });
    let pod = PodRef { namespace: "ns".into(), name: "web".into(), uid: "u1".into() };
    Setup { dir, logs, log: LogId { pod, container: "app".into(), restart_count: 0 } }
}

impl Setup {
    fn place(&self) -> PathBuf {
        self.dir.path().join("pods/ns_web_u1/app")
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.place().join(name), content).unwrap();
    }

    async fn names(&self) -> String {
        self.logs.list(&self.log).await.unwrap().join(" ")
    }
}

#[tokio::test]
async fn log_04_a_log_is_measured_renamed_and_removed_by_name() {
    let setup = setup();
    let gone = LogId { container: "other".into(), ..setup.log.clone() };
    let linked = LogId { restart_count: 1, ..setup.log.clone() };
    setup.put("0.log", "12345");
    symlink("/etc/passwd", setup.place().join("1.log")).unwrap();
    let sizes = setup.logs.sizes(vec![setup.log.clone(), gone.clone(), linked]).await;
    assert!(matches!(sizes[..], [LogSize::Bytes(5), LogSize::Missing, LogSize::Bytes(0)]), "{sizes:?}");
    assert_eq!(setup.logs.list(&gone).await.unwrap(), Vec::<String>::new());

    setup.logs.rename(&setup.log, "0.log", "0.log.20260101-000000").await.unwrap();
    assert_eq!(setup.names().await, "0.log.20260101-000000", "a link is no log");
    setup.put("0.log", "new");
    let err = setup.logs.rename(&setup.log, "0.log.20260101-000000", "0.log").await.unwrap_err();
    assert_eq!(err.source.kind(), io::ErrorKind::AlreadyExists, "no log is ever replaced");
    for _ in 0..2 {
        setup.logs.remove(&setup.log, &["0.log.20260101-000000".into(), "no.such".into()]).await.unwrap();
        assert_eq!(setup.names().await, "0.log");
    }
    setup.logs.remove(&gone, &["x".into()]).await.unwrap();
    for bad in ["../0.log", "a/b", ".."] {
        assert!(setup.logs.rename(&setup.log, "0.log", bad).await.is_err(), "{bad}");
        assert!(setup.logs.remove(&setup.log, &[bad.into()]).await.is_err(), "{bad}");
        assert!(setup.logs.compress(&setup.log, bad).await.is_err(), "{bad}");
    }
}

#[tokio::test]
async fn log_04_a_compressed_log_has_all_bytes_the_mode_and_the_time_of_the_log() {
    let setup = setup();
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(|n| (n % 251).to_le_bytes()).collect();
    let name = "0.log.20260101-000000";
    setup.put(name, &content);
    setup.put(&format!("{name}.tmp"), "left by an interrupted compression");
    fs::set_permissions(setup.place().join(name), fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(setup.place().join(name)).unwrap();
    setup.logs.compress(&setup.log, name).await.unwrap();
    setup.logs.compress(&setup.log, name).await.unwrap();
    assert_eq!(setup.names().await, format!("{name}.gz"));
    let packed = fs::File::open(setup.place().join(format!("{name}.gz"))).unwrap();
    let after = packed.metadata().unwrap();
    assert!(after.len() < before.len() / 10);
    assert_eq!(
        (after.permissions().mode(), after.modified().unwrap()),
        (before.permissions().mode(), before.modified().unwrap())
    );
    let mut unpacked = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == content, "no byte is lost");
}

#[test]
fn log_04_a_log_that_is_removed_meanwhile_is_not_compressed_further() {
    let setup = setup();
    setup.put("0.log.20260101-000000", vec![b'x'; 100]);
    let dir = beneath::open_root(&setup.place()).unwrap();
    let mut log = beneath::open_file(&dir, "0.log.20260101-000000", OFlags::RDONLY).unwrap();
    fs::remove_file(setup.place().join("0.log.20260101-000000")).unwrap();
    assert!(!compress_to(&dir, &mut log, "0.log.20260101-000000.tmp").unwrap());
}

/// Where nothing can be written, the log stays as it is.
#[tokio::test]
async fn log_04_a_compression_that_fails_leaves_the_log() {
    let setup = setup();
    setup.put("0.log.20260101-000000", "text");
    fs::create_dir(setup.place().join("0.log.20260101-000000.tmp")).unwrap();
    assert!(setup.logs.compress(&setup.log, "0.log.20260101-000000").await.is_err());
    assert_eq!(fs::read(setup.place().join("0.log.20260101-000000")).unwrap(), b"text");
}
