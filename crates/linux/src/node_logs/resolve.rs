//! Resolves a path below a directory, and follows links that stay below it.
//!
//! The links in `/var/log/containers` are absolute, so the kernel's own `RESOLVE_BENEATH` refuses them. Here each step is
//! one name below an open directory, a step upwards returns to the descriptor of the step before, and an absolute link
//! counts as below the directory only if its text begins with the directory's path. Nothing that is renamed or replaced
//! meanwhile can lead out: no step follows a link in the kernel.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::beneath;

/// As many links as the kernel follows in one path.
const MOST_LINKS: usize = 40;
/// Deeper paths are refused: each level holds a descriptor.
const DEEPEST: usize = 64;

/// What a path leads to.
#[derive(Debug)]
pub(super) enum Found {
    Directory(OwnedFd),
    File(File),
}

/// Finds what `path` leads to below `root`. A leading slash means nothing.
pub(super) fn find(root: &Path, path: &str) -> io::Result<Found> {
    let mut ahead: VecDeque<Step> = steps(Path::new(path)).collect();
    let top = beneath::open_root(root)?;
    // The directories from the top down to the one in which the next step is taken.
    let mut below: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(step) = ahead.pop_front() {
        let name = match step {
            Step::Up if below.pop().is_some() => continue,
            Step::Up => return Err(outside()),
            Step::Down(name) => name,
        };
        let here = below.last().unwrap_or(&top);
        let handle = beneath::handle(here, name.as_str())?;
        match FileType::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode) {
            FileType::Directory if below.len() == DEEPEST => return Err(Errno::NAMETOOLONG.into()),
            FileType::Directory => below.push(beneath::open_dir(here, &name)?),
            FileType::Symlink => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = rustix::fs::readlinkat(&handle, c"", Vec::new())?;
                let target = target.to_str().map_err(|_| outside())?;
                let inside = match Path::new(target).strip_prefix(root) {
                    Ok(inside) => {
                        below.clear();
                        inside
                    }
                    Err(_) if target.starts_with('/') => return Err(outside()),
                    Err(_) => Path::new(target),
                };
                for step in steps(inside).collect::<Vec<_>>().into_iter().rev() {
                    ahead.push_front(step);
                }
            }
            FileType::RegularFile if ahead.is_empty() => {
                return Ok(Found::File(beneath::open_file(here, &name, OFlags::RDONLY)?));
            }
            FileType::RegularFile => return Err(Errno::NOTDIR.into()),
            // A device or a FIFO: opening one may wait, or do something.
            _ => return Err(io::Error::new(io::ErrorKind::PermissionDenied, "neither a file nor a directory")),
        }
    }
    Ok(Found::Directory(below.pop().unwrap_or(top)))
}

enum Step {
    Up,
    Down(String),
}

fn steps(path: &Path) -> impl Iterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Down(name.to_string_lossy().into_owned())),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

fn outside() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "path escapes from parent")
}
