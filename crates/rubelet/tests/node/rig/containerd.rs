//! The runtime under test as a process, for tests that kill it.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rubelet_engine::ports::RuntimeInfo;
use rustix::process::{Pid, Signal, kill_process};

use super::{Node, containerd_socket};

/// The containerd under test. However the test ends, it runs again afterwards.
pub(crate) struct Containerd {
    dir: PathBuf,
    program: PathBuf,
    environment: Vec<(String, String)>,
}

impl Containerd {
    /// The one under test, which must run.
    pub(crate) fn under_test() -> Self {
        let dir = containerd_socket().parent().expect("a socket is in a directory").to_owned();
        let process = Path::new("/proc").join(pid_in(&dir).expect("it runs").to_string());
        let program = fs::read_link(process.join("exe")).expect("it runs");
        let environment = fs::read(process.join("environ")).expect("it runs");
        let pairs = environment.split(|byte| *byte == 0).filter_map(|pair| str::from_utf8(pair).ok()?.split_once('='));
        let environment = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { dir, program, environment }
    }

    /// Kills it, as a crash would. Its containers live on under their shims.
    pub(crate) fn kill(&self, node: &Node) {
        let pid = pid_in(&self.dir).expect("it runs");
        kill_process(Pid::from_raw(pid).expect("a PID is not zero"), Signal::KILL).expect("we are root");
        node.until("containerd to be gone", || pid_in(&self.dir).is_none().then_some(()));
    }

    /// Starts it again and waits until it is ready.
    pub(crate) fn start(&self, node: &Node) {
        self.launch();
        node.until("containerd to be ready", || {
            let status = node.block_on(node.cri.status()).ok()?;
            (status.runtime.ready && status.network.ready).then_some(())
        });
    }

    /// Imports the images of the test environment again, those that are there included.
    pub(crate) fn import_images(&self) {
        let cache = self.program.ancestors().nth(4).expect("it is in the cache of the environment");
        for image in fs::read_dir(cache.join("images")).expect("the environment made them").flatten() {
            if image.path().extension().is_some_and(|end| end == "tar") {
                let mut import = Command::new(self.program.with_file_name("ctr"));
                import.arg("-a").arg(self.dir.join("containerd.sock")).args(["-n", "k8s.io", "images", "import"]);
                let output = import.arg(image.path()).output().expect("ctr is beside containerd");
                assert!(
                    output.status.success(),
                    "{}: {}",
                    image.path().display(),
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
    }

    /// As the test environment did, in a session of its own: it outlives the test.
    fn launch(&self) {
        let log = self.dir.join("containerd.log");
        let log = File::options().append(true).open(log).expect("it had a log");
        let mut command = Command::new("setsid");
        command.arg(&self.program).arg("--config").arg(self.dir.join("config.toml")).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor is free")).stderr(log);
        #[expect(clippy::zombie_processes, reason = "it outlives the test, and is then its new parent's to wait for")]
        let child = command.spawn().expect("containerd can be started");
        fs::write(self.dir.join("containerd.pid"), format!("{}\n", child.id())).expect("the directory is ours");
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        if pid_in(&self.dir).is_none() {
            self.launch();
        }
    }
}

/// Ends shims of the runtime under test that have no pod: containerd 2.1 loses one now and then when the call that started
/// it is cut off. To be called when the runtime has no pods.
pub(super) fn end_lost_shims(socket: &Path) {
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        let is_shim = words.first().is_some_and(|program| program.ends_with(b"/containerd-shim-runc-v2"));
        let is_ours = words.windows(2).any(|pair| pair == [b"-address".as_slice(), socket.as_os_str().as_bytes()]);
        let pid = process.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        if let Some(pid) = pid.filter(|_| is_shim && is_ours) {
            // It removes its socket and leaves.
            let _gone = kill_process(pid, Signal::TERM);
        }
    }
}

/// The PID that was written down, if the process that has it now is containerd with this directory's configuration.
fn pid_in(dir: &Path) -> Option<i32> {
    let pid: i32 = fs::read_to_string(dir.join("containerd.pid")).ok()?.trim().parse().ok()?;
    let config = dir.join("config.toml");
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = words.split(|byte| *byte == 0);
    words.any(|word| word == config.as_os_str().as_bytes()).then_some(pid)
}
