use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod};

use super::*;

async fn set_up(path: &str, kind: Option<&str>) -> Result<PathBuf, String> {
    let source = HostPathVolumeSource { path: path.to_owned(), type_: kind.map(str::to_owned) };
    let volume = Volume { name: "v".to_owned(), host_path: Some(source), ..Volume::default() };
    assert!(HostPath.serves(&volume));
    let request = VolumeRequest { pod: Arc::new(Pod::default()), volume, fs_group: None };
    HostPath.set_up(&request).await.map(|ready| ready.path).map_err(|err| err.to_string())
}

#[tokio::test]
async fn each_type_accepts_its_own_and_says_what_is_wrong_with_others() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(at("dir")).unwrap();
    std::fs::write(at("file"), "").unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    symlink(at("dir"), at("link")).unwrap();
    let (dir, file, socket, link, none) = (at("dir"), at("file"), at("socket"), at("link"), at("none"));
    for (path, kind, expected) in [
        (&*dir, "Directory", Ok(())),
        (&*link, "Directory", Ok(())),
        (&*dir, "DirectoryOrCreate", Ok(())),
        (&*file, "File", Ok(())),
        (&*file, "FileOrCreate", Ok(())),
        (&*socket, "Socket", Ok(())),
        ("/dev/null", "CharDevice", Ok(())),
        (&*file, "Directory", Err("directory")),
        (&*none, "Directory", Err("directory")),
        (&*file, "DirectoryOrCreate", Err("directory")),
        (&*dir, "File", Err("file")),
        (&*none, "File", Err("file")),
        (&*socket, "FileOrCreate", Err("file")),
        (&*none, "Socket", Err("socket file")),
        (&*file, "CharDevice", Err("character device")),
        ("/dev/null", "BlockDevice", Err("block device")),
    ] {
        let expected = match expected {
            Ok(()) => Ok(PathBuf::from(path)),
            Err(word) => Err(format!("hostPath type check failed: {path} is not a {word}")),
        };
        assert_eq!(set_up(path, Some(kind)).await, expected, "{path} {kind}");
    }
}

#[tokio::test]
async fn what_may_be_made_is_made_with_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    // As upstream's, these are subject to the umask; setting it here would disturb other tests.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:\t")).unwrap();
    let umask = u32::from_str_radix(umask, 8).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
    let new = dir.path().join("a/b");
    set_up(new.to_str().unwrap(), Some("DirectoryOrCreate")).await.unwrap();
    assert_eq!(mode(&new), 0o755 & !umask);
    let file = new.join("file");
    set_up(file.to_str().unwrap(), Some("FileOrCreate")).await.unwrap();
    assert_eq!(mode(&file), 0o644 & !umask);
    let err = set_up(dir.path().join("x/file").to_str().unwrap(), Some("FileOrCreate")).await.unwrap_err();
    assert_eq!(err, format!("make file {}", dir.path().join("x/file").display()));
}

#[tokio::test]
async fn without_a_type_nothing_is_checked_but_steps_upwards() {
    for kind in [None, Some("")] {
        assert_eq!(set_up("/does/not/exist", kind).await, Ok(PathBuf::from("/does/not/exist")));
    }
    for bad in ["/a/../b", "..", "/.."] {
        let expected = format!("invalid HostPath `{bad}`: must not contain '..'");
        assert_eq!(set_up(bad, None).await, Err(expected));
    }
    assert!(set_up("/a..b", None).await.is_ok());
    assert_eq!(set_up("/", Some("Pipe")).await, Err("Pipe is an invalid volume type".to_owned()));
}

#[tokio::test]
async fn tearing_down_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    set_up(dir.path().to_str().unwrap(), Some("Directory")).await.unwrap();
    HostPath.tear_down(&"u1".into(), "v").await.unwrap();
    assert!(dir.path().exists());
}

#[tokio::test]
async fn the_contract_holds() {
    let source = HostPathVolumeSource { path: "/".to_owned(), type_: Some("Directory".to_owned()) };
    let volume = Volume { name: "v".to_owned(), host_path: Some(source), ..Volume::default() };
    let request = VolumeRequest { pod: Arc::new(Pod::default()), volume, fs_group: None };
    rubelet_testkit::contract::check_volume_plugin(&HostPath, &request).await;
}
