//! `/exec`, `/attach`, `/portForward`, `/run`: sessions with containers. The runtime serves them; this module finds the
//! container, requests a streaming URL, and proxies the session (HTTP-03).
//! upstream: kubelet/server/server.go getExec, getAttach, getPortForward, getRun; kubelet_pods.go GetExec, … (v1.36)

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, StatusCode};
use hyper::body::Incoming;
use rubelet_core::id::ContainerId;
use rubelet_core::observe::PodObservation;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{RpcError, RpcErrorKind, Runtime, RuntimeView, Session, StdStreams};
use rubelet_engine::sync_loop::KnownPod;

use super::answers::{Answer, Refusal, json};
use super::connection::Peer;
use super::pods::{full_name, tty};
use super::routes::Target;
use super::upgrade::{self, wants_upgrade};
use crate::url::query_values;

/// Starts sessions.
pub(super) struct Sessions {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) clock: Clock,
    pub(super) idle: Duration,
}

impl Sessions {
    pub(super) async fn exec(
        &self,
        peer: &Peer,
        request: Request<Incoming>,
        pod: &KnownPod,
        target: &Target,
    ) -> Result<Answer, Refusal> {
        let wanted = std_streams(request.uri().query())?;
        let command = query_values(request.uri().query(), "command");
        let id = running(&self.look(pod).await?, target)
            .ok_or_else(|| failed(format!("container not found ({:?})", target.container)))?;
        needs_upgrade(request.headers())?;
        let Session::Url(address) = self.runtime.exec(&id, &command, wanted).await.map_err(refused)?;
        Ok(upgrade::proxy(peer, request, &address, self.idle).await)
    }

    pub(super) async fn attach(
        &self,
        peer: &Peer,
        request: Request<Incoming>,
        pod: &KnownPod,
        target: &Target,
    ) -> Result<Answer, Refusal> {
        let wanted = std_streams(request.uri().query())?;
        let missing = || failed(format!("container {} not found in pod {}", target.container, full_name(pod)));
        let id = running(&self.look(pod).await?, target).ok_or_else(missing)?;
        if target.uid.as_ref().is_some_and(|uid| *uid != pod.reference.uid.to_string()) {
            return Err(failed(format!("pod {} not found", full_name(pod))));
        }
        // Whether there is a terminal was fixed when the container was created.
        let tty = tty(pod, &target.container).ok_or_else(missing)?;
        needs_upgrade(request.headers())?;
        let Session::Url(address) = self.runtime.attach(&id, StdStreams { tty, ..wanted }).await.map_err(refused)?;
        Ok(upgrade::proxy(peer, request, &address, self.idle).await)
    }

    pub(super) async fn port_forward(
        &self,
        peer: &Peer,
        request: Request<Incoming>,
        pod: &KnownPod,
        target: &Target,
    ) -> Result<Answer, Refusal> {
        let ports = ports(request.headers(), request.uri().query())?;
        if target.uid.as_ref().is_some_and(|uid| *uid != pod.reference.uid.to_string()) {
            return Err((StatusCode::NOT_FOUND, "pod not found".to_owned()));
        }
        let seen = self.look(pod).await?;
        let sandbox = seen.ready_sandbox().or_else(|| seen.sandboxes.first());
        let Some(sandbox) = sandbox else { return Err(failed(format!("pod not found ({:?})", full_name(pod)))) };
        needs_upgrade(request.headers())?;
        let Session::Url(address) = self.runtime.port_forward(&sandbox.id, &ports).await.map_err(refused)?;
        Ok(upgrade::proxy(peer, request, &address, self.idle).await)
    }

    /// Runs a command to its end and returns its output. There is no timeout; the wait ends if the client disconnects.
    pub(super) async fn run(&self, query: Option<&str>, pod: &KnownPod, target: &Target) -> Result<Answer, Refusal> {
        let command = query_values(query, "cmd").into_iter().next().unwrap_or_default();
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let id = running(&self.look(pod).await?, target)
            .ok_or_else(|| failed(format!("container not found ({:?})", target.container)))?;
        let done = self.runtime.exec_sync(&id, &words, Duration::ZERO).await.map_err(|err| failed(err.detail))?;
        if done.exit_code != 0 {
            let stderr = String::from_utf8_lossy(&done.stderr);
            return Err(failed(format!("command '{command}' exited with {}: {stderr}", done.exit_code)));
        }
        Ok(json([done.stdout, done.stderr].concat()))
    }

