//! Remembers the pods that have ended, for `rubelet explain`, also over a restart of the agent (ADR 27).
//!
//! One task owns the memory and its file. The file is read when a pod ends or when somebody asks, and written some seconds
//! after a pod has ended: a burst of ends is one write. Nothing depends on the file; a failure to write it is logged once.

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::ended::{EndedPod, EndedPods};
use rubelet_core::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::chain::Chain;
use crate::clock::Clock;
use crate::ports::Checkpoints;

/// The file below the root directory.
const FILE: &str = "ended-pods.jsonl";
/// How many ends and questions may wait; an end beyond it is not remembered.
const INBOX: usize = 128;
/// From the end of a pod to the write: other pods often end with it.
const WRITE_PAUSE: Duration = Duration::from_secs(3);
/// A write at shutdown may take this long.
const LAST_WRITE: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum Message {
    Ended(Box<EndedPod>),
    Asked(oneshot::Sender<Vec<EndedPod>>),
}

/// The handle.
#[derive(Clone, Debug)]
pub struct EndedHandle {
    send: mpsc::Sender<Message>,
}

impl EndedHandle {
    /// Remembers a pod. Never waits.
    pub fn note(&self, pod: EndedPod) {
        if self.send.try_send(Message::Ended(Box::new(pod))).is_err() {
            debug!("Too many pods end at once: one is not remembered");
        }
    }

    /// The pods that ended in the last hour, newest first.
    pub async fn pods(&self) -> Vec<EndedPod> {
        let (reply, answer) = oneshot::channel();
        let sent = self.send.send(Message::Asked(reply)).await;
        if sent.is_err() { Vec::new() } else { answer.await.unwrap_or_default() }
    }
}

/// The task.
pub struct Remembering {
    checkpoints: Arc<dyn Checkpoints>,
    clock: Clock,
    inbox: mpsc::Receiver<Message>,
    /// `None` before the file has been read.
    ended: Option<EndedPods>,
    /// When the file has to be written.
    write_at: Option<Instant>,
    warned: bool,
}

enum Event {
    Shutdown,
    Message(Message),
    Due,
}

impl Remembering {
    /// The task, which has read nothing yet, and its handle.
    pub fn new(checkpoints: Arc<dyn Checkpoints>, clock: Clock) -> (Self, EndedHandle) {
        let (send, inbox) = mpsc::channel(INBOX);
        (Self { checkpoints, clock, inbox, ended: None, write_at: None, warned: false }, EndedHandle { send })
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        loop {
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => Event::Shutdown,
                message = self.inbox.recv() => message.map_or(Event::Shutdown, Event::Message),
                () = self.clock.sleep_until(self.write_at) => Event::Due,
            };
            match event {
                Event::Shutdown => {
                    if self.write_at.is_some() {
                        let _late = tokio::time::timeout(LAST_WRITE, self.write()).await;
                    }
                    return;
                }
                Event::Message(Message::Ended(pod)) => {
                    self.known().await.add(&pod);
                    self.write_at.get_or_insert(self.clock.mono() + WRITE_PAUSE);
                }
                Event::Message(Message::Asked(reply)) => {
                    let now = self.clock.wall();
                    // The asker may be gone.
                    drop(reply.send(self.known().await.pods(now)));
                }
                Event::Due => self.write().await,
            }
        }
    }

    /// What is remembered, the file included.
    async fn known(&mut self) -> &mut EndedPods {
        if self.ended.is_none() {
            let text = match self.checkpoints.read(FILE).await {
                Ok(text) => text.unwrap_or_default(),
                Err(err) => {
                    debug!(err = %Chain(&err), "The pods that ended before cannot be read");
                    String::new()
                }
            };
            self.ended = Some(EndedPods::parse(&text));
        }
        self.ended.get_or_insert_default()
    }

    async fn write(&mut self) {
        self.write_at = None;
        let Some(ended) = &self.ended else { return };
        if let Err(err) = self.checkpoints.write(FILE, &ended.text()).await
            && !std::mem::replace(&mut self.warned, true)
        {
            warn!(err = %Chain(&err), "The pods that ended cannot be written down: explain forgets them at a restart");
        }
    }
}
