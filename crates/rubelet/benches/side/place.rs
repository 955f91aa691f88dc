//! Where the cluster and its node are: what `tests/env/k8s.sh` and `node.sh` left below their directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// A control plane and a node, made by the scripts of `tests/env`.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    env: BTreeMap<String, String>,
}

impl Place {
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Self> {
        let dir = dir.canonicalize().with_context(|| format!("{} is no cluster of k8s.sh", dir.display()))?;
        let text = fs::read_to_string(dir.join("env")).context("read the cluster's env")?;
        let env = text.lines().filter_map(|line| line.split_once('='));
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(Self { dir, env })
    }

    fn value(&self, name: &str) -> &str {
        self.env.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn node(&self) -> &str {
        self.value("NODE_NAME")
    }

    pub(crate) fn api_port(&self) -> &str {
        self.value("PORT_API")
    }

    /// The node's own cgroup, below which are all of its pods.
    pub(crate) fn cgroup(&self) -> String {
        format!("rubelet-node.{}", self.value("SLOT_NUMBER"))
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A volume of a pod, as the agent keeps it; the same place with either.
    pub(crate) fn volume(&self, uid: &str, plugin: &str, name: &str) -> PathBuf {
        self.at("kubelet/pods").join(uid).join("volumes").join(plugin).join(name)
    }

    /// A page of the node's own API.
    pub(crate) fn page(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.value("PORT_KUBELET"))
    }

    /// A client that may read every page.
    pub(crate) fn curl(&self) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["-sfk", "--max-time", "10", "--noproxy", "*"]);
        curl.arg("--cert").arg(self.at("pki/admin.crt")).arg("--key").arg(self.at("pki/admin.key"));
        curl
    }

    /// How many probes the agent has made, if it has that metric.
    pub(crate) fn probes(&self) -> Option<f64> {
        let output = self.curl().arg(self.page("/metrics/probes")).output().ok();
        let output = output.filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        let counts = text.lines().filter(|line| line.starts_with("prober_probe_total{"));
        Some(counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }
}
