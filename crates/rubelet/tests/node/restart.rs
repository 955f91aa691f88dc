//! rubelet dies and comes back: what runs goes on, what was half done is finished, nothing is lost or doubled (RST-18).

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rubelet_core::observe::{ContainerState, PodObservation};
use rubelet_linux::socket_holder::COMMAND;
use rubelet_server::documents::PodState;
use serde_json::{Value, json};

use crate::rig::{NONROOT, Node, WAIT, app, container, mounts_below, pod, pod_of, running_ids, with};

/// How often rubelet is killed under churn, if `RUBELET_TEST_KILLS` does not say.
const KILLS: usize = 50;
/// The longest that it lives between two deaths, in milliseconds: most die in the midst of starting or ending pods, some
/// get to the end of it.
const LONGEST_LIVES: [u64; 3] = [500, 700, 1500];
/// Pods that are there from first to last.
const STEADY: usize = 4;
/// Names among which pods come and go.
const CHURNED: usize = 6;

#[test]
fn stopped_and_started_again_rubelet_restarts_no_container() {
    let mut node = Node::started();
    let names: Vec<String> = (0..10).map(|n| format!("steady-{n}")).collect();
    for name in &names {
        node.apply(&pod(name, WAIT));
    }
    let before: Vec<_> = names.iter().map(|name| running_ids(&node.running(name))).collect();
    assert_eq!(node.terminate(), Some(0));
    assert!(node.log().contains("Stopped; the pods go on"));
    let without: Vec<_> = names.iter().map(|name| running_ids(&node.running(name))).collect();
    assert_eq!(without, before, "pods go on without rubelet");

    node.start();
    let ready = |name: &String| node.line(name).is_some_and(|l| l.state == PodState::Running && l.ready == 1);
    node.until("every pod to be ready again", || names.iter().all(ready).then_some(()));
    let after: Vec<_> = names.iter().map(|name| node.running(name)).collect();
    assert_eq!(after.iter().map(running_ids).collect::<Vec<_>>(), before);
    assert!(after.iter().all(|pod| pod.containers.len() == 1 && pod.sandboxes.len() == 1 && restarts(pod) == 0));
}

/// Without that process a kill of rubelet would cut off the calls in flight, which the churn below shows only by chance.
#[test]
fn rubelet_starts_the_holder_of_its_runtime_sockets() {
    let node = Node::started();
    let read = |process: &str, file: &str| fs::read_to_string(format!("{process}/{file}")).unwrap_or_default();
    let parent = format!("PPid:\t{}\n", node.pid());
    let is_holder = |process: &String| {
        read(process, "status").contains(&parent) && read(process, "cmdline").split('\0').any(|word| word == COMMAND)
    };
    node.until("the holder to run", || names_in("/proc".as_ref()).iter().any(is_holder).then_some(()));
}

#[test]
fn what_changed_while_rubelet_was_away_is_seen_to() {
    let mut node = Node::started();
    for name in ["stays", "leaves", "changes", "dies"] {
        node.apply(&pod(name, WAIT));
    }
    let [stays, leaves, changes, dies] = ["stays", "leaves", "changes", "dies"].map(|name| node.running(name));
    node.kill();
    node.withdraw("leaves");
    node.apply(&with(pod("changes", WAIT), "/metadata/labels", json!({"changed": "yes"})));
    node.apply(&pod("comes", WAIT));
    let _ended = node.try_exec(&app(&dies).id, &["kill", "1"]);
    node.until("a container to die", || node.one("dies").filter(|pod| pod.running().count() == 0));
    node.start();

    node.gone(&leaves.pod);
    node.gone(&changes.pod);
    assert_ne!(node.running("changes").pod.uid, changes.pod.uid);
    node.running("comes");
    let again = node.until_pod("dies", "to run again", |pod| pod.running().count() == 1);
    assert_eq!((again.pod.uid, again.containers[0].marks.restart_count), (dies.pod.uid, 1));
    let same = node.running("stays");
    assert_eq!(running_ids(&same), running_ids(&stays));
    assert_eq!(restarts(&same), 0);
}

