//! systemd's notification socket and watchdog, as a service sees them (WD-01).
//!
//! A message is one datagram, sent without waiting: a socket that is missing, full or of another kind loses the message and
//! nothing else. No program is run, and no library of systemd is needed.
//! upstream: coreos/go-systemd daemon/sdnotify.go, daemon/watchdog.go

use std::env::VarError;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rubelet_engine::ports::{ServiceManager, ServiceMessage};

/// A line for people is no longer than this.
const LONGEST_STATUS: usize = 256;
/// A watchdog that wants to hear from us more often is refused. upstream: watchdog_linux.go minimalNotifyInterval (v1.36)
const SHORTEST_WATCHDOG: Duration = Duration::from_secs(1);

/// systemd's socket for notifications.
#[derive(Debug)]
pub struct NotifySocket {
    to: Option<(UnixDatagram, SocketAddr)>,
}

impl NotifySocket {
    /// The socket that the environment names; without one messages go nowhere.
    pub fn from_env() -> Self {
        Self::at(std::env::var_os("NOTIFY_SOCKET").unwrap_or_default().as_bytes())
    }

    /// The socket of this name: a path, or `@` and a name without one.
    pub fn at(name: &[u8]) -> Self {
        let address = match name.split_first() {
            Some((b'@', rest)) => SocketAddr::from_abstract_name(rest).ok(),
            Some((b'/', _)) => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)).ok(),
            // Sockets of other families are for virtual machines and none for a service.
            Some(_) | None => None,
        };
        let socket = || UnixDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket)).ok();
        Self { to: address.and_then(|address| Some((socket()?, address))) }
    }
}

impl ServiceManager for NotifySocket {
    fn notify(&self, message: &ServiceMessage<'_>) -> bool {
        let Some((socket, address)) = &self.to else { return false };
        let text = match message {
            ServiceMessage::Ready => "READY=1".to_owned(),
            ServiceMessage::Stopping => "STOPPING=1".to_owned(),
            ServiceMessage::Watchdog => "WATCHDOG=1".to_owned(),
            ServiceMessage::Status(line) => {
                // A line break would begin another message.
                let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                format!("STATUS={}", line.get(..line.floor_char_boundary(LONGEST_STATUS)).unwrap_or_default())
            }
        };
        // Without a connection: a socket that is made anew after a restart of systemd is found again.
        socket.send_to_addr(text.as_bytes(), address).is_ok()
    }
}

/// The environment's wish for a watchdog cannot be met.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum WatchdogError {
    /// A variable is no number, or not positive.
    #[error("the environment's {variable} is {value:?}, which is not a positive number")]
    NoNumber {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// Too short.
    #[error("configure watchdog timeout too small: {0:?}; set WatchdogSec of the unit to more than a second")]
    TooShort(Duration),
}

/// How often systemd wants to hear from this process at least; `None` if it does not.
///
/// # Errors
/// [`WatchdogError`]: upstream does not start then.
#[doc(alias = "SdWatchdogEnabled")]
pub fn watchdog() -> Result<Option<Duration>, WatchdogError> {
    watchdog_of(|variable| match std::env::var(variable) {
        Ok(value) => Some(value),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(value)) => Some(value.to_string_lossy().into_owned()),
    })
}

fn watchdog_of(variable: impl Fn(&'static str) -> Option<String>) -> Result<Option<Duration>, WatchdogError> {
    let number = |name: &'static str| {
        let Some(value) = variable(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        match value.parse::<u64>() {
            Ok(number) if number > 0 => Ok(Some(number)),
            Ok(_) | Err(_) => Err(WatchdogError::NoNumber { variable: name, value }),
        }
    };
    let Some(micros) = number("WATCHDOG_USEC")? else { return Ok(None) };
    // The variable may have been inherited from a parent that the watchdog is for.
    if number("WATCHDOG_PID")?.is_some_and(|pid| pid != u64::from(std::process::id())) {
        return Ok(None);
    }
    let interval = Duration::from_micros(micros);
    if interval <= SHORTEST_WATCHDOG { Err(WatchdogError::TooShort(interval)) } else { Ok(Some(interval)) }
}

/// Whether this process's stderr is the journal, which reads priorities from the beginning of each line.
pub fn stderr_is_the_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let Ok(stderr) = std::os::fd::AsFd::as_fd(&std::io::stderr()).try_clone_to_owned() else { return false };
    is_stream(&stream, &std::fs::File::from(stderr))
}

