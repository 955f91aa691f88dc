//! Where a bus listens.

use std::path::PathBuf;

/// The system bus, unless `DBUS_SYSTEM_BUS_ADDRESS` names another.
const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";
/// The socket on which systemd itself speaks D-Bus to root. It works while the bus is away.
const SYSTEMD: &str = "/run/systemd/private";

/// A socket to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A bus, which passes messages between clients. A path that begins with a zero byte is an abstract name.
    Bus(PathBuf),
    /// A peer: calls go to it, whatever destination they name.
    Peer(PathBuf),
}

impl Endpoint {
    /// The system bus. `address` is the value of `DBUS_SYSTEM_BUS_ADDRESS`, if it is set; addresses that are not Unix
    /// sockets are passed over.
    pub fn system_bus(address: Option<&str>) -> Vec<Self> {
        match address.filter(|address| !address.is_empty()) {
            Some(address) => address.split(';').filter_map(parse).map(Self::Bus).collect(),
            None => vec![Self::Bus(SYSTEM_BUS.into())],
        }
    }

    /// systemd: over the system bus, or directly while the bus is away.
    pub fn systemd(address: Option<&str>) -> Vec<Self> {
        let mut endpoints = Self::system_bus(address);
        endpoints.push(Self::Peer(SYSTEMD.into()));
        endpoints
    }

    pub(super) fn path(&self) -> &PathBuf {
        let (Self::Bus(path) | Self::Peer(path)) = self;
        path
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path().to_string_lossy().replace('\0', "@"))
    }
}

/// `unix:path=…` or `unix:abstract=…`.
fn parse(address: &str) -> Option<PathBuf> {
    let pairs = address.strip_prefix("unix:")?.split(',');
    pairs.filter_map(|pair| pair.split_once('=')).find_map(|(key, value)| match key {
        "path" => Some(unescape(value)?.into()),
        "abstract" => Some(format!("\0{}", unescape(value)?).into()),
        _ => None,
    })
}

/// `%2f` is a slash.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let (high, low) = (hex(rest.next()?)?, hex(rest.next()?)?);
            high << 4 | low
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_unix_sockets() {
        let parse = |address| Endpoint::system_bus(Some(address));
        assert_eq!(parse("unix:path=/a/b"), [Endpoint::Bus("/a/b".into())]);
        assert_eq!(parse("unix:path=/a%20b,guid=12"), [Endpoint::Bus("/a b".into())]);
        assert_eq!(parse("unix:abstract=/x;tcp:host=h"), [Endpoint::Bus("\0/x".into())]);
        assert_eq!(parse("unix:path=%2"), []);
        assert_eq!(parse(""), Endpoint::system_bus(None));
        assert_eq!(Endpoint::Bus("\0/x".into()).to_string(), "@/x");
        let systemd = [Endpoint::Bus(SYSTEM_BUS.into()), Endpoint::Peer(SYSTEMD.into())];
        assert_eq!(Endpoint::systemd(None), systemd);
    }
}
