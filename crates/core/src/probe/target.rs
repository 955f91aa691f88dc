//! The target of a probe: host, port, path, headers, command (PRB-12 … PRB-14).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::env::{NoRoom, Room, expand};

/// The largest command of a probe, in bytes. It is expanded for every run, up to once a second for each container, so that
/// it gets less room than a container (`env::MAX_EXPANDED`); no command in a manifest of the API's
/// comes near it, for the API takes no pod larger than 1.5 MiB.
const MAX_COMMAND: usize = 1024 * 1024;
/// The user agent of probes.
pub const PROBE_AGENT: &str = "kube-probe/1.36";
/// The user agent of lifecycle hooks.
pub const LIFECYCLE_AGENT: &str = "kube-lifecycle/1.36";

/// The action of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAction {
    /// Runs a command in the container.
    Exec(Vec<String>),
    /// Sends an HTTP request.
    Http(HttpTarget),
    /// Opens a TCP connection.
    Tcp(TcpTarget),
    /// Asks a gRPC server for its health.
    Grpc(GrpcTarget),
}

/// Whether TLS is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain.
    Http,
    /// TLS, without verification of the server's certificate.
    Https,
}

/// One GET request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTarget {
    /// Plain or TLS.
    pub scheme: Scheme,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path and query, beginning with `/`, with only such characters as may stand in a request line.
    pub path: String,
    /// All headers but `Host`, in order.
    pub headers: Vec<(String, String)>,
    /// The `Host` header, if it is not what the address says.
    pub host_header: Option<String>,
}

impl HttpTarget {
    /// The URL, for messages.
    pub fn url(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        format!("{scheme}://{}{}", self.address(), self.path)
    }

    /// `host:port`, with brackets around an IPv6 address.
    pub fn address(&self) -> String {
        join(&self.host, self.port)
    }
}

/// Where a TCP probe connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpTarget {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl TcpTarget {
    /// `host:port`, with brackets around an IPv6 address.
    pub fn address(&self) -> String {
        join(&self.host, self.port)
    }
}

/// The server and the service of a gRPC probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcTarget {
    /// Address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The service; empty for the server as a whole.
    pub service: String,
}

impl GrpcTarget {
    /// `host:port`, with brackets around an IPv6 address.
    pub fn address(&self) -> String {
        join(&self.host, self.port)
    }
}

fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Why a probe has no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No container port has this name, and it is no number.
    #[error("strconv.Atoi: parsing \"{0}\": invalid syntax")]
    PortName(String),
    /// The number is not a port.
    #[error("invalid port number: {0}")]
    Port(i64),
    /// The pod has no address.
    #[error("the pod has no address yet")]
    NoAddress,
    /// The probe has no action.
    #[error("missing probe handler for {0}")]
    NoHandler(String),
    /// Its command is too large.
    #[error(
        "the exec probe's command of container {0:?} expands to more than {MAX_COMMAND} bytes: shorten it or the $(NAME) \
         references in it"
    )]
    CommandTooLarge(String),
}

/// The target of `probe` of `container`; `pod_ip` is the host if the probe has none.
pub fn resolve(probe: &Probe, container: &Container, pod_ip: Option<&str>) -> Result<ProbeAction, TargetError> {
    let or_pod = |host: Option<&String>| host_or_pod(host, pod_ip);
    if let Some(exec) = &probe.exec {
        let command = exec.command.as_deref().unwrap_or_default();
        let command = expand_literals(command, container);
        let too_large = |NoRoom| TargetError::CommandTooLarge(container.name.clone());
        return command.map(ProbeAction::Exec).map_err(too_large);
    }
    if let Some(http) = &probe.http_get {
        return http_target(http, container, pod_ip, PROBE_AGENT).map(ProbeAction::Http);
    }
    if let Some(tcp) = &probe.tcp_socket {
        let port = resolve_port(&tcp.port, container)?;
        return Ok(ProbeAction::Tcp(TcpTarget { host: or_pod(tcp.host.as_ref())?, port }));
    }
    if let Some(grpc) = &probe.grpc {
        let port = valid_port(i64::from(grpc.port))?;
        let service = grpc.service.clone().unwrap_or_default();
        return Ok(ProbeAction::Grpc(GrpcTarget { host: or_pod(None)?, port, service }));
    }
    Err(TargetError::NoHandler(container.name.clone()))
}

