//! What the runtime says of the node's pods, asked directly.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use rubelet_core::id::{ContainerId, PodRef};
use rubelet_core::observe::{ContainerObservation, ContainerState, PodObservation, PodSummary};
use rubelet_core::time::Instant;
use rubelet_engine::ports::{Containers, ExecOutput, RpcError, RuntimeView, Sandboxes};

use super::{Node, PATIENCE, containerd, containerd_socket};

impl Node {
    /// The name under which the pod of this manifest runs here (SRC-05).
    pub(crate) fn full_name(&self, name: &str) -> String {
        format!("{name}-{}", self.name)
    }

    /// Every pod that the runtime knows. It fails while the runtime is away.
    pub(crate) fn try_list(&self) -> Result<Vec<PodSummary>, RpcError> {
        self.block_on(self.cri.list())
    }

    /// Every pod that the runtime knows.
    pub(crate) fn list(&self) -> Vec<PodSummary> {
        self.try_list().expect("the runtime lists its pods")
    }

    /// A full look at one pod.
    pub(crate) fn inspect(&self, pod: &PodRef) -> PodObservation {
        self.block_on(self.cri.inspect(&pod.uid, Instant::START)).expect("the runtime shows a pod")
    }

    /// Every pod that was made from a manifest of this name: more than one while an older one is being ended.
    pub(crate) fn all_named(&self, name: &str) -> Vec<PodObservation> {
        let full = self.full_name(name);
        self.list().iter().filter(|pod| *pod.pod.name == *full).map(|pod| self.inspect(&pod.pod)).collect()
    }

    /// The one pod of this name.
    pub(crate) fn one(&self, name: &str) -> Option<PodObservation> {
        let mut all = self.all_named(name);
        if all.len() == 1 { all.pop() } else { None }
    }

    /// Waits until there is one pod of this name and `wanted` is true of it.
    pub(crate) fn until_pod(&self, name: &str, what: &str, wanted: impl Fn(&PodObservation) -> bool) -> PodObservation {
        self.until(&format!("pod {name} {what}"), || self.one(name).filter(&wanted))
    }

    /// Waits until container `app` of the pod runs.
    pub(crate) fn running(&self, name: &str) -> PodObservation {
        self.until_pod(name, "to run its container app", |pod| {
            pod.ready_sandbox().is_some() && pod.newest("app").is_some_and(|app| app.state.is_running())
        })
    }

    /// Waits until container `app` of the pod has ended, and answers with its last instance.
    pub(crate) fn ended(&self, name: &str) -> ContainerObservation {
        let pod = self.until_pod(name, "to have its container app ended", |pod| {
            pod.newest("app").is_some_and(|app| app.state.exit().is_some())
        });
        app(&pod).clone()
    }

    /// Runs a command in a running container and answers with what it printed. It must succeed.
    pub(crate) fn exec(&self, container: &ContainerObservation, words: &[&str]) -> String {
        let output = self.try_exec(&container.id, words).unwrap_or_else(|err| panic!("{words:?} can be run: {err}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(output.exit_code, 0, "{words:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// The same, whatever comes of it.
    pub(crate) fn try_exec(&self, container: &ContainerId, words: &[&str]) -> Result<ExecOutput, RpcError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        self.block_on(self.cri.exec_sync(container, &words, PATIENCE))
    }

    /// What the pod's log says: the text of each line, without time and stream.
    pub(crate) fn container_log(&self, container: &ContainerObservation) -> String {
        let raw = std::fs::read_to_string(&container.log_path).unwrap_or_default();
        let text = |line: &str| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned();
        raw.lines().map(text).collect::<Vec<_>>().join("\n")
    }

    /// Removes every pod from the runtime, whichever agent made it: only tests use this runtime.
    pub(super) fn empty_the_runtime(&self) {
        let emptied = || -> Result<(), RpcError> {
            for pod in self.try_list()? {
                for sandbox in pod.sandboxes.keys() {
                    self.block_on(self.cri.stop_sandbox(sandbox))?;
                    self.block_on(self.cri.remove_sandbox(sandbox))?;
                }
                for container in pod.containers.keys() {
                    self.block_on(self.cri.remove_container(container))?;
                }
            }
            Ok(())
        };
        // A killed rubelet's last call may still be under way in the runtime; and a test may have killed the runtime.
        let began = self.clock.mono();
        loop {
            match emptied() {
                Ok(()) if self.try_list().is_ok_and(|pods| pods.is_empty()) => {
                    containerd::end_lost_shims(&containerd_socket());
                    return;
                }
                Ok(()) => {}
                Err(err) => eprintln!("emptying the runtime: {err}"),
            }
            if self.clock.mono().since(began) > PATIENCE {
                eprintln!("the runtime could not be emptied");
                return;
            }
            self.let_pass(Duration::from_millis(200));
        }
    }

    /// All that the runtime knows, for a message.
    pub(super) fn describe(&self) -> String {
        let pods = match self.try_list() {
            Ok(pods) => pods,
            Err(err) => return format!("  no answer: {err}"),
        };
        let mut text = String::new();
        for pod in pods {
            let seen = match self.block_on(self.cri.inspect(&pod.pod.uid, Instant::START)) {
                Ok(seen) => seen,
                Err(err) => {
                    let _infallible = writeln!(text, "  {}: {err}", pod.pod);
                    continue;
                }
            };
            let _infallible = writeln!(text, "  {}", pod.pod);
            for sandbox in &seen.sandboxes {
                let _infallible = writeln!(text, "    sandbox {} #{} {:?}", sandbox.id, sandbox.attempt, sandbox.state);
            }
            for c in &seen.containers {
                let count = c.marks.restart_count;
                let _infallible = writeln!(text, "    container {} {} #{count} {:?}", c.name, c.id, c.state);
            }
        }
        text
    }
}

/// The lines of a file on the host; none while there is no file.
pub(crate) fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The newest instance of container `app`.
pub(crate) fn app(pod: &PodObservation) -> &ContainerObservation {
    pod.newest("app").expect("it has a container app")
}

/// With what a container ended.
pub(crate) fn exit_code(container: &ContainerObservation) -> Option<i32> {
    container.state.exit().map(|exit| exit.code)
}

/// Ids of the containers that run, by name.
pub(crate) fn running_ids(pod: &PodObservation) -> Vec<(String, ContainerId)> {
    let mut ids: Vec<_> = pod.running().map(|c| (c.name.clone(), c.id.clone())).collect();
    ids.sort();
    ids
}

/// When a container was started, if it was.
pub(crate) fn started_at(container: &ContainerObservation) -> Option<jiff::Timestamp> {
    match &container.state {
        ContainerState::Running { started_at } => Some(*started_at),
        ContainerState::Exited(exit) => Some(exit.started_at),
        ContainerState::Created | ContainerState::Unknown => None,
    }
}

/// Fetches a page. `None` without an answer.
pub(crate) fn http_get(ip: IpAddr, port: u16, path: &str) -> Option<String> {
    let limit = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(ip, port), limit).ok()?;
    stream.set_read_timeout(Some(limit)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {ip}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