    async fn look(&self, pod: &KnownPod) -> Result<PodObservation, Refusal> {
        let seen = RuntimeView::inspect(self.runtime.as_ref(), &pod.reference.uid, self.clock.mono()).await;
        seen.map_err(|err| failed(err.detail))
    }
}

#[doc(alias = "findContainer")]
fn running(seen: &PodObservation, target: &Target) -> Option<ContainerId> {
    seen.running().find(|container| container.name == target.container).map(|container| container.id.clone())
}

/// upstream: cri-streaming/pkg/streaming/remotecommand/httpstream.go NewOptions (v1.36)
fn std_streams(query: Option<&str>) -> Result<StdStreams, Refusal> {
    let on = |key: &str| query_values(query, key).first().is_some_and(|value| value == "1");
    let (stdin, stdout, tty) = (on("input"), on("output"), on("tty"));
    // A terminal has only one output stream.
    let stderr = on("error") && !tty;
    if !stdin && !stdout && !stderr {
        return Err((StatusCode::BAD_REQUEST, "you must specify at least 1 of stdin, stdout, stderr".to_owned()));
    }
    Ok(StdStreams { stdin, stdout, stderr, tty })
}

/// A WebSocket client names its ports in the query; SPDY names them per stream.
/// upstream: cri-streaming/pkg/streaming/portforward/websocket.go NewV4Options (v1.36)
fn ports(headers: &HeaderMap, query: Option<&str>) -> Result<Vec<u16>, Refusal> {
    if !upgrade::is_websocket(headers) {
        return Ok(Vec::new());
    }
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    let given = query_values(query, "port");
    if given.is_empty() {
        return Err(bad("query parameter \"port\" is required".to_owned()));
    }
    let mut ports = Vec::new();
    for list in &given {
        if list.is_empty() {
            return Err(bad("query parameter \"port\" cannot be empty".to_owned()));
        }
        for port in list.split(',') {
            match port.parse::<u16>() {
                Ok(0) => return Err(bad(format!("port {list:?} must be > 0"))),
                Ok(port) => ports.push(port),
                Err(_) => return Err(bad(format!("unable to parse {list:?} as a port"))),
            }
        }
    }
    Ok(ports)
}

fn needs_upgrade(headers: &HeaderMap) -> Result<(), Refusal> {
    if wants_upgrade(headers) { Ok(()) } else { Err(failed("Upgrade request required\n".to_owned())) }
}

fn failed(why: String) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, why)
}

/// upstream: cri-streaming/pkg/streaming/errors.go WriteError (v1.36)
fn refused(err: RpcError) -> Refusal {
    let status =
        if err.kind == RpcErrorKind::NotFound { StatusCode::NOT_FOUND } else { StatusCode::INTERNAL_SERVER_ERROR };
    (status, err.detail)
}

#[cfg(test)]
mod tests {
    use http::header::{CONNECTION, UPGRADE};

    use super::*;

    #[test]
    fn http_03_streams_are_selected_as_upstream_does() {
        for (query, expected) in [
            ("output=1&error=1", Some((false, true, true, false))),
            ("input=1&output=1&tty=1&error=1", Some((true, true, false, true))),
            ("input=1", Some((true, false, false, false))),
            ("output=true", None),
            ("stdout=1", None),
            ("tty=1&error=1", None),
            ("", None),
        ] {
            let found = std_streams(Some(query)).ok();
            assert_eq!(found.map(|s| (s.stdin, s.stdout, s.stderr, s.tty)), expected, "{query}");
        }
    }

    #[test]
    fn http_03_a_websocket_names_its_ports() {
        let websocket =
            HeaderMap::from_iter([(CONNECTION, "Upgrade".parse().unwrap()), (UPGRADE, "websocket".parse().unwrap())]);
        let spdy =
            HeaderMap::from_iter([(CONNECTION, "Upgrade".parse().unwrap()), (UPGRADE, "SPDY/3.1".parse().unwrap())]);
        assert_eq!(ports(&spdy, None).ok(), Some(Vec::new()));
        for (query, expected) in [
            ("port=80", Some(vec![80])),
            ("port=80,443&port=65535", Some(vec![80, 443, 65535])),
            ("port=0", None),
            ("port=65536", None),
            ("port=", None),
            ("port=http", None),
            ("", None),
        ] {
            assert_eq!(ports(&websocket, Some(query)).ok(), expected, "{query}");
        }
    }
}
