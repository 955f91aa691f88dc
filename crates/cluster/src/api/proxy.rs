//! The proxy for a server, from the environment: `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`.
//!
//! The binary reads the environment once and passes it as a value. A kubeconfig's `proxy-url` takes precedence.
//!
//! upstream: client-go's transports use Go's package x/net/http/httpproxy, whose rules these are.

use std::net::IpAddr;

use super::endpoint::{BadServer, Endpoint};

/// The proxy settings of the environment. Its `Debug` hides the URLs, which may hold passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxyEnvironment {
    https: String,
    http: String,
    exceptions: Vec<Exception>,
}

/// An entry of `NO_PROXY`: a target that is reached without a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exception {
    Everything,
    Network {
        address: IpAddr,
        bits: u8,
    },
    Address {
        address: IpAddr,
        port: Option<String>,
    },
    /// Hosts below a domain; with `itself` also the domain's own name.
    Domain {
        suffix: String,
        itself: bool,
        port: Option<String>,
    },
}

impl std::fmt::Debug for ProxyEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |url: &str| if url.is_empty() { "" } else { "…" };
        let mut debug = f.debug_struct("ProxyEnvironment");
        debug.field("https", &shown(&self.https)).field("http", &shown(&self.http));
        debug.field("exceptions", &self.exceptions).finish()
    }
}

impl ProxyEnvironment {
    /// Reads the variables through `variable`. Upper-case names take precedence over lower-case ones.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |upper: &str, lower: &str| {
            let set = |name| variable(name).filter(|value| !value.is_empty());
            set(upper).or_else(|| set(lower)).unwrap_or_default()
        };
        let exceptions = either("NO_PROXY", "no_proxy");
        Self {
            https: either("HTTPS_PROXY", "https_proxy"),
            http: either("HTTP_PROXY", "http_proxy"),
            exceptions: exceptions.split(',').filter_map(Exception::read).collect(),
        }
    }

    /// The URL of the proxy for this host, if there is one.
    fn proxy_for(&self, tls: bool, host: &str, port: u16) -> Option<String> {
        let url = if tls { &self.https } else { &self.http };
        if url.is_empty() || self.is_direct(host, port) {
            return None;
        }
        // A proxy URL without a scheme is HTTP.
        Some(if url.contains("://") { url.clone() } else { format!("http://{url}") })
    }

    /// Whether the host is reached without a proxy: loopback addresses, and the entries of `NO_PROXY`.
    fn is_direct(&self, host: &str, port: u16) -> bool {
        let host = host.trim().to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
            return true;
        }
        self.exceptions.iter().any(|exception| exception.covers(&host, port, address))
    }
}

impl Exception {
    /// `None` for an empty or invalid entry.
    fn read(entry: &str) -> Option<Self> {
        let entry = entry.trim().to_ascii_lowercase();
        if entry == "*" {
            return Some(Self::Everything);
        }
        if let Some((address, bits)) = entry.split_once('/')
            && let (Ok(address), Ok(bits)) = (address.parse::<IpAddr>(), bits.parse())
        {
            let most = if address.is_ipv4() { 32 } else { 128 };
            return (bits <= most).then_some(Self::Network { address, bits });
        }
        let (host, port) = split_port(&entry);
        if host.is_empty() {
            return None;
        }
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Self::Address { address: address.to_canonical(), port });
        }
        let host = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
        let itself = !host.starts_with('.');
        let suffix = if itself { format!(".{host}") } else { host.to_owned() };
        Some(Self::Domain { suffix, itself, port })
    }

    fn covers(&self, host: &str, port: u16, address: Option<IpAddr>) -> bool {
        let at = |wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| *wanted == port.to_string());
        match self {
            Self::Everything => true,
            Self::Network { address: network, bits } => {
                address.is_some_and(|address| contains(*network, *bits, address))
            }
            Self::Address { address: wanted, port } => address == Some(*wanted) && at(port),
            Self::Domain { suffix, itself, port } => {
                let fits = host.ends_with(suffix.as_str()) || (*itself && suffix.strip_prefix('.') == Some(host));
                address.is_none() && fits && at(port)
            }
        }
    }
}

