//! Which requests are answered at all: those that read, and that no foreign page has caused.
//!
//! A browser on this machine can reach a port on loopback, and through `ssh -L` the socket. A foreign page must not read the
//! node through it: with DNS rebinding it has a name of its own in `Host`, else its address in `Origin`, or a browser says in
//! `Sec-Fetch-Site` that another site made the request.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Method, StatusCode, Uri};

/// What a client of the socket sends as `Host`.
pub(super) const SOCKET_HOST: &str = "rubelet";
/// The names of this machine for itself.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// By which names a server may be addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// Loopback with any port, or the name that clients of the socket use.
    Socket,
    /// Loopback with this port.
    Port(u16),
}

/// Why a request is refused, if it is.
pub(super) fn refusal(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    names: Names,
) -> Option<(StatusCode, &'static str)> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "only GET is known"));
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let addressed = host.is_some_and(|host| names.has(host)) && hosts.next().is_none();
    if !addressed || uri.authority().is_some_and(|authority| !names.has(authority.as_str())) {
        return Some((StatusCode::FORBIDDEN, "the Host of the request is not this machine's loopback address"));
    }
    let foreign = |origin: &str| origin.strip_prefix("http://").is_none_or(|host| !names.has(host));
    if headers.get_all(ORIGIN).iter().any(|origin| origin.to_str().map_or(true, foreign)) {
        return Some((StatusCode::FORBIDDEN, "a page of another origin may not ask"));
    }
    let own = |site: &http::HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    if !headers.get_all("sec-fetch-site").iter().all(own) {
        return Some((StatusCode::FORBIDDEN, "a page of another site may not ask"));
    }
    None
}

impl Names {
    fn has(self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            // An address in brackets has colons of its own.
            Some((name, port)) if !port.ends_with(']') => (name, port.parse::<u16>().ok()),
            Some(_) | None => (host, Some(80)),
        };
        let loopback = LOOPBACK.iter().any(|known| known.eq_ignore_ascii_case(name));
        match self {
            Self::Socket => host == SOCKET_HOST || (loopback && port.is_some()),
            Self::Port(own) => loopback && port == Some(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: Names, method: &str, uri: &str, headers: &[(&'static str, &str)]) -> Option<u16> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        refusal(&method, &uri.parse().expect("a URI"), &map, names).map(|(status, _)| status.as_u16())
    }

    /// Method, URI, headers and the expected refusal.
    type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)], Option<u16>);

    #[test]
    fn only_requests_of_the_own_page_and_of_commands_are_answered() {
        let port = Names::Port(8123);
        let rows: &[Row] = &[
            ("GET", "/", &[("host", "127.0.0.1:8123")], None),
            ("HEAD", "/", &[("host", "LocalHost:8123")], None),
            ("GET", "/", &[("host", "[::1]:8123")], None),
            ("GET", "/", &[("host", "127.0.0.1:8123"), ("origin", "http://127.0.0.1:8123")], None),
            ("GET", "/", &[("host", "127.0.0.1:8123"), ("sec-fetch-site", "same-origin")], None),
            ("GET", "/", &[("host", "127.0.0.1:8123"), ("sec-fetch-site", "none")], None),
            // Nothing is changed.
            ("POST", "/", &[("host", "127.0.0.1:8123")], Some(405)),
            ("PUT", "/", &[("host", "127.0.0.1:8123")], Some(405)),
            ("DELETE", "/v1/pods/web", &[("host", "127.0.0.1:8123")], Some(405)),
            ("OPTIONS", "/", &[("host", "127.0.0.1:8123")], Some(405)),
            // DNS rebinding.
            ("GET", "/", &[("host", "evil.example:8123")], Some(403)),
            ("GET", "/", &[("host", "127.0.0.1.evil.example:8123")], Some(403)),
            ("GET", "/", &[("host", "localhost.:8123")], Some(403)),
            ("GET", "/", &[("host", "127.0.0.1:8124")], Some(403)),
            ("GET", "/", &[("host", "127.0.0.1")], Some(403)),
            ("GET", "/", &[("host", "")], Some(403)),
            ("GET", "/", &[], Some(403)),
            ("GET", "/", &[("host", "127.0.0.1:8123"), ("host", "evil.example")], Some(403)),
            ("GET", "http://evil.example/", &[("host", "127.0.0.1:8123")], Some(403)),
            // Foreign pages.
            ("GET", "/", &[("host", "127.0.0.1:8123"), ("origin", "http://evil.example")], Some(403)),
            ("GET", "/", &[("host", "127.0.0.1:8123"), ("origin", "null")], Some(403)),
            ("GET", "/", &[("host", "127.0.0.1:8123"), ("origin", "https://127.0.0.1:8123")], Some(403)),
            ("GET", "/", &[("host", "127.0.0.1:8123"), ("origin", "http://127.0.0.1:9999")], Some(403)),
            ("GET", "/", &[("host", "127.0.0.1:8123"), ("sec-fetch-site", "cross-site")], Some(403)),
            ("GET", "/", &[("host", "127.0.0.1:8123"), ("sec-fetch-site", "same-site")], Some(403)),
        ];
        for (method, uri, headers, expected) in rows {
            assert_eq!(check(port, method, uri, headers), *expected, "{method} {uri} {headers:?}");
        }
    }

    #[test]
    fn the_socket_may_be_forwarded_to_any_port_of_loopback() {
        for (host, expected) in [
            ("rubelet", None),
            ("localhost:4000", None),
            ("127.0.0.1", None),
            ("localhost", None),
            ("evil.example:4000", Some(403)),
            ("rubelet.evil.example", Some(403)),
        ] {
            assert_eq!(check(Names::Socket, "GET", "/", &[("host", host)]), expected, "{host}");
        }
    }
}
