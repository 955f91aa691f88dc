//! `/metrics/resource`: CPU and memory of the node, its pods and containers. metrics-server reads this page.
//! upstream: kubelet/metrics/collectors/resource_metrics.go (v1.36)

use std::time::Duration;

use super::prometheus::{Kind, Samples, family, label, stamp};
use super::{CgroupKind, CgroupSample, NodeUsage, shown_pods};

/// A container, or a pod.
struct Row<'a> {
    labels: String,
    cgroup: Option<&'a CgroupSample>,
    started: Option<Duration>,
}

/// The page.
pub fn resource_page(usage: &NodeUsage) -> String {
    let cgroup = |path: &Option<String>| path.as_ref().and_then(|path| usage.sample.cgroups.get(path));
    let (mut containers, mut pods) = (Vec::new(), Vec::new());
    for pod in shown_pods(usage) {
        let mut labels = String::new();
        label(&mut labels, "namespace", &pod.pod.namespace);
        label(&mut labels, "pod", &pod.pod.name);
        for same in pod.containers.chunk_by(|a, b| a.name == b.name) {
            let Some(container) = same.iter().max_by_key(|container| container.started_at) else { continue };
            let mut own = String::new();
            label(&mut own, "container", &container.name);
            let started = u64::try_from(container.started_at.as_nanosecond()).ok().map(Duration::from_nanos);
            containers.push(Row {
                labels: format!("{own},{labels}"),
                cgroup: cgroup(&container.cgroup),
                started: started.filter(|since| since.as_secs() > 0),
            });
        }
        pods.push(Row { labels, cgroup: cgroup(&pod.cgroup), started: None });
    }
    let node = [Row { labels: String::new(), cgroup: usage.sample.find(&CgroupKind::Root), started: None }];

    let mut out = String::with_capacity(1024 + 640 * containers.len() + 320 * pods.len());
    let stamp = stamp(usage.sample.at.wall);
    let mut write = |(name, kind, help), stamp: &str, rows: &[Row<'_>], one: fn(&mut Samples<'_>, &Row<'_>)| {
        family(&mut out, (name, kind, help), stamp, |samples| rows.iter().for_each(|row| one(samples, row)));
    };
    write(("container_cpu_usage_seconds_total", Kind::Counter, CPU), &stamp, &containers, cpu);
    write(("container_memory_working_set_bytes", Kind::Gauge, MEMORY), &stamp, &containers, memory);
    let start = "[STABLE] When the container was started, in seconds since 1970.";
    write(("container_start_time_seconds", Kind::Gauge, start), "", &containers, |samples, row| {
        if let Some(started) = row.started {
            samples.add(&row.labels, &[], started);
        }
    });
    let limit = "[ALPHA] Swap that may be used, in bytes.";
    write(("container_swap_limit_bytes", Kind::Gauge, limit), &stamp, &containers, |samples, row| {
        let limit = row.cgroup.filter(|cgroup| cgroup.usage.memory.is_some()).and_then(|cgroup| cgroup.limits.swap);
        if let Some(limit) = limit {
            samples.add(&row.labels, &[], limit);
        }
    });
    write(("container_swap_usage_bytes", Kind::Gauge, SWAP), &stamp, &containers, swap);
    write(("node_cpu_usage_seconds_total", Kind::Counter, CPU), &stamp, &node, cpu);
    write(("node_memory_working_set_bytes", Kind::Gauge, MEMORY), &stamp, &node, memory);
    write(("node_swap_usage_bytes", Kind::Gauge, SWAP), &stamp, &node, swap);
    write(("pod_cpu_usage_seconds_total", Kind::Counter, CPU), &stamp, &pods, cpu);
    write(("pod_memory_working_set_bytes", Kind::Gauge, MEMORY), &stamp, &pods, memory);
    write(("pod_swap_usage_bytes", Kind::Gauge, SWAP), &stamp, &pods, swap);
    outcome(&mut out, 0);
    out
}

/// The page if nothing could be measured.
pub fn resource_failure() -> String {
    let mut out = String::new();
    outcome(&mut out, 1);
    out
}

const CPU: &str = "[STABLE] CPU time in seconds.";
const MEMORY: &str = "[STABLE] Memory that cannot be reclaimed at once, in bytes.";
const SWAP: &str = "[ALPHA] Swap in use, in bytes.";

fn cpu(samples: &mut Samples<'_>, row: &Row<'_>) {
    if let Some(cpu) = row.cgroup.and_then(|cgroup| cgroup.usage.cpu.as_ref()) {
        samples.add(&row.labels, &[], cpu.total);
    }
}

fn memory(samples: &mut Samples<'_>, row: &Row<'_>) {
    if let Some(memory) = row.cgroup.and_then(|cgroup| cgroup.usage.memory.as_ref()) {
        samples.add(&row.labels, &[], memory.working_set());
    }
}

/// Where the kernel counts memory and no swap, no swap is in use, as upstream shows it.
fn swap(samples: &mut Samples<'_>, row: &Row<'_>) {
    if let Some(cgroup) = row.cgroup.filter(|cgroup| cgroup.usage.memory.is_some()) {
        samples.add(&row.labels, &[], cgroup.usage.swap_bytes.unwrap_or_default());
    }
}

fn outcome(out: &mut String, failed: u64) {
    let help = "[STABLE] 1 if nothing could be measured, else 0.";
    family(out, ("resource_scrape_error", Kind::Gauge, help), "", |samples| samples.add("", &[], failed));
}

#[cfg(test)]
mod tests;
