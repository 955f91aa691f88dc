//! The phases in their order, and what they share.

use std::time::Duration;

use anyhow::Context;
use rubelet_cluster::api::{Client, Kubeconfig};
use rubelet_engine::task::TaskGroup;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::place::Place;
use crate::plan::{PATIENCE, Plan};
use crate::pods::Pods;
use crate::raw::{Phase, Raw};
use crate::sight::{Sight, connect};

/// What every namespace gets, and pods wait for.
const OF_NAMESPACE: [&str; 2] = ["serviceaccounts/default", "configmaps/kube-root-ca.crt"];

pub(crate) struct Bench {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) pods: Pods,
    pub(crate) sight: Sight,
    pub(crate) agent: Agent,
    pub(crate) raw: Raw,
    pub(crate) plan: Plan,
    named: u32,
    /// The way to the API server ends with it.
    _tasks: TaskGroup,
}

impl Bench {
    pub(crate) async fn new(place: Place, name: &str, raw: Raw, plan: Plan) -> anyhow::Result<Self> {
        let config = Kubeconfig::load(&place.at("admin.conf")).context("read the cluster's admin.conf")?;
        let mut tasks = TaskGroup::new(&CancellationToken::new());
        let client = connect(config.clone(), &mut tasks);
        let namespace = format!("bench-{name}-{}", raw.round());
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let _made: Value = client.create("/api/v1/namespaces", &body).await.context("make a namespace")?;
        for object in OF_NAMESPACE {
            let path = format!("/api/v1/namespaces/{namespace}/{object}");
            let there = async {
                while client.get::<Value>(&path).await.is_err() {
                    sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::time::timeout(PATIENCE, there).await.with_context(|| format!("the namespace gets no {object}"))?;
        }
        let sight = Sight::start(config, &namespace, place.node())?;
        Ok(Self {
            name: name.to_owned(),
            agent: Agent::find(&place)?,
            pods: Pods { node: place.node().to_owned() },
            place,
            client,
            namespace,
            sight,
            raw,
            plan,
            named: 0,
            _tasks: tasks,
        })
    }

    /// All phases. The idle node is watched before anything else happened on it but the warm-up.
    pub(crate) async fn run(&mut self) -> anyhow::Result<()> {
        let plan = self.plan.clone();
        let size = self.agent.stripped_size()?;
        self.raw.value("binary", "-", "MiB", size);
        self.node_starts().await?;
        self.warm_up().await?;
        self.idle("0", plan.window).await?;
        self.singles().await?;
        let waiting = self.config_maps().await?;
        self.exits().await?;
        self.resizes().await?;
        self.config_map_end(waiting).await?;
        for burst in &plan.bursts {
            self.burst(burst).await?;
        }
        for probing in &plan.probes {
            self.probing(*probing).await?;
        }
        self.hold_up().await;
        Ok(())
    }

    /// What held up the agent for the longest time since its start, if it can be asked: one with many threads has no such
    /// thing. Asked before every end of the agent, with which it is lost.
    pub(crate) async fn hold_up(&mut self) {
        let local = rubelet_server::local::Client::new(&self.place.at("kubelet/rubelet.sock"));
        let longest = local.pods().await.ok().and_then(|node| node.longest_hold_up);
        if let Some(millis) = longest.and_then(|longest| u32::try_from(longest.millis).ok()) {
            self.raw.value("hold-up", "-", "ms", f64::from(millis));
        }
    }

    async fn warm_up(&mut self) -> anyhow::Result<()> {
        let _phase = Phase::begin("warm-up");
        let pods = self.named_pods(self.plan.warm_up, |pods, name| pods.idle(name, 1));
        let made = self.create(pods).await?;
        self.ready(&made).await?;
        self.delete(&made).await?;
        Ok(())
    }

    /// A name that no pod had before: what was seen of one is never mixed up with another.
    pub(crate) fn new_name(&mut self, kind: &str) -> String {
        self.named += 1;
        format!("{kind}-{}", self.named)
    }

    /// So many pods, each with a name of its own.
    pub(crate) fn named_pods(&mut self, count: usize, of: impl Fn(&Pods, &str) -> Value) -> Vec<(String, Value)> {
        let names: Vec<String> = (0..count).map(|_| self.new_name("pod")).collect();
        names.into_iter().map(|name| (name.clone(), of(&self.pods, &name))).collect()
    }

    pub(crate) fn path(&self, kind: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{}/{kind}/{name}", self.namespace)
    }
}
