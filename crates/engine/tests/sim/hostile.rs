//! Pods that attack: each is as large or as odd as a manifest or the API lets it be. While it starts, runs, crashes and
//! ends, an ordinary pod starts as fast as without it, and no task holds up the others for 100 ms.
//!
//! The hold-up is measured in processor time, so that a busy machine does not count. It still has cold caches, and the
//! kernel counts in steps of some milliseconds: of three rounds the shortest counts. What our own code needs it needs in
//! every round.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, ConfigMapKeySelector, Container, ContainerPort, EnvFromSource, EnvVar, EnvVarSource,
    ExecAction, Pod, Probe, VolumeMount,
};
use rubelet_engine::ports::ExecOutput;
use rubelet_engine::task::{Polls, TaskPolls};
use rubelet_testkit::{Behaviour, PodBuilder, pod};

use crate::sim::Sim;

/// No task may hold up the others for longer.
const BOUND: Duration = Duration::from_millis(100);
const ROUNDS: usize = 3;

/// What an attack is, and what its containers do.
struct Attack {
    name: &'static str,
    pods: fn() -> Vec<PodBuilder>,
    prepare: fn(&Sim),
}

fn nothing(_: &Sim) {}

fn one(edit: impl FnOnce(PodBuilder) -> PodBuilder) -> Vec<PodBuilder> {
    vec![edit(pod("hostile"))]
}

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

fn variable(name: String, value: String) -> EnvVar {
    EnvVar { name, value: Some(value), value_from: None }
}

/// More rows are added here; each is tried by itself.
const ATTACKS: &[Attack] = &[
    Attack {
        name: "500 containers",
        prepare: nothing,
        pods: || one(|pod| (0..500).fold(pod, |pod, n| pod.container(&format!("c{n}")))),
    },
    Attack {
        name: "2000 volumes, each mounted",
        prepare: nothing,
        pods: || {
            one(|pod| (0..2000).fold(pod.container("app"), |pod, n| pod.empty_dir(&format!("v{n}"), &format!("/v{n}"))))
        },
    },
    Attack {
        name: "one volume mounted 5000 times",
        prepare: nothing,
        pods: || {
            one(|pod| {
                pod.empty_dir("data", "/data").edit_container(|c| {
                    let mount = |n| VolumeMount {
                        name: "data".into(),
                        mount_path: format!("/m/{n}"),
                        ..VolumeMount::default()
                    };
                    c.volume_mounts.get_or_insert_default().extend((0..5000).map(mount));
                })
            })
        },
    },
    Attack {
        name: "10,000 ports",
        prepare: nothing,
        pods: || {
            one(|pod| {
                let port = |n| ContainerPort {
                    container_port: n,
                    host_port: Some(n),
                    name: Some(format!("p{n}")),
                    ..ContainerPort::default()
                };
                pod.container("app").edit_container(|c| c.ports = Some((1..=10_000).map(port).collect()))
            })
        },
    },
    Attack {
        name: "10,000 references to config maps",
        prepare: nothing,
        pods: || {
            one(|pod| {
                let select = |n| ConfigMapKeySelector { name: format!("m{n}"), key: "k".into(), optional: Some(true) };
                let of = |n| EnvVarSource { config_map_key_ref: Some(select(n)), ..EnvVarSource::default() };
                let var = |n| EnvVar { name: format!("V{n}"), value: None, value_from: Some(of(n)) };
                let from = |n| ConfigMapEnvSource { name: format!("e{n}"), optional: Some(true) };
                let from = |n| EnvFromSource { config_map_ref: Some(from(n)), ..EnvFromSource::default() };
                pod.container("app").edit_container(|c: &mut Container| {
                    c.env = Some((0..5000).map(var).collect());
                    c.env_from = Some((0..5000).map(from).collect());
                })
            })
        },
    },
    Attack {
        name: "references in values, three and four levels deep",
        prepare: nothing,
        pods: || {
            let ladder = |levels: usize| {
                let first = pod(&format!("hostile-{levels}")).container("app").env("V0", &text(1 << 10));
                (1..=levels).fold(first, |pod, n| pod.env(&format!("V{n}"), &format!("$(V{})", n - 1).repeat(100)))
            };
            vec![ladder(3), ladder(4)]
        },
    },
    Attack {
        name: "17,000 variables that refer to each other",
        prepare: nothing,
        pods: || {
            let var = |n: usize| variable(format!("V{n}"), format!("$(V{})$(NOBODY)", n % 2));
            one(|pod| pod.container("app").edit_container(|c| c.env = Some((0..17_000).map(var).collect())))
        },
    },
    Attack {
        name: "as much of everything as one pod may have",
        prepare: nothing,
        pods: || {
            one(|pod| {
                let pod = (0..255).fold(pod, |pod, n| pod.container(&format!("c{n}"))).container("app");
                let pod = (0..512).fold(pod, |pod, n| pod.empty_dir(&format!("v{n}"), &format!("/v{n}")));
                let port = |n| ContainerPort { container_port: n, host_port: Some(n), ..ContainerPort::default() };
                let from = |n| ConfigMapEnvSource { name: format!("e{n}"), optional: Some(true) };
                let from = |n| EnvFromSource { config_map_ref: Some(from(n)), ..EnvFromSource::default() };
                let mount =
                    |n| VolumeMount { name: "v0".into(), mount_path: format!("/v0/{n}"), ..VolumeMount::default() };
                pod.edit_container(|c| {
                    c.ports = Some((1..=4096).map(port).collect());
                    c.env_from = Some((0..500).map(from).collect());
                    c.volume_mounts.get_or_insert_default().extend((0..2048 - 512).map(mount));
                })
            })
        },
    },
    Attack {
        name: "a megabyte of arguments",
        prepare: nothing,
        pods: || one(|pod| pod.container("app").edit_container(|c| c.args = Some(vec![text(1 << 10); 1000]))),
    },
    Attack {
        name: "a megabyte in one value, not referred to",
        prepare: nothing,
        pods: || {
            one(|pod| {
                pod.container("app").edit_container(|c| c.env = Some(vec![variable("BIG".into(), text(1 << 20))]))
            })
        },
    },
    Attack {
        name: "a megabyte of labels and annotations",
        prepare: nothing,
        pods: || {
            let odd = |pod: PodBuilder, n: usize| pod.annotation(&format!("odd \u{202e}\n{{}}$(X)%s/{n}"), &text(256));
            one(|pod| (0..4000).fold(pod, odd))
        },
    },
    Attack {
        name: "a hundred pods that crash with long last words",
        prepare: crash,
        pods: || (0..100).map(|n| pod(&format!("hostile-{n}")).container("crash")).collect(),
    },
    Attack {
        name: "probes that print 16 MiB",
        prepare: shout,
        pods: || {
            let probe = |p: &mut Probe| p.exec = Some(ExecAction { command: Some(vec!["yes".to_owned()]) });
            let loud = |c: PodBuilder| c.container("loud").probe(|c| &mut c.readiness_probe, 1, probe);
            (0..10).map(|n| loud(pod(&format!("hostile-{n}")))).collect()
        },
    },
];

