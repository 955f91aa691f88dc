//! Where the collector is: `tracing.endpoint`.

use std::path::PathBuf;
use std::str::FromStr;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

/// upstream: component-base/tracing/api/v1 TracingConfiguration (v1.36)
const DEFAULT: &str = "localhost:4317";

/// A collector of spans.
#[derive(Clone, Debug)]
pub struct Collector {
    at: At,
}

#[derive(Clone, Debug)]
enum At {
    Host(Box<Endpoint>),
    /// A path; a leading zero byte is for the abstract namespace.
    Socket(PathBuf),
}

/// The endpoint is not one.
#[derive(Debug, thiserror::Error)]
#[error("tracing.endpoint {0:?} is not host:port, dns:///host:port, unix://path or unix-abstract://name")]
pub struct EndpointError(String);

impl Default for Collector {
    /// The collector of this machine.
    fn default() -> Self {
        Self { at: At::Host(Box::new(Endpoint::from_static("http://localhost:4317"))) }
    }
}

impl FromStr for Collector {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let bad = || EndpointError(text.to_owned());
        let text = if text.is_empty() { DEFAULT } else { text };
        let at = match text.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => At::Socket(path.into()),
            Some(("unix-abstract", name)) if !name.is_empty() => At::Socket(format!("\0{name}").into()),
            Some(("dns", host)) => host_port(host.trim_start_matches('/')).ok_or_else(bad)?,
            None => host_port(text).ok_or_else(bad)?,
            Some(_) => return Err(bad()),
        };
        Ok(Self { at })
    }
}

fn host_port(text: &str) -> Option<At> {
    let uri: http::Uri = format!("http://{text}").parse().ok()?;
    let plain = uri.path() == "/" && uri.query().is_none() && uri.port_u16().is_some();
    plain.then(|| At::Host(Box::new(Endpoint::from(uri))))
}

impl Collector {
    /// A connection that is dialled by the first call, without TLS as upstream.
    pub(super) fn channel(&self) -> Channel {
        match &self.at {
            At::Host(endpoint) => endpoint.connect_lazy(),
            At::Socket(path) => {
                let path = path.clone();
                Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_| {
                    let path = path.clone();
                    async move { UnixStream::connect(path).await.map(TokioIo::new) }
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Collector;

    #[test]
    fn trc_01_where_a_collector_may_be() {
        for good in ["", "localhost:4317", "10.0.0.1:4317", "[::1]:4317", "dns:///otel:4317", "unix:///run/otel.sock"] {
            assert!(good.parse::<Collector>().is_ok(), "{good}");
        }
        assert!("unix-abstract://otel".parse::<Collector>().is_ok());
        for bad in ["localhost", "http://localhost:4317", "unix://otel.sock", "a b:1", "host:4317/path", "dns:///"] {
            assert!(bad.parse::<Collector>().is_err(), "{bad}");
        }
    }
}
