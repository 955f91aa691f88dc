//! The machine that the agent runs on: its kernel settings, facts and addresses (BOOT-03, BOOT-06 … BOOT-10).

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
use rubelet_core::config::node_ips;
use rubelet_core::node::NodeSetup;
use rubelet_core::qos::CgroupVersion;
use rubelet_engine::chain::Chain;
use rubelet_engine::ports::NodeFacts;
use rubelet_linux::host::facts::{FactsRequest, node_facts, swap_is_on};
use rubelet_linux::host::machine::HostAddresses;
use rubelet_linux::host::tunables::TunablePolicy;
use rubelet_linux::host::{KernelFiles, process, tunables};
use tracing::{info, warn};

use super::into_anyhow;
use crate::config_load::Loaded;
use crate::settings;

/// The machine, as read at the start.
pub(super) struct Host {
    pub(super) files: KernelFiles,
    pub(super) facts: NodeFacts,
    pub(super) setup: NodeSetup,
    /// Addresses at the start.
    pub(super) ips: Vec<IpAddr>,
    pub(super) addresses: Arc<HostAddresses>,
}

/// Prepares this process and reads the machine. Refuses a machine on which no pod can run.
pub(super) async fn prepare(loaded: &Loaded) -> anyhow::Result<Host> {
    let files = KernelFiles::default();
    prepare_process(loaded, &files)?;
    let asked = node_ips(&loaded.flags.node_ip)?.addresses;
    let request = FactsRequest {
        hostname_override: loaded.flags.hostname_override.clone(),
        node_ips: asked.clone(),
        resolv_conf: loaded.config.resolv_conf.clone(),
        files: files.clone(),
    };
    let read = node_facts(request).await.map_err(into_anyhow)?;
    if let Some(err) = read.no_address {
        warn!(err = %Chain(&err), "The node has no address: pods that ask for it get none");
    }
    let (facts, ips) = (read.node, read.ips);
    info!(node = %facts.name, ?ips, cpu_millis = facts.cpu_millis, memory = facts.memory_bytes, "This is the node");
    check(loaded, &facts, &files)?;
    let setup = settings::node_setup(loaded, &facts)?;
    let addresses = Arc::new(HostAddresses { asked, name: facts.name.clone(), proc: files.proc.clone() });
    Ok(Host { files, facts, setup, ips, addresses })
}

/// What this process asks of the kernel for itself (BOOT-06, BOOT-07, BOOT-10).
fn prepare_process(loaded: &Loaded, files: &KernelFiles) -> anyhow::Result<()> {
    let config = &loaded.config;
    let open_files = process::raise_open_files(u64::try_from(config.max_open_files).unwrap_or_default());
    if open_files.is_short() {
        warn!(wanted = open_files.wanted, in_force = open_files.in_force, "Could not raise the limit on open files");
    }
    if let Err(err) = process::set_oom_score_adj(files, config.oom_score_adj) {
        warn!(score = config.oom_score_adj, %err, "Could not set our own OOM score");
    }
    let policy = if config.protect_kernel_defaults { TunablePolicy::Verify } else { TunablePolicy::Set };
    let problems: Vec<String> = tunables::apply(files, policy).iter().map(|err| Chain(err).to_string()).collect();
    match policy {
        TunablePolicy::Verify if !problems.is_empty() => {
            bail!("protectKernelDefaults is set and kernel settings differ:\n  {}", problems.join("\n  "))
        }
        TunablePolicy::Verify | TunablePolicy::Set => {
            problems.iter().for_each(|problem| warn!(%problem, "A kernel setting is not as pods need it"));
            Ok(())
        }
    }
}

/// Whether pods can run on such a host at all (BOOT-08, BOOT-09).
fn check(loaded: &Loaded, facts: &NodeFacts, files: &KernelFiles) -> anyhow::Result<()> {
    let swap = swap_is_on(files).context("read whether swap is on")?;
    if swap && loaded.config.fail_swap_on {
        bail!("running with swap on is not supported: switch it off (swapoff -a) or set failSwapOn: false");
    }
    if facts.cgroups == CgroupVersion::V1 {
        warn!("This host has cgroup v1, which upstream has deprecated: prefer a host with cgroup v2");
    }
    Ok(())
}