fn crash(sim: &Sim) {
    sim.runtime.script("crash", [Behaviour::exits_after(Duration::from_millis(100), 1)]);
    for n in 0..100 {
        let uid = format!("hostile-{n}-uid").as_str().into();
        for attempt in 0..10 {
            let path = format!("/var/lib/kubelet/pods/hostile-{n}-uid/containers/crash/{attempt}");
            sim.dirs.write(&uid, path, text(1 << 20).as_bytes());
        }
    }
}

fn shout(sim: &Sim) {
    let pages = ExecOutput { exit_code: 1, stdout: vec![b'x'; 16 << 20], stderr: vec![b'\xff'; 1 << 20] };
    sim.runtime.script_exec("loud", Duration::from_millis(10), pages);
}

/// What came of an attack.
#[derive(Debug)]
struct Outcome {
    /// How long an ordinary pod took to be ready, in the simulation's time.
    ready_after: Duration,
    longest: TaskPolls,
}

thread_local! {
    static SCHEDSTAT: File = File::open("/proc/thread-self/schedstat").expect("the kernel counts processor time");
}

/// For how long this thread has been on a processor. It does not go on while the machine runs something else.
fn on_cpu() -> u64 {
    let mut text = [0; 64];
    let length = SCHEDSTAT.with(|file| file.read_at(&mut text, 0)).expect("it can be read");
    let text = text.get(..length).and_then(|text| std::str::from_utf8(text).ok()).expect("it is text");
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("the first number")
}

async fn lived(pods: &[Arc<Pod>], prepare: fn(&Sim)) -> Outcome {
    Polls::here().measure_by(on_cpu);
    let (sim, api) = Sim::in_cluster(130).await;
    prepare(&sim);
    for pod in pods {
        api.put(pod);
    }
    sim.pass(1).await;
    let asked = sim.clock.elapsed();
    api.put(&pod("good").build());
    sim.until_ready(&["good"], 60).await;
    let ready_after = sim.clock.elapsed() - asked;
    sim.pass(30).await;
    for pod in pods {
        api.delete(pod.metadata.name.as_deref().unwrap_or_default(), 1);
    }
    sim.until(120, "the attack to be over", async |_| api.names() == ["good"]).await;
    sim.check_laws();
    Outcome { ready_after, longest: Polls::here().longest().expect("something was polled") }
}

/// Lives through one attack, on a thread of its own: what was measured is that of the thread.
fn live_through(pods: &[Arc<Pod>], prepare: fn(&Sim)) -> Outcome {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            tokio.expect("tokio starts").block_on(lived(pods, prepare))
        });
        thread.join().expect("the attack was lived through")
    })
}

#[test]
fn no_pod_holds_up_the_others() {
    let calm = live_through(&[], nothing);
    let mut broken = BTreeMap::new();
    for attack in ATTACKS {
        let pods: Vec<_> = (attack.pods)().into_iter().map(PodBuilder::build).collect();
        let mut best: Option<Outcome> = None;
        for _ in 0..ROUNDS {
            let outcome = live_through(&pods, attack.prepare);
            let held = outcome.longest.longest;
            if best.as_ref().is_none_or(|best| held < best.longest.longest) {
                best = Some(outcome);
            }
            if held < BOUND {
                break;
            }
        }
        let best = best.expect("at least one round");
        let TaskPolls { task, longest, .. } = best.longest;
        println!(
            "{}: longest hold-up {longest:?} by {task}; the other pod ready after {:?}",
            attack.name, best.ready_after
        );
        if longest >= BOUND || best.ready_after > calm.ready_after + Duration::from_secs(2) {
            broken.insert(attack.name, best);
        }
    }
    assert!(broken.is_empty(), "without attack {calm:?}; under attack {broken:#?}");
}
