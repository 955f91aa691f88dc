//! Path resolution below a directory in which containers or manifests choose names.
//!
//! A path given as text can change its meaning between two calls for anyone with write permission. Here a step is a
//! name below an open directory: the kernel resolves it once, without links (`openat2`), and the opened file is the one
//! that is used.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rubelet_engine::ports::FileError;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Longest name that Linux file systems take.
const NAME_MAX: usize = 255;

/// Tries of a resolution that raced with a rename (`EAGAIN`). The kernel fails quickly, and the pod's next sync tries
/// again.
const RESOLVE_TRIES: usize = 32;

/// Neither a link nor a step upwards is ever followed.
const STRICT: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Checks that the text is a single file name: a UID or a container name from a manifest must not become a path.
pub(crate) fn name(text: &str) -> io::Result<&str> {
    let bad = text.is_empty() || text == "." || text == ".." || text.len() > NAME_MAX || text.contains(['/', '\0']);
    if bad {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{text:?} is not a file name")));
    }
    Ok(text)
}

/// Opens a directory that the administrator configured: links in its path are followed.
pub(crate) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens the directory `path` below `at`.
pub(crate) fn open_dir(at: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    Ok(resolve(at, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), STRICT)?)
}

/// Opens the directory called `name` in `at` for reading, unless something is mounted on it.
pub(crate) fn open_dir_same_mount(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    resolve(at, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), STRICT | ResolveFlags::NO_XDEV)
}