/// `host:port`, `[address]:port`, `host`, or a bare address; the host without brackets.
fn split_port(entry: &str) -> (&str, Option<String>) {
    if let Some((host, port)) = entry.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        return (host, Some(port.to_owned()));
    }
    match entry.rsplit_once(':') {
        // More than one colon: an IPv6 address without a port.
        Some((host, port)) if !host.contains(':') => (host, Some(port.to_owned()).filter(|port| !port.is_empty())),
        _ => (entry, None),
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    let (width, network, address) = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (32, u128::from(network.to_bits()), u128::from(address.to_bits()))
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => (128, network.to_bits(), address.to_bits()),
        _ => return false,
    };
    let ignored = u32::from(width - bits.min(width));
    network.checked_shr(ignored).unwrap_or_default() == address.checked_shr(ignored).unwrap_or_default()
}

impl Endpoint {
    /// Uses the environment's proxy for this server, unless the kubeconfig names one.
    ///
    /// # Errors
    /// If the environment names a proxy of an unsupported kind.
    pub fn with_environment(self, environment: &ProxyEnvironment) -> Result<Self, BadServer> {
        if self.proxy.is_some() {
            return Ok(self);
        }
        let Some(url) = environment.proxy_for(self.tls, &self.host, self.port) else { return Ok(self) };
        let variable = if self.tls { "HTTPS_PROXY" } else { "HTTP_PROXY" };
        self.with_proxy(&url).map_err(|error| match error {
            BadServer::Proxy { url, .. } => BadServer::Proxy { named_by: variable, url },
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> ProxyEnvironment {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ProxyEnvironment::read(|name| pairs.iter().find(|(of, _)| of == name).map(|(_, value)| value.clone()))
    }

    #[test]
    fn the_scheme_of_the_server_selects_the_variable() {
        let none: Option<&str> = None;
        let rows = [
            (vec![("HTTPS_PROXY", "http://p:1")], true, Some("http://p:1")),
            (vec![("HTTPS_PROXY", "http://p:1")], false, none),
            (vec![("HTTP_PROXY", "http://p:1")], true, none),
            (vec![("HTTP_PROXY", "http://p:1")], false, Some("http://p:1")),
            (vec![("https_proxy", "http://lower:1")], true, Some("http://lower:1")),
            (vec![("https_proxy", "http://lower:1"), ("HTTPS_PROXY", "http://p:1")], true, Some("http://p:1")),
            (vec![("https_proxy", "http://lower:1"), ("HTTPS_PROXY", "")], true, Some("http://lower:1")),
            (vec![("HTTPS_PROXY", "p:1")], true, Some("http://p:1")),
            (vec![("HTTPS_PROXY", "http://p:1"), ("no_proxy", "api")], true, none),
            (vec![("HTTPS_PROXY", "http://p:1"), ("no_proxy", "api"), ("NO_PROXY", "x")], true, Some("http://p:1")),
            (vec![], true, none),
        ];
        for (pairs, tls, expected) in rows {
            assert_eq!(environment(&pairs).proxy_for(tls, "api", 6443).as_deref(), expected, "{pairs:?} {tls}");
        }
    }

    /// The documented rules of Go's x/net/http/httpproxy, Config.NoProxy.
    #[test]
    fn no_proxy_names_hosts_domains_addresses_networks_and_ports() {
        let rows = [
            // NO_PROXY, host and port, whether it is reached without a proxy.
            ("", "localhost:6443", true),
            ("", "127.0.0.1:6443", true),
            ("", "127.9.9.9:6443", true),
            ("", "::1:6443", true),
            ("", "localhost.example:6443", false),
            ("", "10.0.0.1:6443", false),
            ("*", "anything:1", true),
            (" * ", "10.0.0.1:1", true),
            ("foo.com", "foo.com:443", true),
            ("foo.com", "bar.foo.com:443", true),
            ("foo.com", "xfoo.com:443", false),
            ("foo.com", "foo.com.org:443", false),
            (".foo.com", "foo.com:443", false),
            (".foo.com", "bar.foo.com:443", true),
            ("*.foo.com", "foo.com:443", false),
            ("*.foo.com", "bar.foo.com:443", true),
            ("*foo.com", "bar.foo.com:443", false),
            ("FOO.com", "Bar.Foo.COM:443", true),
            ("foo.com:6443", "foo.com:6443", true),
            ("foo.com:6443", "bar.foo.com:6443", true),
            ("foo.com:6443", "foo.com:443", false),
            ("10.0.0.1", "10.0.0.1:6443", true),
            ("10.0.0.1", "10.0.0.10:6443", false),
            ("10.0.0.1:6443", "10.0.0.1:6443", true),
            ("10.0.0.1:6443", "10.0.0.1:443", false),
            ("10.0.0.0/8", "10.255.0.1:6443", true),
            ("10.0.0.0/8", "11.0.0.1:6443", false),
            ("0.0.0.0/0", "11.0.0.1:6443", true),
            ("10.0.0.1/32", "10.0.0.1:6443", true),
            ("10.0.0.0/33", "10.0.0.1:6443", false),
            // A network matches addresses only: names are not resolved.
            ("0.0.0.0/0,::/0", "foo.com:443", false),
            ("fd00::/8", "fd12::1:6443", true),
            ("fd00::/8", "fe80::1:6443", false),
            ("fd00::/8", "10.0.0.1:6443", false),
            ("fd00::1", "fd00::1:6443", true),
            ("[fd00::1]:6443", "fd00::1:6443", true),
            ("[fd00::1]:443", "fd00::1:6443", false),
            // A domain entry does not match an address with the same suffix.
            ("0.1", "10.0.0.1:6443", false),
            // Several entries, with blanks and empty ones.
            (" a.com , ,10.0.0.0/8,, b.com", "b.com:443", true),
            (",:80,", "b.com:80", false),
        ];
        for (exceptions, target, expected) in rows {
            let environment = environment(&[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", exceptions)]);
            let (host, port) = target.rsplit_once(':').unwrap();
            let direct = environment.proxy_for(true, host, port.parse().unwrap()).is_none();
            assert_eq!(direct, expected, "NO_PROXY={exceptions:?} {target}");
        }
    }

    #[test]
    fn a_kubeconfigs_proxy_takes_precedence_over_the_environment() {
        use crate::api::Roots;
        let environment = environment(&[("HTTPS_PROXY", "http://me:secret@env:3128")]);
        let server = || Endpoint::new("https://api:6443", Roots::System).unwrap();
        let by = |endpoint: Endpoint| endpoint.proxy.map(|proxy| (proxy.name(), proxy.authorization));
        let login = Some("Basic bWU6c2VjcmV0".to_owned());
        assert_eq!(by(server().with_environment(&environment).unwrap()), Some(("env:3128".to_owned(), login)));
        let own = server().with_proxy("http://own:1").unwrap();
        assert_eq!(by(own.with_environment(&environment).unwrap()), Some(("own:1".to_owned(), None)));
        assert_eq!(by(server().with_environment(&ProxyEnvironment::default()).unwrap()), None);
    }

    #[test]
    fn passwords_of_proxies_are_never_shown() {
        use crate::api::Roots;
        let environment = environment(&[("HTTPS_PROXY", "http://me:secret@env:3128")]);
        let endpoint =
            Endpoint::new("https://api:6443", Roots::System).unwrap().with_environment(&environment).unwrap();
        let mut shown = vec![format!("{environment:?}"), format!("{endpoint:?}"), format!("{:?}", endpoint.proxy)];
        for url in ["socks5://me:secret@env", "me:secret@env", "http://me:secret@e^v:1", "http://me:sec@secret@env:x"] {
            let server = || Endpoint::new("https://api:6443", Roots::System).unwrap();
            let mut errors = vec![Endpoint::new(url, Roots::System).unwrap_err()];
            errors.extend(server().with_proxy(url).err());
            let named = ProxyEnvironment { https: url.to_owned(), ..ProxyEnvironment::default() };
            errors.extend(server().with_environment(&named).err());
            shown.extend(errors.iter().map(|error| format!("{error} {error:?}")));
        }
        for text in shown {
            assert!(!text.contains("secret") && !text.contains("c2VjcmV0"), "{text}");
        }
    }
}
