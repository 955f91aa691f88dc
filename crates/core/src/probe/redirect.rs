//! Whether a redirect is followed (PRB-12): to the same host, ten times at most.

use super::target::{HttpTarget, Scheme, request_path};

/// The most redirects that a probe follows.
pub const MAX_REDIRECTS: usize = 10;

/// What to do with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    /// It is the final answer.
    Take,
    /// Follow the redirect.
    Follow(HttpTarget),
    /// There were too many redirects.
    TooMany,
}

/// What to do with an answer of `at` with this `status` and `Location`, after `hops` redirects; `first` is the
/// first address.
/// upstream: `probe/http/http.go` `RedirectChecker` (v1.36)
pub fn next_hop(first: &HttpTarget, at: &HttpTarget, status: u16, location: Option<&str>, hops: usize) -> Hop {
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Hop::Take;
    }
    let Some(next) = location.filter(|l| !l.is_empty()).and_then(|location| join(at, location)) else {
        return Hop::Take;
    };
    if !next.host.eq_ignore_ascii_case(&first.host) {
        return Hop::Take;
    }
    if hops + 1 >= MAX_REDIRECTS { Hop::TooMany } else { Hop::Follow(next) }
}

/// `location` relative to `base`; `None` if it is not an address of a server.
fn join(base: &HttpTarget, location: &str) -> Option<HttpTarget> {
    let (scheme, rest) = match location.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, Some(rest)),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, Some(rest)),
        Some((scheme, _)) if scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => return None,
        Some(_) | None => (base.scheme, location.strip_prefix("//")),
    };
    if let Some(rest) = rest {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = split_authority(authority)?;
        let default = match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        // Another address: the configured Host header was for the first one.
        let (headers, port) = (base.headers.clone(), port.unwrap_or(default));
        return Some(HttpTarget { scheme, host, port, path: request_path(path), headers, host_header: None });
    }
    let path = match location.chars().next() {
        Some('/') => location.to_owned(),
        Some('?') => format!("{}{location}", path_of(base)),
        _ => {
            let folder = path_of(base).rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{location}")
        }
    };
    Some(HttpTarget { path: request_path(&path), ..base.clone() })
}

fn path_of(target: &HttpTarget) -> &str {
    target.path.split('?').next().unwrap_or_default()
}

fn split_authority(authority: &str) -> Option<(String, Option<u16>)> {
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':'))
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None | Some("") => None,
        Some(port) => Some(port.parse().ok()?),
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}