/// A handle on the file called `name` in `at`, without opening it: good for `stat`, `chmod` and mounts only.
pub(crate) fn handle(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    resolve(
        at,
        name,
        OFlags::PATH | OFlags::NOFOLLOW,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Whether a file exists at `path` below `at`, found without following a link or entering a mount. If that cannot be
/// determined the file counts as existing, unless a directory on the way to it is missing.
pub(crate) fn is_there(at: impl AsFd, path: &Path) -> bool {
    let how = STRICT | ResolveFlags::NO_XDEV;
    let found = resolve(at, path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), how);
    !matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
}

/// A handle on the file that `path` leads to below `at`. Links are followed as long as they stay below `at`: a volume
/// may contain links (every configMap does), and the kernel refuses each step that would leave.
pub(crate) fn handle_inside(at: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    resolve(at, path, OFlags::PATH, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
}

/// Opens the regular file that `path` leads to for reading, as if `at` were the root of all: an absolute link begins there,
/// and nothing leads out. Any other type is an error and is never opened: to open a device may have effects.
pub(crate) fn open_file_in_root(at: impl AsFd, path: &Path) -> io::Result<File> {
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = resolve(at, path, OFlags::PATH, Mode::empty(), how)?;
    if FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    // The link leads to what was found, whatever its name leads to by now.
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(File::from(rustix::fs::open(link, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
}

/// Opens the regular file `path` below `at`. Any other type, a FIFO above all, is an error and does not block.
pub(crate) fn open_file(at: impl AsFd, path: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    // A mode may only be given together with O_CREAT.
    let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o600) } else { Mode::empty() };
    let fd = resolve(at, path, flags, mode, STRICT)?;
    if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(File::from(fd))
}

/// The directory called `name` in `at`, made if it is missing. Its mode is exactly `mode`, whatever the umask.
pub(crate) fn ensure_dir(at: impl AsFd, text: &str, mode: u32) -> io::Result<OwnedFd> {
    let (dir, _) = make_or_open(at, text, mode)?;
    set_mode(&dir, Mode::from_raw_mode(mode))?;
    Ok(dir)
}

/// The directory called `name` in `at`, made with `mode` if it is missing. An existing directory keeps its mode.
pub(crate) fn ensure_dir_keeping_mode(at: impl AsFd, text: &str, mode: u32) -> io::Result<OwnedFd> {
    let (dir, made) = make_or_open(at, text, mode)?;
    if made {
        set_mode(&dir, Mode::from_raw_mode(mode))?;
    }
    Ok(dir)
}

fn make_or_open(at: impl AsFd, text: &str, mode: u32) -> io::Result<(OwnedFd, bool)> {
    let text = name(text)?;
    let made = match rustix::fs::mkdirat(at.as_fd(), text, Mode::from_raw_mode(mode)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(err) => return Err(err.into()),
    };
    Ok((open_dir(at, text)?, made))
}

/// Sets the mode of the open file, if it has another.
pub(crate) fn set_mode(file: impl AsFd, mode: Mode) -> io::Result<()> {
    let now = Mode::from_raw_mode(rustix::fs::fstat(file.as_fd())?.st_mode);
    if now != mode {
        rustix::fs::fchmod(file, mode)?;
    }
    Ok(())
}

/// Wraps an error with the operation and the path.
pub(crate) fn failed<E: Into<io::Error>>(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(E) -> FileError {
    move |err| FileError { action, path: path.into(), source: err.into() }
}

fn resolve(
    at: impl AsFd,
    path: impl rustix::path::Arg + Copy,
    flags: OFlags,
    mode: Mode,
    how: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut result = Err(Errno::AGAIN);
    for _ in 0..RESOLVE_TRIES {
        result = rustix::fs::openat2(at.as_fd(), path, flags | OFlags::CLOEXEC, mode, how);
        if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::testing::{TempDir, temp_dir};

    fn root() -> (TempDir, OwnedFd) {
        let dir = temp_dir();
        let fd = open_root(dir.path()).unwrap();
        (dir, fd)
    }

    #[test]
    fn a_hostile_name_is_not_a_file_name() {
        for bad in ["", ".", "..", "a/b", "../etc", "/etc", "a\0b", &"x".repeat(256)] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "..a", "...", "kube-apiserver", &"x".repeat(255)] {
            assert_eq!(name(good).unwrap(), good);
        }
    }

    #[test]
    fn links_are_not_followed_to_directories_or_files() {
        let (dir, fd) = root();
        symlink("/etc", dir.path().join("link")).unwrap();
        symlink("/etc/passwd", dir.path().join("file")).unwrap();
        assert!(open_dir(&fd, "link").is_err());
        assert!(open_dir(&fd, "link/ssl").is_err());
        assert!(open_dir(&fd, "..").is_err());
        assert!(ensure_dir(&fd, "link", 0o750).is_err());
        assert!(open_file(&fd, "file", OFlags::RDONLY).is_err());
        assert!(open_file(&fd, "link/passwd", OFlags::RDONLY).is_err());
    }

    #[test]
    fn a_fifo_is_refused_without_waiting_for_a_writer() {
        let (_dir, fd) = root();
        rustix::fs::mknodat(&fd, "fifo", FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        let err = open_file(&fd, "fifo", OFlags::RDONLY).unwrap_err();
        assert_eq!(err.to_string(), "not a regular file");
        assert!(open_file(&fd, "fifo", OFlags::WRONLY).is_err());
    }

    #[test]
    fn a_directory_has_its_mode_whatever_the_umask_and_whatever_it_was() {
        let (dir, fd) = root();
        for mode in [0o750, 0o777, 0o700, 0o2770] {
            ensure_dir(&fd, "d", mode).unwrap();
            let got = std::fs::metadata(dir.path().join("d")).unwrap().permissions().mode() & 0o7777;
            assert_eq!(got, mode, "{got:o}");
        }
    }

    /// Every machine has `/proc` and `/sys`, and they are mounts.
    #[test]
    fn a_mount_is_not_entered_where_that_is_asked_for() {
        let root = open_root(Path::new("/")).unwrap();
        assert_eq!(open_dir_same_mount(&root, "proc").unwrap_err(), Errno::XDEV);
        assert!(
            is_there(&root, Path::new("proc/no-such-process")),
            "the mount is not entered, so the file is not known to be missing"
        );
        let proc = open_root(Path::new("/proc")).unwrap();
        assert!(open_dir_same_mount(&proc, "sys").is_ok());
        assert!(is_there(&proc, Path::new("sys/kernel")));
        assert!(!is_there(&proc, Path::new("no-such-process")));
        assert!(!is_there(&proc, Path::new("version/below-a-file")));
        assert!(is_there(&proc, Path::new("self/no-such-file")), "a link is not followed");
    }

    #[test]
    fn a_link_inside_may_be_followed_but_never_out() {
        let (dir, fd) = root();
        std::fs::create_dir_all(dir.path().join("..data_1/sub")).unwrap();
        symlink("..data_1", dir.path().join("..data")).unwrap();
        symlink("..data/sub", dir.path().join("inside")).unwrap();
        symlink("../../../../../etc", dir.path().join("up")).unwrap();
        symlink("/etc", dir.path().join("absolute")).unwrap();
        assert!(handle_inside(&fd, Path::new("inside")).is_ok());
        assert_eq!(handle_inside(&fd, Path::new("up")).unwrap_err(), Errno::XDEV);
        assert_eq!(handle_inside(&fd, Path::new("absolute")).unwrap_err(), Errno::XDEV);
        assert!(handle_inside(&fd, Path::new("/etc")).is_err());
    }
}
