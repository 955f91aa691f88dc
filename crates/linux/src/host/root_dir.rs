//! The directories that a kubelet makes at start if they are missing (BOOT-14).

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rubelet_engine::blocking::HOST;
use rubelet_engine::ports::FileError;
use rustix::fs::Mode;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use crate::beneath::{self, failed};
use crate::kernel_mounts::{MountLine, mount_table};
use crate::logs::LogDirs;
use crate::pod_dirs::PODS;

/// Directories below the root directory, with their modes.
/// upstream: kubelet.go setupDataDirs (v1.36)
const DIRS: [(&str, u32); 5] =
    [(PODS, 0o750), ("plugins", 0o750), ("plugins_registry", 0o750), ("pod-resources", 0o750), ("checkpoints", 0o700)];

/// Whether mounts below the root directory propagate to and from containers that mount it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Make the root directory a shared mount: a CSI driver mounts volumes from within its container.
    Shared,
    /// Leave the propagation as it is.
    AsIs,
}

/// Makes the root directory, the directories at its top, and the log directories. An existing directory keeps its mode.
#[doc(alias = "setupDataDirs")]
pub async fn prepare(root: &Path, logs: &LogDirs, sharing: Sharing) -> Result<(), FileError> {
    let (root, logs) = (root.to_path_buf(), logs.clone());
    HOST.run("root directory", move || {
        let plain: PathBuf = root.components().collect();
        if !root.is_absolute() || plain.as_os_str() != root.as_os_str() {
            let why = format!("not in canonical form: expected {}", plain.display());
            return Err(failed("use root directory", root)(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        make_all(&root, 0o750)?;
        make_all(&logs.pods, 0o750)?;
        make_all(&logs.containers, 0o755)?;
        if sharing == Sharing::Shared {
            make_shared(&root).map_err(failed("share mounts of", &root))?;
        }
        for (name, mode) in DIRS {
            make_all(&root.join(name), mode)?;
        }
        Ok(())
    })
    .await
}

/// Makes a directory and its missing parents. A new directory has exactly this mode.
fn make_all(path: &Path, mode: u32) -> Result<(), FileError> {
    let make = || -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(mode).create(path)?;
        beneath::set_mode(beneath::open_root(path)?, Mode::from_raw_mode(mode))
    };
    make().map_err(failed("make directory", path))
}

/// Propagation is a property of a mount, so a directory on a mount that is not shared gets a bind mount of itself.
/// upstream: hostutil_linux.go DoMakeRShared (v1.36)
fn make_shared(root: &Path) -> io::Result<()> {
    let real = root.canonicalize()?;
    if is_shared(&mount_table(Path::new("/proc"))?, &real) {
        return Ok(());
    }
    mount_bind(root, root)?;
    Ok(mount_change(root, MountPropagationFlags::SHARED | MountPropagationFlags::REC)?)
}

/// The mount that a path is on has the longest mount point above the path; of stacked mounts it is the last.
fn is_shared(table: &[MountLine], path: &Path) -> bool {
    let above = table.iter().filter(|line| path.starts_with(&line.point));
    let nearest = above.max_by_key(|line| line.point.components().count());
    nearest.is_some_and(|line| line.propagation.iter().any(|field| field.starts_with("shared:")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::kernel_mounts::{parse_mountinfo, unmount_at};
    use crate::testing::{needs_node_tests, temp_dir};

    fn mode(path: impl AsRef<Path>) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[tokio::test]
    async fn boot_14_every_directory_of_a_node_has_upstreams_mode() {
        let dir = temp_dir();
        let root = dir.path().join("kubelet");
        let logs = LogDirs { pods: dir.path().join("log/pods"), containers: dir.path().join("log/containers") };
        prepare(&root, &logs, Sharing::AsIs).await.unwrap();
        for (name, wanted) in [
            ("pods", 0o750),
            ("plugins", 0o750),
            ("plugins_registry", 0o750),
            ("pod-resources", 0o750),
            ("checkpoints", 0o700),
        ] {
            assert_eq!(mode(root.join(name)), wanted, "{name}");
        }
    }

    #[tokio::test]
    async fn boot_14_new_directories_get_their_modes_and_existing_ones_keep_theirs() {
        let dir = temp_dir();
        let root = dir.path().join("var/lib/kubelet");
        let logs = LogDirs { pods: dir.path().join("log/pods"), containers: dir.path().join("log/containers") };
        for _ in 0..2 {
            prepare(&root, &logs, Sharing::AsIs).await.unwrap();
        }
        assert_eq!((mode(&root), mode(&logs.pods), mode(&logs.containers)), (0o750, 0o750, 0o755));
        for (name, wanted) in DIRS {
            assert_eq!(mode(root.join(name)), wanted, "{name}");
        }
        fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
        prepare(&root, &logs, Sharing::AsIs).await.unwrap();
        assert_eq!(mode(&root), 0o700, "an existing mode is kept");
    }

    #[tokio::test]
    async fn an_invalid_root_directory_is_named() {
        let dir = temp_dir();
        let logs = LogDirs { pods: dir.path().join("p"), containers: dir.path().join("c") };
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let err = prepare(&file, &logs, Sharing::AsIs).await.unwrap_err();
        assert_eq!(err.to_string(), format!("make directory {}", file.display()));
        for odd in ["relative", "/a//b", "/a/./b", "/a/"] {
            let err = prepare(Path::new(odd), &logs, Sharing::AsIs).await.unwrap_err();
            assert!(err.source.to_string().starts_with("not in canonical form"), "{odd}");
        }
    }

    #[test]
    fn sharing_is_read_from_the_innermost_topmost_mount() {
        let table = parse_mountinfo(
            b"1 0 8:1 / / rw shared:1 - ext4 a rw\n\
            2 1 8:2 / /var rw - ext4 b rw\n\
            3 1 8:3 / /srv rw - ext4 c rw\n\
            4 3 8:3 / /srv rw shared:9 - ext4 c rw\n",
        );
        for (path, shared) in [("/opt", true), ("/var/lib/kubelet", false), ("/srv/kubelet", true), ("/variety", true)]
        {
            assert_eq!(is_shared(&table, Path::new(path)), shared, "{path}");
        }
    }

    #[tokio::test]
    async fn boot_14_node_mounts_below_the_root_are_shared() {
        needs_node_tests();
        let dir = temp_dir();
        let root = dir.path().join("root");
        let logs = LogDirs { pods: dir.path().join("p"), containers: dir.path().join("c") };
        for _ in 0..2 {
            prepare(&root, &logs, Sharing::Shared).await.unwrap();
        }
        let table = mount_table(Path::new("/proc")).unwrap();
        let shared = is_shared(&table, &root.canonicalize().unwrap());
        let mounts = table.iter().filter(|line| line.point == root.canonicalize().unwrap()).count();
        if mounts > 0 {
            unmount_at(beneath::open_root(dir.path()).unwrap(), "root").unwrap();
        }
        assert!(shared);
        assert!(mounts <= 1, "the second start finds the mount shared");
    }
}
