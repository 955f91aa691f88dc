//! Changes to what runs: a ConfigMap's content in its volume, a container's size in its cgroup.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rubelet_cluster::api::PatchKind;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::bench::Bench;
use crate::burst::Asked;
use crate::plan::PATIENCE;
use crate::pods::{KEY, config_map, sizes};
use crate::raw::Phase;

/// How often a volume's file is read.
const LOOK: Duration = Duration::from_millis(5);
/// What takes longer than this is waited for while other things are measured: an agent that looks once per minute has
/// nothing to do for it meanwhile.
const AT_ONCE: Duration = Duration::from_secs(3);
/// How often a cgroup's file is read.
const CGROUP_LOOK: Duration = Duration::from_millis(1);
/// Sizes, by turns.
const CPUS: [&str; 2] = ["150m", "100m"];

/// A change that has not been seen yet.
pub(crate) struct Waiting {
    pod: Asked,
    change: JoinSet<anyhow::Result<Duration>>,
}

impl Bench {
    /// Changes a ConfigMap again and again, until a change is not seen at once.
    pub(crate) async fn config_maps(&mut self) -> anyhow::Result<Option<Waiting>> {
        if self.plan.config_maps == 0 {
            return Ok(None);
        }
        let _phase = Phase::begin("ConfigMap change");
        let name = self.new_name("config");
        let all = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let _made: Value = self.client.create(&all, &config_map(&name, "0")).await.context("create a ConfigMap")?;
        let pod = self.create(vec![(name.clone(), self.pods.reader(&name))]).await?;
        self.ready(&pod).await?;
        let uid = self.sight.pod(&name).uid;
        let file = self.place.volume(&uid, "kubernetes.io~configmap", "config").join(KEY);
        ensure!(fs::read_to_string(&file).is_ok_and(|text| text == "0"), "{} is not there", file.display());
        for value in 1..=self.plan.config_maps {
            sleep(Duration::from_millis(1100)).await;
            let value = value.to_string();
            let asked = Instant::now();
            let path = self.path("configmaps", &name);
            let _made: Value = self.client.replace(&path, &config_map(&name, &value)).await.context("change it")?;
            let mut change = JoinSet::new();
            change.spawn(content(file.clone(), value, asked));
            match tokio::time::timeout(AT_ONCE, change.join_next()).await {
                Ok(Some(took)) => self.raw.times("configmap", "1", &[took.context("the look was lost")??]),
                Ok(None) | Err(_) => return Ok(Some(Waiting { pod, change })),
            }
        }
        self.delete(&pod).await?;
        Ok(None)
    }

    pub(crate) async fn config_map_end(&mut self, waiting: Option<Waiting>) -> anyhow::Result<()> {
        let Some(Waiting { pod, mut change }) = waiting else { return Ok(()) };
        let _phase = Phase::begin("ConfigMap change, the rest of the wait");
        if let Some(took) = change.join_next().await {
            self.raw.times("configmap", "1", &[took.context("the look was lost")??]);
        }
        self.delete(&pod).await?;
        Ok(())
    }

    /// Resizes a container up and down.
    pub(crate) async fn resizes(&mut self) -> anyhow::Result<()> {
        let _phase = Phase::begin("resize");
        let name = self.new_name("sized");
        let [_, first] = CPUS;
        let pod = self.create(vec![(name.clone(), self.pods.sized(&name, first))]).await?;
        self.ready(&pod).await?;
        let id = self.sight.pod(&name).container_id;
        let id = id.rsplit('/').next().unwrap_or_default().to_owned();
        let file = quota_file(&self.place.cgroup(), &id).context("find the container's cgroup")?;
        let mut times = Vec::new();
        for (n, cpu) in (0..self.plan.resizes).zip(CPUS.iter().cycle()) {
            sleep(Duration::from_millis(1200 + 130 * (u64::try_from(n)? % 8))).await;
            let before = fs::read_to_string(&file).context("read the container's quota")?;
            let patch = json!({"spec": {"containers": [{"name": "app", "resources": sizes(cpu)}]}}).to_string();
            let path = self.path("pods", &name) + "/resize";
            let asked = Instant::now();
            let _made: Value = self.client.patch(&path, PatchKind::Strategic, &patch).await.context("resize a pod")?;
            while fs::read_to_string(&file).context("read the container's quota")? == before {
                ensure!(asked.elapsed() < PATIENCE, "a resize is not seen in {}", file.display());
                sleep(CGROUP_LOOK).await;
            }
            times.push(asked.elapsed());
        }
        self.raw.times("resize", "1", &times);
        self.delete(&pod).await?;
        Ok(())
    }
}

/// Waits for a file to have this content.
async fn content(file: PathBuf, value: String, asked: Instant) -> anyhow::Result<Duration> {
    while fs::read_to_string(&file).unwrap_or_default() != value {
        ensure!(asked.elapsed() < PATIENCE, "a change of a ConfigMap is not seen in {}", file.display());
        sleep(LOOK).await;
    }
    Ok(asked.elapsed())
}

/// The file with the CPU quota of a container: of version 1 or 2 of cgroups.
fn quota_file(node: &str, container: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words.get(2), Some(&"cgroup" | &"cgroup2")).then_some(*words.get(1)?)
    });
    mounts.filter_map(|mount| below(&Path::new(mount).join(node), container)).find_map(|dir| {
        let files = ["cpu.cfs_quota_us", "cpu.max"].map(|name| dir.join(name));
        files.into_iter().find(|file| file.exists())
    })
}

/// The directory of this name below another.
fn below(at: &Path, name: &str) -> Option<PathBuf> {
    let dirs = fs::read_dir(at).ok()?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| entry.path()).find_map(|dir| {
        let found = dir.file_name().is_some_and(|last| last.to_string_lossy().contains(name));
        if found { Some(dir) } else { below(&dir, name) }
    })
}
