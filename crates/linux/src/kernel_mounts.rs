//! The kernel's mounts: the mount table as text, and mounting by descriptor.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree, unmount,
};

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountLine {
    /// The mount point.
    pub(crate) point: PathBuf,
    /// Type of the file system, such as `cgroup2`.
    pub(crate) fs_type: String,
    /// Propagation: `shared:1`, `master:2` …
    pub(crate) propagation: Vec<String>,
    /// Options of the file system itself; a v1 cgroup mount names its controllers here.
    pub(crate) super_options: Vec<String>,
}

/// The mount table of this process.
pub(crate) fn mount_table(proc: &Path) -> io::Result<Vec<MountLine>> {
    let text = std::fs::read(proc.join("self/mountinfo"))?;
    Ok(parse_mountinfo(&text))
}

/// Malformed lines are skipped: an unknown kind of mount must not stop the agent.
pub(crate) fn parse_mountinfo(text: &[u8]) -> Vec<MountLine> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountLine> {
    let mut fields = line.split(|byte| *byte == b' ');
    let point = unescape(fields.nth(4)?);
    let _options = fields.next()?;
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let propagation = fields.by_ref().take_while(|field| *field != b"-").map(text).collect();
    let fs_type = text(fields.next()?);
    let _source = fields.next()?;
    let super_options = fields.next()?.split(|byte| *byte == b',').map(text).collect();
    Some(MountLine { point: PathBuf::from(OsString::from_vec(point)), fs_type, propagation, super_options })
}

/// The kernel writes blanks, newlines and backslashes in names as `\` and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                out.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

/// Whether the open file is the root of a mount. The kernel answers from its own tables, without asking a file server
/// that may hang.
pub(crate) fn is_mount_root(file: impl AsFd) -> io::Result<bool> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(file, c"", flags, StatxFlags::empty())?;
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Whether two descriptors refer to the same file.
pub(crate) fn same_file(one: impl AsFd, other: impl AsFd) -> io::Result<bool> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok(one.st_dev == other.st_dev && one.st_ino == other.st_ino)
}

/// Bind-mounts the open file `source` on the open file `target`. Neither is looked up again by name.
pub(crate) fn bind(source: impl AsFd, target: impl AsFd) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(source, c"", flags)?;
    Ok(move_mount(tree, c"", target, c"", empty_paths())?)
}

/// Mounts a new file system on the open directory.
pub(crate) fn mount_new(fs_type: &str, options: &[(&str, Option<String>)], target: impl AsFd) -> io::Result<()> {
    let context = fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", fs_type)?;
    for (key, value) in options {
        match value {
            Some(value) => fsconfig_set_string(&context, *key, value)?,
            None => rustix::mount::fsconfig_set_flag(&context, *key)?,
        }
    }
    fsconfig_create(&context)?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(move_mount(mount, c"", target, c"", empty_paths())?)
}

/// Unmounts the mount on `name` in the open directory `at`, without following a link. The unmount is lazy: a mount in
/// use disappears when its last user does.
pub(crate) fn unmount_at(at: impl AsFd, name: &str) -> io::Result<()> {
    // There is no umount by descriptor. The path goes through our open directory, so moving that directory does not
    // redirect it.
    let path = format!("/proc/self/fd/{}/{name}", at.as_fd().as_raw_fd());
    match unmount(&*path, UnmountFlags::NOFOLLOW) {
        Err(Errno::BUSY) => Ok(unmount(&*path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?),
        other => Ok(other?),
    }
}

fn empty_paths() -> MoveMountFlags {
    MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_its_point_type_sharing_and_controllers() {
        let text = b"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
            40 1 8:1 / /mnt/a\\040b\\134 rw shared:7 master:2 - ext4 /dev/sda1 rw\n\
            nonsense\n";
        let lines = parse_mountinfo(text);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].point, Path::new("/sys/fs/cgroup/cpu"));
        assert_eq!(lines[0].fs_type, "cgroup");
        assert!(lines[0].propagation.is_empty());
        assert_eq!(lines[0].super_options, ["rw", "cpu", "cpuacct"]);
        assert_eq!(lines[1].point, Path::new("/mnt/a b\\"));
        assert_eq!(lines[1].propagation, ["shared:7", "master:2"]);
    }

    #[test]
    fn this_process_has_a_root_mount() {
        let table = mount_table(Path::new("/proc")).unwrap();
        assert!(table.iter().any(|line| line.point == Path::new("/")));
        let root = crate::beneath::open_root(Path::new("/")).unwrap();
        assert!(is_mount_root(&root).unwrap());
        assert!(same_file(&root, &root).unwrap());
    }
}
