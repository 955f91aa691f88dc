//! Lifecycle hooks: exec, sleep and httpGet (section 14).

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Pod};
use rubelet_core::id::ContainerId;
use rubelet_core::probe::{LIFECYCLE_AGENT, Scheme, TargetError, http_target};

use crate::node::Node;
use crate::ports::{EventKind, HttpTarget, NetError, PodEvent, RpcError};

/// A hook that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The command could not be run.
    #[error("run the hook's command")]
    Exec(#[source] RpcError),
    /// The command failed.
    #[error("the hook's command exited with {code}")]
    Exit {
        /// Its exit code.
        code: i32,
    },
    /// The host or port of the request could not be resolved.
    #[error("resolve the target of the hook's request")]
    Target(#[source] TargetError),
    /// The request got no answer.
    #[error("the hook's request to {url}")]
    Http {
        /// The URL of the request.
        url: String,
        /// Why it failed.
        #[source]
        source: NetError,
    },
    /// This kind of handler is not supported.
    #[error("cannot run handler: {0} hooks are not supported")]
    Unsupported(&'static str),
}

/// A hook, and the container that it runs for.
pub(crate) struct Hook<'a> {
    pub(crate) handler: &'a LifecycleHandler,
    /// The container's instance.
    pub(crate) id: &'a ContainerId,
    /// The container, for its named ports.
    pub(crate) container: Cow<'a, Container>,
    /// The pod, unless only the runtime knows it.
    pub(crate) pod: Option<&'a Arc<Pod>>,
    /// The pod's IP, if it has one.
    pub(crate) ip: Option<IpAddr>,
}

impl Hook<'_> {
    /// Runs the hook to its end. The caller sets the deadline.
    #[doc(alias = "HandlerRunner")]
    pub(crate) async fn run(&self, node: &Node) -> Result<(), HookError> {
        if let Some(exec) = &self.handler.exec {
            let command = exec.command.clone().unwrap_or_default();
            let output = node.ports.runtime.exec_sync(self.id, &command, Duration::ZERO).await;
            let output = output.map_err(HookError::Exec)?;
            return if output.exit_code == 0 { Ok(()) } else { Err(HookError::Exit { code: output.exit_code }) };
        }
        if let Some(get) = &self.handler.http_get {
            return self.get(node, get).await;
        }
        if let Some(sleep) = &self.handler.sleep {
            tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or_default())).await;
            return Ok(());
        }
        Err(HookError::Unsupported("tcpSocket"))
    }

    /// Any response is success. A server that answers an HTTPS request in plain HTTP gets the request again over HTTP,
    /// because early versions always sent hooks over HTTP (HOOK-01).
    async fn get(&self, node: &Node, get: &HTTPGetAction) -> Result<(), HookError> {
        let ip = self.ip.map(|ip| ip.to_string());
        let target = http_target(get, &self.container, ip.as_deref(), LIFECYCLE_AGENT).map_err(HookError::Target)?;
        let failed = |target: &HttpTarget, source| HookError::Http { url: target.url(), source };
        match node.ports.probes.http(&target, None).await {
            Ok(_) => Ok(()),
            Err(NetError::PlainHttp) => {
                let mut plain = HttpTarget { scheme: Scheme::Http, ..target };
                // Credentials meant for HTTPS must not be sent in the clear.
                plain.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
                node.ports.probes.http(&plain, None).await.map_err(|err| failed(&plain, err))?;
                self.report_fallback(node, &plain);
                Ok(())
            }
            // A truncated body is still a response.
            Err(NetError::Body(_)) => Ok(()),
            Err(err) => Err(failed(&target, err)),
        }
    }

    fn report_fallback(&self, node: &Node, plain: &HttpTarget) {
        node.metrics.hook_fell_back();
        let Some(pod) = self.pod else { return };
        let address = plain.address();
        node.ports.events.record(PodEvent {
            pod: Arc::clone(pod),
            field_path: None,
            kind: EventKind::Warning,
            reason: "LifecycleHTTPFallback".into(),
            message: format!("request to HTTPS lifecycle hook {address} got HTTP response, retry with HTTP succeeded"),
            annotations: std::collections::BTreeMap::new(),
        });
    }
}