#[test]
fn killed_fifty_times_under_churn_rubelet_loses_and_doubles_nothing() {
    let mut node = Node::started();
    let seed = std::env::var("RUBELET_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::try_from(node.clock.wall().as_millisecond()).expect("it is after 1970"));
    println!("RUBELET_TEST_SEED={seed}");
    let mut churn = Churn { dice: Dice(seed), wanted: BTreeMap::new(), history: BTreeMap::new() };
    for n in 0..STEADY {
        churn.add_steady(&node, n);
    }
    let steady: BTreeMap<String, PodObservation> = (0..STEADY)
        .map(|n| format!("steady-{n}"))
        .map(|name| {
            let count = churn.wanted[&name].containers;
            let seen = node.until_pod(&name, "to run", |pod| pod.running().count() == count);
            (name, seen)
        })
        .collect();

    for _ in 0..kills() {
        for _ in 0..churn.dice.below(3) {
            churn.step(&node);
        }
        let longest = LONGEST_LIVES[churn.dice.index(LONGEST_LIVES.len())];
        node.let_pass(Duration::from_millis(churn.dice.below(longest)));
        for _ in 0..churn.dice.below(2) {
            churn.step(&node);
        }
        assert!(node.runs(), "it did not end by itself");
        node.kill();
        for _ in 0..churn.dice.below(2) {
            churn.step(&node);
        }
        node.start();
    }

    node.until_or("exactly the wanted pods to be as they should", || churn.settled(&node));
    for (name, before) in &steady {
        let after = node.one(name).expect("it is wanted");
        assert_eq!(running_ids(&after), running_ids(before), "{name} was not touched");
        assert_eq!(restarts(&after), 0, "{name} was not touched");
        assert_eq!(after.sandboxes.len(), 1);
    }
    churn.check_runs(&node);
    println!("{} versions of pods, {} wanted at the end", churn.history.len(), churn.wanted.len());
    for name in churn.wanted.keys() {
        node.withdraw(name);
    }
    node.until_or("nothing to be left", || {
        let mut left: Vec<String> = node.list().iter().map(|pod| pod.pod.to_string()).collect();
        left.extend(names_in(&node.root().join("pods")));
        left.extend(names_in(&node.logs()));
        left.extend(node.all_pod_cgroups());
        left.extend(mounts_below(&node.root().join("pods")));
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    });
}

fn kills() -> usize {
    match std::env::var("RUBELET_TEST_KILLS") {
        Ok(text) => text.parse().unwrap_or_else(|err| panic!("RUBELET_TEST_KILLS={text}: {err}")),
        Err(_) => KILLS,
    }
}

fn names_in(dir: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).collect()
}

fn restarts(pod: &PodObservation) -> u32 {
    pod.containers.iter().map(|c| c.marks.restart_count).sum()
}

/// What becomes of a pod that is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Its containers run for ever.
    Stays,
    /// Its container ends well and is not started again.
    EndsOnce,
    /// Its container ends and is started again, over and over.
    Loops,
}

#[derive(Clone, Debug)]
struct Wanted {
    kind: Kind,
    containers: usize,
    image: &'static str,
    /// Distinguishes this version of the pod from those before it, in what its containers write down.
    serial: u64,
    /// Its container has been exchanged in place: it may have been started more than once.
    exchanged: bool,
}

/// Manifests that come, change and go, and what should be there because of them.
struct Churn {
    dice: Dice,
    wanted: BTreeMap<String, Wanted>,
    /// Every version of every pod, by its serial number.
    history: BTreeMap<u64, Wanted>,
}

impl Churn {
    fn add_steady(&mut self, node: &Node, n: usize) {
        let containers = 1 + n % 2;
        self.put(node, format!("steady-{n}"), Wanted::new(Kind::Stays, containers));
    }

    /// One pod comes, goes, or changes.
    fn step(&mut self, node: &Node) {
        let name = format!("churned-{}", self.dice.below(CHURNED as u64));
        let Some(old) = self.wanted.get(&name).cloned() else {
            let kind = [Kind::Stays, Kind::Stays, Kind::EndsOnce, Kind::Loops][self.dice.index(4)];
            let containers = if kind == Kind::Stays { 1 + self.dice.index(2) } else { 1 };
            return self.put(node, name, Wanted::new(kind, containers));
        };
        match self.dice.below(3) {
            0 => {
                self.wanted.remove(&name);
                node.withdraw(&name);
            }
            // Another pod in its place.
            1 => self.put(node, name, Wanted { exchanged: false, ..old }),
            // The same pod with another image.
            _ => {
                let new = Wanted { image: NONROOT, exchanged: old.image != NONROOT || old.exchanged, ..old };
                self.apply(node, name, new);
            }
        }
    }

