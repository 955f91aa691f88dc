//! All that the page for people shows at once. The history of CPU and memory is kept by the page itself, while it is open.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rubelet_core::timeline::Entry;
use rubelet_core::usage::NodeUsage;
use rubelet_engine::sync_loop::NodeView;
use serde::Serialize;

use super::top::{Used, used};
use super::{
    AgentView, Entry as Listed, NodeFigures, NodeStory, PodLine, StatusDocument, WaitingDocument, entries, node_story,
    status_document, story,
};

/// Bars of a pod in the list: the newest are kept.
const BARS: usize = 12;

/// The page's data.
#[derive(Clone, Debug, Serialize)]
pub struct PageDocument {
    /// When it was made.
    pub at: Timestamp,
    /// The agent.
    pub status: StatusDocument,
    /// The node.
    pub node: NodeStory,
    /// What the whole machine uses.
    pub used: Used,
    /// The pods, by namespace and name; invalid manifests come last.
    pub pods: Vec<PagePod>,
}

/// One pod.
#[derive(Clone, Debug, Serialize)]
pub struct PagePod {
    /// The line of the list.
    #[serde(flatten)]
    pub line: PodLine,
    /// What it uses.
    #[serde(flatten)]
    pub used: Used,
    /// What it waits for.
    pub waiting: Option<WaitingDocument>,
    /// Its newest steps.
    pub bars: Vec<Bar>,
}

/// A step as the list draws it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bar {
    /// When it ended, in milliseconds since 1970.
    pub at: i64,
    /// How long it took, in milliseconds.
    pub took: u64,
    /// It was a failure.
    pub bad: bool,
}

/// The page's data.
#[must_use]
pub fn page_document(view: &NodeView, agent: &AgentView, figures: &NodeFigures<'_>) -> PageDocument {
    let usage = figures.usage.ok();
    let cgroups: BTreeMap<&str, Used> = usage.map(cgroups).unwrap_or_default();
    let pod = |(entry, line): (Listed<'_>, PodLine)| {
        let (waiting, bars) = match entry {
            Listed::Pod(pod) => (story::waiting(view, pod, &line), bars(pod.timeline.entries())),
            Listed::Rejected(_) | Listed::Bad(_) => (None, Vec::new()),
        };
        let used = cgroups.get(line.uid.as_str()).copied().unwrap_or_default();
        PagePod { line, used, waiting, bars }
    };
    PageDocument {
        at: view.now.wall,
        status: status_document(view, agent),
        node: node_story(view, figures),
        used: usage.map(super::top::of_node).unwrap_or_default(),
        pods: entries(view).into_iter().map(pod).collect(),
    }
}

/// What each pod uses, by UID.
fn cgroups(usage: &NodeUsage) -> BTreeMap<&str, Used> {
    usage.pods.iter().map(|pod| (pod.pod.uid.as_str(), used(usage, pod.cgroup.as_deref()))).collect()
}

fn bars<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<Bar> {
    let mut bars: Vec<Bar> = entries
        .map(|entry| Bar {
            at: entry.at.as_millisecond(),
            took: entry.took.map_or(0, |took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            bad: entry.bad,
        })
        .collect();
    let surplus = bars.len().saturating_sub(BARS);
    bars.drain(..surplus);
    bars
}
