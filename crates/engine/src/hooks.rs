//! Lifecycle hooks: a command in the container, a pause, a request (section 14).

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
    /// It cannot be said whom to ask.
    #[error("find whom the hook asks")]
    Target(#[source] TargetError),
    /// Nobody answered.
    #[error("the hook's request to {url}")]
    Http {
        /// Where to.
        url: String,
        /// Why not.
        #[source]
        source: NetError,
    },
    /// Nothing here can run it.
    #[error("cannot run handler: {0} hooks are not supported")]
    Unsupported(&'static str),
}

/// A hook and what it is run on.
pub(crate) struct Hook<'a> {
    pub(crate) handler: &'a LifecycleHandler,
    /// The instance.
    pub(crate) id: &'a ContainerId,
    /// The container, for its named ports.
    pub(crate) container: Cow<'a, Container>,
    /// The pod, unless only the runtime knows it.
    pub(crate) pod: Option<&'a Arc<Pod>>,
    /// Where the pod is, if it has an address.
    pub(crate) ip: Option<IpAddr>,
}

impl Hook<'_> {
    /// Runs the hook to its end. Who calls it bounds it.
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

    /// Whatever the server answers is success. One that is asked over TLS and speaks plain HTTP is asked again so, for
    /// that is what it always was asked in early versions (HOOK-01).
    async fn get(&self, node: &Node, get: &HTTPGetAction) -> Result<(), HookError> {
        let ip = self.ip.map(|ip| ip.to_string());
        let target = http_target(get, &self.container, ip.as_deref(), LIFECYCLE_AGENT).map_err(HookError::Target)?;
        let failed = |target: &HttpTarget, source| HookError::Http { url: target.url(), source };
        match node.ports.probes.http(&target, None).await {
            Ok(_) => Ok(()),
            Err(NetError::PlainHttp) => {
                let mut plain = HttpTarget { scheme: Scheme::Http, ..target };
                // What was meant for an encrypted line is not sent over an open one.
                plain.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
                node.ports.probes.http(&plain, None).await.map_err(|err| failed(&plain, err))?;
                self.tell_fallback(node, &plain);
                Ok(())
            }
            // A body that broke off is an answer all the same.
            Err(NetError::Body(_)) => Ok(()),
            Err(err) => Err(failed(&target, err)),
        }
    }

    fn tell_fallback(&self, node: &Node, plain: &HttpTarget) {
        node.metrics.hook_fell_back();
        let Some(pod) = self.pod else { return };
        let address = plain.address();
        node.ports.events.record(PodEvent {
            pod: Arc::clone(pod),
            field_path: None,
            kind: EventKind::Warning,
            reason: "LifecycleHTTPFallback".into(),
            message: format!("request to HTTPS lifecycle hook {address} got HTTP response, retry with HTTP succeeded"),
        });
    }
}