/// The request of `action`, of a probe or of a hook.
#[doc(alias = "NewRequestForHTTPGetAction")]
pub fn http_target(
    action: &HTTPGetAction,
    container: &Container,
    pod_ip: Option<&str>,
    agent: &str,
) -> Result<HttpTarget, TargetError> {
    let tls = action.scheme.as_deref().is_some_and(|s| s.eq_ignore_ascii_case("https"));
    let given = action.http_headers.as_deref().unwrap_or_default();
    let named = |name: &str| given.iter().find(|h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value.as_str());
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, default) in [("User-Agent", agent), ("Accept", "*/*")] {
        if named(name).is_none() {
            headers.push((name.to_owned(), default.to_owned()));
        }
    }
    for header in given {
        let name = header.name.to_ascii_lowercase();
        // A header with an empty value is not sent, which removes a default.
        let taken_away = matches!(name.as_str(), "accept" | "user-agent") && header.value.is_empty();
        if name != "host" && !taken_away {
            headers.push((header.name.clone(), header.value.clone()));
        }
    }
    Ok(HttpTarget {
        scheme: if tls { Scheme::Https } else { Scheme::Http },
        host: host_or_pod(action.host.as_ref(), pod_ip)?,
        port: resolve_port(&action.port, container)?,
        path: request_path(action.path.as_deref().unwrap_or_default()),
        headers,
        host_header: named("Host").filter(|host| !host.is_empty()).map(str::to_owned),
    })
}

/// The path for a request line: characters that are not allowed there are escaped, and a fragment is not sent.
pub(super) fn request_path(path: &str) -> String {
    let path = path.split('#').next().unwrap_or_default();
    let mut out = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        out.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'!' | b'#'..=b';' | b'=' | b'?'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn host_or_pod(host: Option<&String>, pod_ip: Option<&str>) -> Result<String, TargetError> {
    let named = host.map(String::as_str).filter(|host| !host.is_empty());
    named.or(pod_ip.filter(|ip| !ip.is_empty())).map(str::to_owned).ok_or(TargetError::NoAddress)
}

/// A number, the name of a container port, or a number written as text.
fn resolve_port(port: &IntOrString, container: &Container) -> Result<u16, TargetError> {
    match port {
        IntOrString::Int(number) => valid_port(i64::from(*number)),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|p| p.name.as_deref() == Some(name));
            let number = named.map(|p| i64::from(p.container_port)).or_else(|| name.parse().ok());
            valid_port(number.ok_or_else(|| TargetError::PortName(name.clone()))?)
        }
    }
}

fn valid_port(number: i64) -> Result<u16, TargetError> {
    u16::try_from(number).ok().filter(|port| *port != 0).ok_or(TargetError::Port(number))
}

/// Only variables with a value in the spec are known here: a probe does not see the container's environment.
#[doc(alias = "ExpandContainerCommandOnlyStatic")]
fn expand_literals(command: &[String], container: &Container) -> Result<Vec<String>, NoRoom> {
    let mut literals = BTreeMap::new();
    if command.iter().any(|word| word.contains("$(")) {
        // Of several with one name the last counts, as in the container itself.
        let env = container.env.iter().flatten();
        literals.extend(env.map(|env| (env.name.as_str(), env.value.as_deref().unwrap_or_default())));
    }
    let mut room = Room::new(MAX_COMMAND);
    let mut word = |word: &String| {
        room.string()?;
        expand(word, &mut room, &mut |name| literals.get(name).copied())
    };
    command.iter().map(&mut word).collect()
}
