//! What rubelet costs on a real runtime: `make bench-node`, which starts a containerd for it.
//!
//! First pods are started one after another, and each start is split into what the runtime took and what rubelet took.
//! Then the node is left alone with 50 pods and watched. `docs/performance.md` explains the arithmetic.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark speaks to people")]
#![expect(clippy::disallowed_methods, reason = "what is measured is real time, on a node of its own")]

mod proc;
mod story;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proc::usage;
use story::{Parts, parts, story};

/// Starts that warm up the runtime's and the kernel's caches, and are not counted.
const WARM_UP: usize = 3;
/// Starts that are counted.
const STARTS: u16 = 30;
/// Pods on the idle node.
const IDLE_PODS: usize = 50;
/// What is still to settle after the last start is over by then.
const SETTLE: Duration = Duration::from_secs(12);
/// How long the idle node is watched, unless `RUBELET_BENCH_IDLE_SECONDS` says otherwise.
const IDLE: Duration = Duration::from_secs(60);
/// How long a pod may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the log is read while a pod is waited for.
const POLL: Duration = Duration::from_millis(20);

/// The directories and sockets of the benchmark. The script that starts it makes and removes them.
struct Place {
    directory: PathBuf,
    socket: String,
    cgroup: String,
}

fn main() -> ExitCode {
    let Some(place) = place() else {
        eprintln!("RUBELET_BENCH_DIR, RUBELET_BENCH_SOCKET and RUBELET_BENCH_CGROUP are not set: use make bench-node");
        return ExitCode::SUCCESS;
    };
    let mut node = Node::start(place);
    let starts: Vec<Start> = (0..WARM_UP + usize::from(STARTS)).map(|n| node.start_pod(n)).collect();
    for n in starts.len()..IDLE_PODS {
        node.start_pod(n);
    }
    let counted = starts.get(WARM_UP..).unwrap_or_default();
    println!("| figure | p50 | p90 | bar |\n|---|---|---|---|");
    starts_table(counted);
    sleep(SETTLE);
    node.idle_table();
    ExitCode::SUCCESS
}

fn place() -> Option<Place> {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Some(Place {
        directory: var("RUBELET_BENCH_DIR")?.into(),
        socket: var("RUBELET_BENCH_SOCKET")?,
        cgroup: var("RUBELET_BENCH_CGROUP")?,
    })
}

struct Start {
    parts: Parts,
    /// How long each call took, by name.
    calls: BTreeMap<String, Vec<f64>>,
    cpu: Duration,
}

fn starts_table(starts: &[Start]) {
    let row = |what: &str, bar: &str, of: &dyn Fn(&Start) -> f64| {
        let (half, most) = percentiles(starts.iter().map(of).collect());
        println!("| {what} | {half:.1} ms | {most:.1} ms | {bar} |");
    };
    row("manifest written → container running", "", &|s| s.parts.all);
    row("… in calls to the runtime", "", &|s| s.parts.in_calls);
    row("… **rubelet's own share**", "30 ms", &|s| s.parts.own());
    row("…… written → first call", "", &|s| s.parts.to_first_call);
    row("…… between calls", "", &|s| s.parts.between_calls);
    for name in names(starts, |s| &s.parts.gaps) {
        row(&format!("……… before `{name}`"), "", &|s| s.parts.gaps.get(&name).copied().unwrap_or_default());
    }
    row("…… last call → status", "", &|s| s.parts.to_status);
    // The kernel counts in ticks of 10 ms: only the mean says something.
    let cpu: Duration = starts.iter().map(|start| start.cpu).sum();
    println!("| rubelet's CPU per start, mean | {:.1} ms | | |", cpu.as_secs_f64() * 1000.0 / f64::from(STARTS));
    for name in names(starts, |s| &s.calls) {
        let calls = |s: &Start| s.calls.get(&name).cloned().unwrap_or_default();
        let most = starts.iter().map(|s| calls(s).len()).max().unwrap_or_default();
        row(&format!("{most} × `{name}`, together"), "", &|s| calls(s).iter().sum());
    }
}

fn names<T>(starts: &[Start], of: impl Fn(&Start) -> &BTreeMap<String, T>) -> BTreeSet<String> {
    starts.iter().flat_map(|start| of(start).keys().cloned()).collect()
}

/// The value that half of them do not exceed, and the one that nine of ten do not.
fn percentiles(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |part: usize| values.get(values.len() * part / 100).copied().unwrap_or_default();
    (at(50), at(90))
}

/// A running rubelet.
struct Node {
    place: Place,
    rubelet: Child,
}

