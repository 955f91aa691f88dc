//! The kernel's log, `/dev/kmsg`, from now on.
//!
//! The kernel wakes the reader for each record; nothing polls. What was written before the start is left out: upstream reads
//! it again at every start, and emits its events once more.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use async_trait::async_trait;
use rubelet_core::oom::kernel_text;
use rubelet_engine::ports::KernelLog;
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tracing::debug;

use super::lock_file::register;

/// Longer than any record: the kernel refuses to read one that does not fit.
const RECORD: usize = 16 * 1024;

/// An open `/dev/kmsg`.
#[derive(Debug)]
pub struct KernelMessages {
    records: AsyncFd<OwnedFd>,
    buffer: Box<[u8]>,
}

impl KernelMessages {
    /// Opens the log below `dev`. `None` where there is none, or this process may not read it: in a container, say.
    pub fn open(dev: &Path) -> Option<Self> {
        let path = dev.join("kmsg");
        let opened = open_at_the_end(&path).and_then(Self::of);
        opened.map_err(|err| debug!(path = %path.display(), %err, "No events about memory that runs out")).ok()
    }

    fn of(records: OwnedFd) -> io::Result<Self> {
        Ok(Self { records: register(records)?, buffer: vec![0; RECORD].into() })
    }
}

#[async_trait]
impl KernelLog for KernelMessages {
    async fn next(&mut self) -> Option<String> {
        loop {
            // Cancel-safe: a record is read and returned without a wait in between.
            let mut ready = self.records.readable().await.ok()?;
            let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref().as_fd(), &mut *self.buffer)?));
            let size = match read {
                // Nothing to read yet.
                Err(_would_block) => continue,
                Ok(Ok(size)) => size,
                // Records were overwritten before they were read, or one is too long: the next read goes on after them.
                Ok(Err(err)) if is_passing(&err) => continue,
                Ok(Err(err)) => {
                    debug!(%err, "Could not read the kernel's log");
                    return None;
                }
            };
            if size == 0 {
                return None;
            }
            let record = String::from_utf8_lossy(self.buffer.get(..size).unwrap_or_default());
            if let Some(text) = kernel_text(&record) {
                return Some(text.to_owned());
            }
        }
    }
}

fn open_at_the_end(path: &Path) -> io::Result<OwnedFd> {
    let log = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::seek(&log, SeekFrom::End(0))?;
    Ok(log)
}

fn is_passing(err: &io::Error) -> bool {
    [Errno::PIPE, Errno::INVAL, Errno::INTR].iter().any(|passing| err.raw_os_error() == Some(passing.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    /// A socket of records behaves as the kernel's log does: each read returns one.
    fn pair() -> (OwnedFd, KernelMessages) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (writer, reader) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        (writer, KernelMessages::of(reader).unwrap())
    }

    #[tokio::test]
    async fn oom_01_records_of_the_kernel_arrive_one_by_one_and_others_do_not() {
        let (writer, mut log) = pair();
        for record in ["4,1,2,-;first\n", "12,2,3,-;a process wrote this\n", "broken", "6,3,4,-;second \u{e9}\n"] {
            rustix::io::write(&writer, record.as_bytes()).unwrap();
        }
        rustix::io::write(&writer, b"4,4,5,-;\xff\xfe\n").unwrap();
        for expected in ["first", "second \u{e9}", "\u{fffd}\u{fffd}"] {
            assert_eq!(log.next().await.as_deref(), Some(expected));
        }
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), log.next()).await.is_err(), "it waits");
        drop(writer);
        assert_eq!(log.next().await, None, "a log that ends is no reason to spin");
    }

    #[tokio::test]
    async fn a_log_that_is_missing_or_forbidden_is_none() {
        assert!(KernelMessages::open(Path::new("/no/such/place")).is_none());
        let dir = crate::testing::temp_dir();
        std::fs::write(dir.path().join("kmsg"), "a regular file cannot be waited for").unwrap();
        assert!(KernelMessages::open(dir.path()).is_none());
    }
}
