//! Pods that attack, on a real runtime: while each is applied, tried and taken away, an ordinary pod runs on, another starts
//! as fast as without it, and no task of the agent holds up the others for 100 ms.
//!
//! The agent is a build without optimisation on a machine that runs containers as well: of three tries the shortest hold-up
//! counts. What our own code needs it needs in every try.

use std::time::Duration;

use rubelet_server::documents::HoldUpDocument;
use serde_json::{Map, Value, json};

use crate::rig::{Node, WAIT, container, exec, pod, pod_of, running_ids, with};

/// No task may hold up the others for longer.
const BOUND_MILLIS: u64 = 100;
const TRIES: usize = 3;
/// How much later than in calm an ordinary pod may be ready: containerd has the attack to work at as well.
const SLACK: Duration = Duration::from_secs(5);
/// How long an attack goes on.
const ATTACK: Duration = Duration::from_secs(4);

/// What it is called and which pods it is.
type Attack = (&'static str, fn() -> Vec<Value>);

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

fn numbered(count: usize, of: impl Fn(usize) -> Value) -> Value {
    (0..count).map(of).collect()
}

fn one(edit: impl FnOnce(&mut Value)) -> Vec<Value> {
    let mut pod = pod("hostile", WAIT);
    edit(&mut pod);
    vec![pod]
}

/// More rows are added here; each is tried by itself.
const ATTACKS: &[Attack] = &[
    ("a manifest just below the limit", || {
        one(|pod| pod["metadata"]["annotations"] = json!({"big": text(10_000_000)}))
    }),
    ("a megabyte of annotations with odd names", || {
        let odd = |n| (format!("odd \u{202e}\n$(X)%s/{n}"), json!(text(256)));
        one(|pod| pod["metadata"]["annotations"] = Value::Object((0..4000).map(odd).collect::<Map<_, _>>()))
    }),
    ("300 volumes, each mounted", || {
        one(|pod| {
            pod["spec"]["volumes"] = numbered(300, |n| json!({"name": format!("v{n}"), "emptyDir": {}}));
            let mount = |n| json!({"name": format!("v{n}"), "mountPath": format!("/v/{n}")});
            pod["spec"]["containers"][0]["volumeMounts"] = numbered(300, mount);
        })
    }),
    ("10,000 ports", || {
        let port = |n| json!({"containerPort": n + 1, "name": format!("p{n}")});
        one(|pod| pod["spec"]["containers"][0]["ports"] = numbered(10_000, port))
    }),
    ("a megabyte of arguments", || {
        one(|pod| pod["spec"]["containers"][0]["args"] = numbered(1000, |_| json!(text(1 << 10))))
    }),
    ("names that are no names", || {
        let name = |name: &str| with(pod("hostile", WAIT), "/spec/containers/0/name", json!(name));
        ["../../etc", "\u{202e}", "a\nb", "$(X)", &text(1 << 20)]
            .map(name)
            .into_iter()
            .zip(0..)
            .map(|(pod, n)| with(pod, "/metadata/name", json!(format!("hostile-{n}"))))
            .collect()
    }),
    ("a probe that prints 16 MiB", || {
        let mut loud = container("app", WAIT);
        loud["readinessProbe"] = exec("yes | head -c 16777216; exit 1");
        loud["readinessProbe"]["periodSeconds"] = json!(1);
        vec![pod_of("hostile", &[loud])]
    }),
    ("crash loops with long last words", || {
        let last = "head -c 10000000 /dev/zero | tr '\\0' x | tee /dev/termination-log; exit 1";
        (0..3).map(|n| pod(&format!("hostile-{n}"), last)).collect()
    }),
];

#[test]
fn no_pod_holds_up_the_agent_or_another_pod() {
    let mut node = Node::started();
    node.apply(&pod("good", WAIT));
    let good = node.running("good");
    // The first start is slower than those that follow.
    starts(&node, "warm-up");
    let calm = starts(&node, "calm");
    let mut broken = Vec::new();
    for (n, (name, pods)) in ATTACKS.iter().enumerate() {
        let pods = pods();
        let mut best: Option<(u64, Duration, String)> = None;
        for attempt in 0..TRIES {
            // What was measured begins anew with the agent.
            node.kill();
            node.start();
            node.until("the agent to answer", || node.document());
            pods.iter().for_each(|pod| node.apply(pod));
            let took = starts(&node, &format!("other-{n}-{attempt}"));
            node.let_pass(ATTACK);
            pods.iter().for_each(|pod| node.withdraw(pod["metadata"]["name"].as_str().expect("it has a name")));
            node.until("the attack to be over", || {
                let document = node.document()?;
                document.pods.iter().all(|line| !line.name.contains("hostile")).then_some(())
            });
            let HoldUpDocument { task, millis } =
                node.document().and_then(|document| document.longest_hold_up).expect("something was polled");
            if best.as_ref().is_none_or(|(before, ..)| millis < *before) {
                best = Some((millis, took, task));
            }
            if millis < BOUND_MILLIS {
                break;
            }
        }
        let (millis, took, task) = best.expect("at least one try");
        println!("{name}: longest hold-up {millis} ms by {task}; another pod started in {took:?}, in calm {calm:?}");
        if millis >= BOUND_MILLIS || took > calm + SLACK {
            broken.push(format!("{name}: {millis} ms by {task}, another pod took {took:?}"));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert_eq!(running_ids(&node.running("good")), running_ids(&good), "the other pod goes on");
}

/// From an ordinary pod's manifest to its running container.
fn starts(node: &Node, name: &str) -> Duration {
    let began = node.clock.mono();
    node.apply(&pod(name, WAIT));
    node.running(name);
    let took = node.clock.mono().since(began);
    node.withdraw(name);
    took
}