/// Whether a file is the one whose device and inode a variable names. A variable that was inherited names another.
fn is_stream(named: &str, file: &std::fs::File) -> bool {
    file.metadata().is_ok_and(|file| named == format!("{}:{}", file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn messages_arrive_at_a_path_and_at_an_abstract_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let name = format!("rubelet-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        for (reader, at) in [
            (UnixDatagram::bind(&path).expect("a socket"), path.as_os_str().as_bytes().to_vec()),
            (UnixDatagram::bind_addr(&address).expect("a socket"), format!("@{name}").into_bytes()),
        ] {
            let socket = NotifySocket::at(&at);
            for (message, expected) in [
                (ServiceMessage::Ready, "READY=1"),
                (ServiceMessage::Status("3 pods run\nREADY=1"), "STATUS=3 pods run READY=1"),
                (ServiceMessage::Watchdog, "WATCHDOG=1"),
                (ServiceMessage::Stopping, "STOPPING=1"),
            ] {
                assert!(socket.notify(&message));
                assert_eq!(read(&reader), expected);
            }
            let long = "ä".repeat(1000);
            assert!(socket.notify(&ServiceMessage::Status(&long)));
            assert_eq!(read(&reader).len(), "STATUS=".len() + LONGEST_STATUS);
        }
    }

    #[test]
    fn a_socket_that_is_missing_full_or_hostile_never_blocks() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let at = path.as_os_str().as_bytes();
        let socket = NotifySocket::at(at);
        assert!(!socket.notify(&ServiceMessage::Ready), "nobody is there");
        std::fs::write(&path, "").expect("a file");
        assert!(!socket.notify(&ServiceMessage::Ready), "a file");
        std::fs::remove_file(&path).expect("removed");
        let stream = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        assert!(!socket.notify(&ServiceMessage::Ready), "a socket of another kind");
        drop(stream);
        std::fs::remove_file(&path).expect("removed");
        let reader = UnixDatagram::bind(&path).expect("a socket");
        let sent = (0..100_000).take_while(|_| socket.notify(&ServiceMessage::Watchdog)).count();
        assert!(sent < 100_000, "a reader that does not read");
        assert_eq!(read(&reader), "WATCHDOG=1");
        assert!(socket.notify(&ServiceMessage::Watchdog), "there is room again");
        for name in ["", "vsock:2:1234", "relative/path", "@"] {
            assert!(!NotifySocket::at(name.as_bytes()).notify(&ServiceMessage::Ready), "{name}");
        }
        assert!(!NotifySocket::at(&[b'/'; 4000]).notify(&ServiceMessage::Ready), "too long");
    }

    // WD-01; upstream: watchdog_linux.go NewHealthChecker, go-systemd SdWatchdogEnabled (v1.36)
    #[test]
    fn the_watchdog_is_for_this_process_and_longer_than_a_second() {
        let own = std::process::id().to_string();
        let answer = |micros: Option<&str>, pid: Option<&str>| {
            let (micros, pid) = (micros.map(str::to_owned), pid.map(str::to_owned));
            watchdog_of(|name| if name == "WATCHDOG_USEC" { micros.clone() } else { pid.clone() })
        };
        assert_eq!(answer(None, None), Ok(None));
        assert_eq!(answer(Some(""), Some("x")), Ok(None));
        assert_eq!(answer(Some("30000000"), None), Ok(Some(Duration::from_secs(30))));
        assert_eq!(answer(Some("30000000"), Some(&own)), Ok(Some(Duration::from_secs(30))));
        assert_eq!(answer(Some("30000000"), Some("1")), Ok(None));
        assert_eq!(answer(Some("1000000"), None), Err(WatchdogError::TooShort(Duration::from_secs(1))));
        for (micros, pid) in [("0", None), ("-1", None), ("x", None), ("30000000", Some("x"))] {
            assert!(matches!(answer(Some(micros), pid), Err(WatchdogError::NoNumber { .. })), "{micros} {pid:?}");
        }
    }

    #[test]
    fn a_stream_is_the_journal_only_if_its_device_and_inode_are_named() {
        let file = tempfile::tempfile().expect("a file");
        let meta = file.metadata().expect("metadata");
        assert!(is_stream(&format!("{}:{}", meta.dev(), meta.ino()), &file));
        for other in [String::new(), "1:2".into(), format!("{}:{}", meta.dev(), meta.ino() + 1), "x".into()] {
            assert!(!is_stream(&other, &file), "{other}");
        }
    }
}
