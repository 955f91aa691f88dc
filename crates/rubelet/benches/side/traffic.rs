//! What the agent asks of the API server: requests by the server's audit log, bytes by the kernel's count per socket.
//!
//! Only while it is not paused: what happens to idle pods, or while the agent is killed, is no part of a pod's life here.
//! The bytes are those of TCP, TLS included, both ways. A connection that ends takes its count along, so sockets are looked
//! at twice a second, and of one that ended the last look counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::place::Place;

const LOOK: Duration = Duration::from_millis(500);
/// The node's own heartbeat is no part of a pod's life.
const NOT_OF_PODS: [&str; 2] = ["nodes", "leases"];

pub(crate) struct Traffic {
    audit: PathBuf,
    api_port: String,
    user: String,
    /// Parts of the audit log that count.
    parts: Vec<(u64, u64)>,
    began: u64,
    bytes: u64,
    looking: Option<Looking>,
}

struct Looking {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sockets>,
}

/// Bytes of each socket: when first seen, and when last seen.
type Sockets = BTreeMap<String, (u64, u64)>;

impl Traffic {
    pub(crate) fn start(place: &Place, pid: u32) -> anyhow::Result<Self> {
        let mut traffic = Self {
            audit: place.at("audit.log"),
            api_port: place.api_port().to_owned(),
            user: format!("system:node:{}", place.node()),
            parts: Vec::new(),
            began: 0,
            bytes: 0,
            looking: None,
        };
        traffic.resume(pid)?;
        Ok(traffic)
    }

    pub(crate) fn resume(&mut self, pid: u32) -> anyhow::Result<()> {
        self.began = self.audit_size()?;
        let (stop, port) = (Arc::new(AtomicBool::new(false)), self.api_port.clone());
        let mut sockets: Sockets = look(&port, pid).into_iter().map(|(name, bytes)| (name, (bytes, bytes))).collect();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            loop {
                let over = stopped.load(Ordering::Relaxed);
                for (name, bytes) in look(&port, pid) {
                    // One that was not there before began at nothing.
                    sockets.entry(name).or_default().1 = bytes;
                }
                if over {
                    return sockets;
                }
                std::thread::park_timeout(LOOK);
            }
        });
        self.looking = Some(Looking { stop, thread });
        Ok(())
    }

    pub(crate) fn pause(&mut self) -> anyhow::Result<()> {
        let Some(Looking { stop, thread }) = self.looking.take() else { return Ok(()) };
        stop.store(true, Ordering::Relaxed);
        thread.thread().unpark();
        let sockets = thread.join().ok().context("the look at the sockets panicked")?;
        self.bytes += sockets.values().map(|(first, last)| last.saturating_sub(*first)).sum::<u64>();
        self.parts.push((self.began, self.audit_size()?));
        Ok(())
    }

    fn audit_size(&self) -> anyhow::Result<u64> {
        Ok(std::fs::metadata(&self.audit).context("the cluster has no audit.log: AUDIT=1 k8s.sh start")?.len())
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    pub(crate) fn kib(&self) -> f64 {
        self.bytes as f64 / 1024.0
    }

    /// How many requests there were, without those about the node itself.
    pub(crate) fn requests(&self) -> anyhow::Result<f64> {
        let mut count = 0_u32;
        for (from, to) in &self.parts {
            let mut file = File::open(&self.audit).context("read the audit log")?;
            file.seek(SeekFrom::Start(*from)).context("read the audit log")?;
            let mut at = *from;
            for line in BufReader::new(file).lines() {
                let line = line.context("read the audit log")?;
                at += u64::try_from(line.len())? + 1;
                if at > *to {
                    break;
                }
                count += u32::from(self.counts(&line));
            }
        }
        Ok(f64::from(count))
    }

    fn counts(&self, line: &str) -> bool {
        let entry: Value = serde_json::from_str(line).unwrap_or_default();
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        // The audit log has a watch twice: when it begins and when it ends.
        let counted_stage = if text("/verb") == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        text("/stage") == counted_stage
            && text("/user/username") == self.user
            && !NOT_OF_PODS.contains(&text("/objectRef/resource"))
    }
}

/// Bytes both ways of each of the agent's connections to the API server, by its own end.
fn look(port: &str, pid: u32) -> Vec<(String, u64)> {
    let output = Command::new("ss").args(["-tinpHO", "dst", &format!("127.0.0.1:{port}")]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let ours = text.lines().filter(|line| line.contains(&format!("pid={pid},")));
    let sockets = ours.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let count =
            |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.parse::<u64>().ok()).unwrap_or_default();
        Some(((*words.get(3)?).to_owned(), count("bytes_sent:") + count("bytes_received:")))
    });
    sockets.collect()
}
