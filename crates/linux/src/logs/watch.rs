//! Changes in the directories of followed logs: one inotify instance and one thread for all followers.
//!
//! A user has 128 inotify instances by default, so followers share one; the number of watches is bounded too. A
//! follower without a watch polls. The thread lives while there is a follower. Only this thread and the blocking pool
//! take the lock: a directory on a hung file system delays followers, but not the async thread.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::sync::watch;
use tracing::debug;

/// Directories watched at a time; followers of the same container share one. The kernel's own limit for a user is 8,192
/// or more, and other agents on the node need some.
const MAX_WATCHES: usize = 1024;
/// How often a log without a watch is checked. upstream: cri-client/pkg/logs/logs.go stateCheckPeriod (v1.36)
const POLL_EVERY: Duration = Duration::from_secs(1);
/// The thread only reads events and wakes followers.
const STACK: usize = 64 * 1024;

/// The watches of all followers.
#[derive(Debug)]
pub(super) struct Watches {
    room: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Set while the thread runs.
    descriptors: Option<Arc<Descriptors>>,
    watched: BTreeMap<i32, Arc<Watched>>,
}

#[derive(Debug)]
struct Descriptors {
    inotify: OwnedFd,
    /// Wakes the thread when a follower has left.
    wake: OwnedFd,
}

/// A watched directory.
#[derive(Debug)]
struct Watched {
    followers: AtomicUsize,
    changes: watch::Sender<Changes>,
}

/// Counts the changes in a directory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changes {
    total: u64,
    /// Changes after which another file may have the log's name.
    renames: u64,
}

impl Default for Watches {
    fn default() -> Self {
        Self::with_room(MAX_WATCHES)
    }
}

impl Watches {
    pub(super) fn with_room(room: usize) -> Self {
        Self { room, state: Arc::default() }
    }

    /// Watches a directory from now on. Blocking: call it in a blocking pool.
    pub(super) fn start(&self, dir: &OwnedFd) -> Watch {
        self.subscribe(dir).unwrap_or_else(|err| {
            debug!(%err, "Log is followed by polling: its directory cannot be watched");
            Watch::Poll
        })
    }

    fn subscribe(&self, dir: &OwnedFd) -> io::Result<Watch> {
        let mut state = lock(&self.state);
        let descriptors = match &state.descriptors {
            Some(descriptors) => Arc::clone(descriptors),
            None => start_thread(&self.state, &mut state)?,
        };
        let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        // By descriptor, not by path: this is the directory that was checked. The kernel has one watch per directory.
        let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let added = inotify::add_watch(&descriptors.inotify, path, what);
        let number = match added {
            Ok(number) => number,
            Err(err) => {
                // Without followers the thread ends.
                descriptors.wake();
                return Err(err.into());
            }
        };
        if !state.watched.contains_key(&number) && state.watched.len() >= self.room {
            let _gone = inotify::remove_watch(&descriptors.inotify, number);
            return Err(io::Error::other("too many logs are followed"));
        }
        let watched = state.watched.entry(number).or_insert_with(|| {
            Arc::new(Watched { followers: AtomicUsize::new(0), changes: watch::Sender::new(Changes::default()) })
        });
        watched.followers.fetch_add(1, Ordering::Relaxed);
        let changes = watched.changes.subscribe();
        let renames = changes.borrow().renames;
        let follower = Follower { watched: Arc::clone(watched), descriptors };
        Ok(Watch::Shared { changes, renames, _follower: follower })
    }

    #[cfg(test)]
    pub(super) fn watched(&self) -> usize {
        lock(&self.state).watched.len()
    }
}

/// Changes of one directory, for one follower.
pub(super) enum Watch {
    Shared {
        changes: watch::Receiver<Changes>,
        /// Renames that this follower has seen.
        renames: u64,
        _follower: Follower,
    },
    Poll,
}

/// Counts as a follower until dropped.
pub(super) struct Follower {
    watched: Arc<Watched>,
    descriptors: Arc<Descriptors>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        if self.watched.followers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.descriptors.wake();
        }
    }
}

impl Watch {
    /// Waits until something has changed, or may have; returns whether another file may have the log's name.
    /// Cancel-safe: changes are counted.
    pub(super) async fn wait(&mut self) -> bool {
        match self {
            Self::Shared { changes, renames, .. } => {
                if changes.changed().await.is_ok() {
                    let newest = changes.borrow_and_update().renames;
                    return std::mem::replace(renames, newest) != newest;
                }
                // The directory, or its watch, is gone.
                *self = Self::Poll;
            }
            Self::Poll => tokio::time::sleep(POLL_EVERY).await,
        }
        true
    }
}

impl Descriptors {
    fn wake(&self) {
        // If the counter is full, the thread is being woken already.
        let _full = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start_thread(shared: &Arc<Mutex<State>>, state: &mut State) -> io::Result<Arc<Descriptors>> {
    let descriptors = Arc::new(Descriptors {
        inotify: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?,
        wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
    });
    let (shared, own) = (Arc::clone(shared), Arc::clone(&descriptors));
    std::thread::Builder::new().name("log-watch".to_owned()).stack_size(STACK).spawn(move || run(&shared, &own))?;
    state.descriptors = Some(Arc::clone(&descriptors));
    Ok(descriptors)
}

/// The thread: distributes events, removes watches without followers, and ends without any follower.
fn run(shared: &Mutex<State>, descriptors: &Descriptors) {
    loop {
        let mut both =
            [PollFd::new(&descriptors.inotify, PollFlags::IN), PollFd::new(&descriptors.wake, PollFlags::IN)];
        let waited = poll(&mut both, None);
        let _none = rustix::io::read(&descriptors.wake, &mut [0; 8]);
        let mut state = lock(shared);
        let read = match waited {
            Ok(_) | Err(Errno::INTR) => distribute(&mut state, descriptors),
            Err(err) => Err(err),
        };
        state.watched.retain(|number, watched| {
            let followed = watched.followers.load(Ordering::Relaxed) > 0;
            if !followed {
                let _gone = inotify::remove_watch(&descriptors.inotify, *number);
            }
            followed
        });
        if let Err(err) = read {
            debug!(%err, "Inotify events of logs cannot be read: followers poll");
            state.watched.clear();
        }
        if state.watched.is_empty() {
            state.descriptors = None;
            return;
        }
    }
}

fn distribute(state: &mut State, descriptors: &Descriptors) -> Result<(), Errno> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&descriptors.inotify, &mut buffer);
    loop {
        let (number, what) = match reader.next() {
            Ok(event) => (event.wd(), event.events()),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => return Ok(()),
            Err(err) => return Err(err),
        };
        let renamed = !what.intersects(ReadFlags::MODIFY);
        let notify = |watched: &Watched| {
            watched.changes.send_modify(|counts| {
                counts.total = counts.total.wrapping_add(1);
                counts.renames = counts.renames.wrapping_add(u64::from(renamed));
            });
        };
        if what.intersects(ReadFlags::QUEUE_OVERFLOW) {
            // Events were lost: any directory may have changed.
            state.watched.values().for_each(|watched| notify(watched));
        } else if what.intersects(ReadFlags::IGNORED) {
            // The directory is gone; its followers notice by polling.
            state.watched.remove(&number);
        } else if let Some(watched) = state.watched.get(&number) {
            notify(watched);
        }
    }
}
