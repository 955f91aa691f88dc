//! The pod's sandbox: creates a new one, or keeps the existing one (RT-04, RT-05).

use rubelet_core::dns::{DnsView, PodDns, pod_dns};
use rubelet_core::id::SandboxId;
use rubelet_core::launch::{SandboxConfig, SandboxInputs, sandbox_config};
use rubelet_core::lifecycle::Retry;
use rubelet_core::observe::PodObservation;

use super::{LiveSandbox, PodRuntime, handler};
use crate::chain::Chain;
use crate::job::{PodMemory, retry_after};
use crate::ports::{EventKind, RpcErrorKind};
use crate::slots::StartSlot;

impl PodRuntime<'_> {
    pub(super) fn kept_sandbox(&self, id: &SandboxId, seen: &PodObservation) -> Result<LiveSandbox, (String, Retry)> {
        let found = seen.sandboxes.iter().find(|s| s.id == *id);
        let attempt = found.map_or(0, |s| s.attempt);
        // The handler that it was created with: the RuntimeClass may have changed since.
        let handler = found.map(|s| s.runtime_handler.clone()).unwrap_or_default();
        let config = self.config(attempt, None, handler).map_err(|problem| (problem, Retry::Later))?;
        Ok(LiveSandbox { id: id.clone(), config, ips: found.map(|s| s.ips.clone()).unwrap_or_default() })
    }

    #[doc(alias = "createPodSandbox")]
    pub(super) async fn new_sandbox(
        &self,
        attempt: u32,
        replaces: bool,
        memory: &mut PodMemory,
        slot: &mut StartSlot<'_>,
    ) -> Result<LiveSandbox, (String, Retry)> {
        slot.take(self.job).await.map_err(|err| (err.problem, err.retry))?;
        if replaces {
            self.job.step("a new sandbox, in place of the old one").await;
        } else {
            self.job.step("its sandbox to be created").await;
        }
        let resolv_conf = self.node.ports.host_files.resolv_conf().await;
        let dns = match resolv_conf {
            Ok(text) => self.dns(text.as_deref()),
            Err(err) => Err(Chain(&err).to_string()),
        };
        let dns = match dns {
            Ok(dns) => dns,
            Err(problem) => return Err((self.sandbox_failed(problem).await, Retry::Later)),
        };
        for warning in dns.warnings {
            self.job.emit(self.pod, None, EventKind::Warning, warning.reason, warning.message).await;
        }
        let handler = match handler::of_class(self.node, self.pod).await {
            Ok(handler) => handler,
            Err(problem) => return Err((self.sandbox_failed(problem).await, Retry::Later)),
        };
        let config = match self.config(attempt, Some(dns.config), handler) {
            Ok(config) => config,
            Err(problem) => return Err((self.sandbox_failed(problem).await, Retry::Later)),
        };
        if let Err(err) = self.node.ports.logs.make_dir(&self.job.pod).await {
            return Err((self.sandbox_failed(Chain(&err).to_string()).await, Retry::Later));
        }
        let began = self.node.clock.mono();
        let id = match self.node.ports.runtime.run_sandbox(&config).await {
            Ok(id) => id,
            Err(err) => {
                // The name is taken by an earlier call whose answer was lost: it has created the sandbox, or is about to.
                // The next look finds it.
                let taken = err.kind == RpcErrorKind::AlreadyExists;
                let retry = if taken { Retry::Soon } else { retry_after(err.kind) };
                return Err((self.sandbox_failed(err.to_string()).await, retry));
            }
        };
        let took = self.node.clock.mono().since(began);
        self.job.happened("Sandbox created", Some(took)).await;
        let seen = self.job.look(memory).await.map_err(|err| (err.to_string(), Retry::Soon))?;
        let ips = seen.sandboxes.iter().find(|s| s.id == id).map(|s| s.ips.clone()).unwrap_or_default();
        Ok(LiveSandbox { id, config, ips })
    }

    fn dns(&self, resolv_conf: Option<&str>) -> Result<PodDns, String> {
        let now = self.node.now();
        let view = DnsView {
            cluster_dns: &self.node.settings.cluster_dns,
            cluster_domain: &self.node.settings.launch.cluster_domain,
            resolv_conf,
            node_ips: &now.ips,
        };
        pod_dns(self.pod, &view).map_err(|err| err.to_string())
    }

    fn config(
        &self,
        attempt: u32,
        dns: Option<rubelet_core::launch::DnsConfig>,
        runtime_handler: String,
    ) -> Result<SandboxConfig, String> {
        let features = self.node.now().handler(&runtime_handler);
        let inputs = SandboxInputs { attempt, dns, runtime_handler, features, ..SandboxInputs::default() };
        sandbox_config(&self.node.settings.launch, self.pod, &inputs).map_err(|err| err.to_string())
    }

    /// Emits that the sandbox could not be created. If the pod has to end meanwhile, the job is dropped before (RT-04).
    async fn sandbox_failed(&self, problem: String) -> String {
        let message = format!("Failed to create pod sandbox: {problem}");
        self.job.emit(self.pod, None, EventKind::Warning, "FailedCreatePodSandBox", message.clone()).await;
        message
    }
}
