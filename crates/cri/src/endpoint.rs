//! The runtime's endpoint: a Unix socket, written as a URL or as a bare path.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Linux stores a socket's path, with its terminating zero, in 108 bytes.
const LONGEST_PATH: usize = 107;

/// The socket of a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    path: PathBuf,
}

impl Endpoint {
    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.path.display())
    }
}

/// An invalid endpoint. The message names the given value and a valid one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The endpoint is empty.
    #[error("runtime endpoint is empty: give a socket such as unix:///run/containerd/containerd.sock")]
    Empty,
    /// The scheme is not `unix`.
    #[error("runtime endpoint {given:?} uses {scheme:?}: only unix sockets are supported, such as unix:///run/x.sock")]
    Scheme {
        /// The given endpoint.
        given: String,
        /// Its scheme.
        scheme: String,
    },
    /// A relative path, or a URL with a host.
    #[error("runtime endpoint {given:?} is not an absolute path: did you mean {meant:?}?")]
    Relative {
        /// The given endpoint.
        given: String,
        /// The endpoint that was probably meant.
        meant: String,
    },
    /// The path is too long for a socket.
    #[error("runtime endpoint {given:?} is {length} bytes long: a unix socket's path has at most {LONGEST_PATH}")]
    TooLong {
        /// The given endpoint.
        given: String,
        /// Length of its path.
        length: usize,
    },
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    // upstream: cri-client util_unix.go parseEndpointWithFallbackProtocol (v1.36). Upstream parses `unix://run/x.sock`
    // as host `run` and path `/x.sock`. That is always a mistake, so it is refused here.
    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let path = match given.split_once(':') {
            Some(("unix", rest)) => rest.strip_prefix("//").unwrap_or(rest),
            Some((scheme, _)) if is_scheme(scheme) => {
                return Err(EndpointError::Scheme { given: given.to_owned(), scheme: scheme.to_owned() });
            }
            _ => given,
        };
        if path.is_empty() {
            return Err(EndpointError::Empty);
        }
        if !path.starts_with('/') {
            return Err(EndpointError::Relative { given: given.to_owned(), meant: format!("unix:///{path}") });
        }
        if path.len() > LONGEST_PATH {
            return Err(EndpointError::TooLong { given: given.to_owned(), length: path.len() });
        }
        Ok(Self { path: path.into() })
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::Endpoint;

    fn check(given: &str, expected: Expect) {
        let text = match given.parse::<Endpoint>() {
            Ok(endpoint) => format!("{endpoint}"),
            Err(err) => format!("error: {err}"),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn a_url_or_an_absolute_path_is_an_endpoint() {
        check("unix:///run/containerd/containerd.sock", expect!["unix:///run/containerd/containerd.sock"]);
        check("unix:/run/a.sock", expect!["unix:///run/a.sock"]);
        check("/run/a.sock", expect!["unix:///run/a.sock"]);
        check("/run/odd:name.sock", expect!["unix:///run/odd:name.sock"]);
    }

    #[test]
    fn anything_else_is_refused_with_a_suggestion() {
        check(
            "",
            expect!["error: runtime endpoint is empty: give a socket such as unix:///run/containerd/containerd.sock"],
        );
        check(
            "unix://",
            expect!["error: runtime endpoint is empty: give a socket such as unix:///run/containerd/containerd.sock"],
        );
        check(
            "unix://run/a.sock",
            expect![[
                r#"error: runtime endpoint "unix://run/a.sock" is not an absolute path: did you mean "unix:///run/a.sock"?"#
            ]],
        );
        check(
            "a.sock",
            expect![[r#"error: runtime endpoint "a.sock" is not an absolute path: did you mean "unix:///a.sock"?"#]],
        );
        check(
            "tcp://127.0.0.1:10",
            expect![[
                r#"error: runtime endpoint "tcp://127.0.0.1:10" uses "tcp": only unix sockets are supported, such as unix:///run/x.sock"#
            ]],
        );
        check(
            "npipe:////./pipe/containerd",
            expect![[
                r#"error: runtime endpoint "npipe:////./pipe/containerd" uses "npipe": only unix sockets are supported, such as unix:///run/x.sock"#
            ]],
        );
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused_before_the_kernel_does() {
        let longest = format!("/{}", "a".repeat(106));
        assert!(longest.parse::<Endpoint>().is_ok());
        assert!(format!("{longest}a").parse::<Endpoint>().is_err());
    }
}