impl Node {
    fn start(place: Place) -> Self {
        let at = |name: &str| place.directory.join(name);
        for directory in ["manifests", "kubelet", "logs"] {
            fs::create_dir_all(at(directory)).expect("the directory is ours");
        }
        let config = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: {}\n\
             containerRuntimeEndpoint: unix://{}\npodLogsDir: {}\ncgroupRoot: /{}\ncgroupDriver: cgroupfs\n\
             failCgroupV1: false\nfailSwapOn: false\nenableServer: false\nhealthzPort: 0\n",
            at("manifests").display(),
            place.socket,
            at("logs").display(),
            place.cgroup,
        );
        fs::write(at("config.yaml"), config).expect("the directory is ours");
        let program = std::env::var_os("RUBELET").unwrap_or_else(|| env!("CARGO_BIN_EXE_rubelet").into());
        let rubelet = Command::new(program)
            .arg("--config")
            .arg(at("config.yaml"))
            .arg("--root-dir")
            .arg(at("kubelet"))
            // Times of calls and changes of status, and nothing else beyond what is always logged.
            .args(["--hostname-override=bench", "--vmodule=metrics=6,workers=4"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(at("rubelet.log")).expect("the directory is ours"))
            .spawn()
            .expect("rubelet can be started");
        // For the one who started this: should this process be killed, rubelet is to be ended all the same.
        fs::write(at("rubelet.pid"), rubelet.id().to_string()).expect("the directory is ours");
        let mut node = Self { place, rubelet };
        node.until("rubelet to have read its manifests", |log| log.contains("A source has been read"));
        node
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.directory.join("rubelet.log")).unwrap_or_default()
    }

    fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(&self.log()) {
            let ended = self.rubelet.try_wait().expect("it is our child");
            let log = || self.log().lines().rev().take(20).collect::<Vec<_>>().join("\n");
            assert!(ended.is_none(), "rubelet ended: {ended:?}\n{}", log());
            assert!(
                Instant::now() < deadline,
                "waited in vain for {what}; the end of the log, newest first:\n{}",
                log()
            );
            sleep(POLL);
        }
    }

    /// Starts one pod and waits until it runs and the log has all of its start.
    fn start_pod(&mut self, n: usize) -> Start {
        let name = format!("bench-{n:03}");
        let before = usage(self.rubelet.id()).cpu;
        let written = self.write_manifest(&name);
        // rubelet gives the pods of files the node's name.
        let pod = format!("{name}-bench");
        self.until(&format!("{pod} to run"), |log| story(log, &pod).running.is_some());
        sleep(Duration::from_millis(200));
        let story = story(&self.log(), &pod);
        let parts = parts(&story, written).expect("a pod that runs was made by calls");
        let mut calls: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (name, begin, end) in story.calls {
            calls.entry(name).or_default().push(end - begin);
        }
        Start { parts, calls, cpu: usage(self.rubelet.id()).cpu - before }
    }

    /// Moves a manifest into place, and answers with the time just before.
    fn write_manifest(&self, name: &str) -> f64 {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
             containers:\n  - name: app\n    image: rubelet.test/busybox:1\n    command: [sleep, infinity]\n    \
             volumeMounts:\n    - {{name: scratch, mountPath: /scratch}}\n  volumes:\n  - name: scratch\n    \
             emptyDir: {{}}\n"
        );
        let draft = self.place.directory.join("draft.yaml");
        fs::write(&draft, text).expect("the directory is ours");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1000.0;
        fs::rename(&draft, self.manifest(name)).expect("the directory is ours");
        now
    }

    fn manifest(&self, name: &str) -> PathBuf {
        Path::new(&self.place.directory).join("manifests").join(format!("{name}.yaml"))
    }

    /// Watches the node while nothing happens.
    fn idle_table(&self) {
        let seconds = std::env::var("RUBELET_BENCH_IDLE_SECONDS").ok().and_then(|text| text.parse().ok());
        let time = seconds.map_or(IDLE, Duration::from_secs);
        let (pid, began) = (self.rubelet.id(), Instant::now());
        let before = usage(pid);
        sleep(time);
        let (after, watched) = (usage(pid), began.elapsed().as_secs_f64());
        let cpu = 100.0 * (after.cpu - before.cpu).as_secs_f64() / watched;
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
        let (wake_ups, mib) = (after.sleeps_since(&before) as f64 / watched, |kib: u64| kib as f64 / 1024.0);
        println!("\n| idle with {IDLE_PODS} pods, over {watched:.0} s | value | bar |\n|---|---|---|");
        println!("| CPU | {cpu:.2} % of a core | 0.3 % |");
        println!("| RSS | {:.1} MiB | 20 MiB |", mib(after.rss_kib));
        println!("| … of it backed by no file (heap, stacks) | {:.1} MiB | |", mib(after.anonymous_kib));
        println!("| PSS | {:.1} MiB | |", mib(after.pss_kib));
        println!("| wake-ups | {wake_ups:.1} per second | |");
        println!("| threads | {} | |", after.threads());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The pods go with their containerd.
        let _ended = self.rubelet.kill();
        let _waited = self.rubelet.wait();
    }
}