    fn put(&mut self, node: &Node, name: String, wanted: Wanted) {
        let serial = self.history.len() as u64 + 1;
        self.apply(node, name, Wanted { serial, ..wanted });
    }

    fn apply(&mut self, node: &Node, name: String, wanted: Wanted) {
        node.apply(&manifest(node, &name, &wanted));
        self.history.insert(wanted.serial, wanted.clone());
        self.wanted.insert(name, wanted);
    }

    /// Whether exactly the wanted pods are there, each as it should be and each container once; if not, why.
    fn settled(&self, node: &Node) -> Result<(), String> {
        let pods = node.try_list().map_err(|err| err.to_string())?;
        if pods.len() != self.wanted.len() {
            return Err(format!("{} pods, {} wanted: {:#?}", pods.len(), self.wanted.len(), self.wanted));
        }
        for (name, wanted) in &self.wanted {
            let Some(pod) = node.one(name) else { return Err(format!("no pod {name}")) };
            if pod.pod.uid.as_str() != uid(wanted.serial) {
                return Err(format!("{name} is {}, wanted {wanted:?}", pod.pod));
            }
            let of_now = |c: &&rubelet_core::observe::ContainerObservation| c.image == wanted.image;
            let running = pod.running().count();
            let good = match wanted.kind {
                Kind::Stays => running == wanted.containers && pod.running().filter(of_now).count() == running,
                Kind::EndsOnce => running == 0 && pod.newest("app").is_some_and(|c| c.state.exit().is_some()),
                Kind::Loops => running <= 1 && pod.newest("app").is_some_and(|c| c.state != ContainerState::Created),
            };
            if !good {
                return Err(format!("{name}: {wanted:?}\n{pod:#?}"));
            }
        }
        Ok(())
    }

    /// A container writes a line whenever it runs. One that is to run once wrote at most one, in every version that ever
    /// was, and just one if it is wanted still; another image is one run more.
    fn check_runs(&self, node: &Node) {
        let still: Vec<u64> = self.wanted.values().map(|wanted| wanted.serial).collect();
        for (serial, version) in self.history.iter().filter(|(_, version)| version.kind != Kind::Loops) {
            let written = fs::read_to_string(node.host_dir("runs").join(serial.to_string())).unwrap_or_default();
            let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
            written.lines().for_each(|container| *runs.entry(container).or_default() += 1);
            let most = if version.exchanged { 2 } else { 1 };
            assert!(runs.values().all(|count| *count <= most), "doubled: {runs:?} of {version:?}");
            assert!(!still.contains(serial) || runs.len() == version.containers, "lost: {runs:?} of {version:?}");
        }
    }
}

impl Wanted {
    fn new(kind: Kind, containers: usize) -> Self {
        Self { kind, containers, image: crate::rig::BUSYBOX, serial: 0, exchanged: false }
    }
}

/// Every version of a pod has a UID of its own, which also lets a change of image be a change in place.
fn uid(serial: u64) -> String {
    format!("00000000-0000-4000-8000-{serial:012}")
}

fn manifest(node: &Node, name: &str, wanted: &Wanted) -> Value {
    let rest = match wanted.kind {
        Kind::Stays => WAIT,
        Kind::EndsOnce | Kind::Loops => "sleep 0.2",
    };
    let containers: Vec<Value> = ["app", "other"][..wanted.containers]
        .iter()
        .map(|container_name| {
            let script = format!("echo {container_name} >>/runs/{}; {rest}", wanted.serial);
            let it = with(container(container_name, &script), "/image", json!(wanted.image));
            let it = with(it, "/securityContext", json!({"runAsUser": 0}));
            with(it, "/volumeMounts", json!([{"name": "runs", "mountPath": "/runs"}]))
        })
        .collect();
    let policy = if wanted.kind == Kind::EndsOnce { "Never" } else { "Always" };
    let pod = with(pod_of(name, &containers), "/metadata/uid", json!(uid(wanted.serial)));
    let pod = with(pod, "/spec/volumes", json!([{"name": "runs", "hostPath": {"path": node.host_dir("runs")}}]));
    with(with(pod, "/spec/restartPolicy", json!(policy)), "/spec/terminationGracePeriodSeconds", json!(2))
}

/// Randomness that can be repeated: splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("it is below an index")
    }
}
