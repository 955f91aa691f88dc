//! Files of variables in volumes, which a container reads as its environment (ENV-05).
//!
//! Other containers of the pod write them, and may replace a directory by a link while a file is read. The kernel resolves
//! the path in one step that cannot leave the volume.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use async_trait::async_trait;
use rubelet_engine::blocking::POD_FILES;
use rubelet_engine::ports::{EnvFileRequest, EnvFiles, FileError};
use rustix::fs::{Mode, OFlags};

use crate::beneath::{failed, open_file_in_root};

/// The files in the volumes themselves.
#[derive(Clone, Copy, Debug)]
pub struct VolumeEnvFiles;

#[async_trait]
impl EnvFiles for VolumeEnvFiles {
    async fn read(&self, file: &EnvFileRequest, limit: usize) -> Result<Vec<u8>, FileError> {
        let EnvFileRequest { volume_path, path, .. } = file.clone();
        let work = move || {
            let whole = volume_path.join(&path);
            open(&volume_path, &path).and_then(|file| read(file, limit)).map_err(failed("read", whole))
        };
        POD_FILES.run(file.uid.as_str(), work).await
    }
}

fn open(volume: &Path, path: &Path) -> io::Result<File> {
    open_file_in_root(rustix::fs::open(volume, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?, path)
}

/// The whole file. One that grows while it is read ends at the limit, too.
fn read(file: File, limit: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    file.take(most.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rubelet_engine::chain::Chain;

    use super::*;
    use crate::testing::temp_dir;

    async fn read(volume: &Path, path: &str, limit: usize) -> Result<String, String> {
        let file = EnvFileRequest { uid: "u".to_owned().into(), volume_path: volume.to_owned(), path: path.into() };
        let content = VolumeEnvFiles.read(&file, limit).await;
        content.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|err| Chain(&err).to_string())
    }

    #[tokio::test]
    async fn env_05_a_file_is_read_inside_its_volume_and_nowhere_else() {
        let dir = temp_dir();
        let volume = dir.path().join("volume");
        fs::create_dir_all(volume.join("sub")).unwrap();
        fs::write(dir.path().join("secret"), "K='secret'").unwrap();
        fs::write(volume.join("env"), "K='v'").unwrap();
        fs::write(volume.join("sub/env"), "K='w'").unwrap();
        for (name, target) in [
            ("inside", "sub/env"),
            ("absolute", "/sub/env"),
            ("through", "sub"),
            ("out", "../secret"),
            ("passwd", "/etc/passwd"),
            ("self", "self"),
        ] {
            symlink(target, volume.join(name)).unwrap();
        }
        for (path, expected) in [
            ("env", Ok("K='v'")),
            ("./sub//env", Ok("K='w'")),
            ("inside", Ok("K='w'")),
            ("absolute", Ok("K='w'")),
            ("through/env", Ok("K='w'")),
            ("out", Err("No such file or directory (os error 2)")),
            ("../secret", Err("No such file or directory (os error 2)")),
            ("passwd", Err("No such file or directory (os error 2)")),
            ("self", Err("Too many levels of symbolic links (os error 40)")),
            ("none", Err("No such file or directory (os error 2)")),
            ("sub", Err("not a regular file")),
        ] {
            let read = read(&volume, path, 5).await;
            let failure = expected.as_ref().err().map(|why| format!("read {}: {why}", volume.join(path).display()));
            assert_eq!(read.as_deref().ok(), expected.ok(), "{path}");
            assert_eq!(read.err(), failure, "{path}");
        }
    }

    #[tokio::test]
    async fn env_05_a_file_without_end_and_one_that_is_none_hold_up_nothing() {
        let dir = temp_dir();
        let big = fs::File::create(dir.path().join("big")).unwrap();
        big.set_len(1 << 40).unwrap();
        let mode = Mode::from_raw_mode(0o666);
        let at = rustix::fs::open(dir.path(), OFlags::PATH, Mode::empty()).unwrap();
        rustix::fs::mknodat(&at, "fifo", rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let why = |name: &str, why: &str| Err(format!("read {}: {why}", dir.path().join(name).display()));
        assert_eq!(read(dir.path(), "big", 1000).await, why("big", "it has more than 1000 bytes"));
        assert_eq!(read(dir.path(), "fifo", 1000).await, why("fifo", "not a regular file"));
        assert_eq!(read(dir.path(), "socket", 1000).await, why("socket", "not a regular file"));
    }
}
