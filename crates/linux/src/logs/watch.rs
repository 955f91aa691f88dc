//! Changes in the directories of logs that are followed: one inotify instance and one thread for all followers.
//!
//! A user has 128 inotify instances by default, so followers share one; its watches are bounded as well. A follower for
//! which there is no watch polls. The thread lives while there is a follower. Only it and the blocking pool take the
//! lock: a directory on a file system that hangs costs followers their news, and the async thread nothing.

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

/// Directories that are watched at a time; followers of the same container share one. The kernel's own limit for a user
/// is 8,192 or more, and other agents on the node need some.
const MOST_WATCHES: usize = 1024;
/// How often a log is looked at for which there is no watch. upstream: cri-client/pkg/logs/logs.go stateCheckPeriod (v1.36)
const POLL_EVERY: Duration = Duration::from_secs(1);
/// The thread reads events and wakes followers; it needs little.
const STACK: usize = 64 * 1024;

/// The watches of all followers.
#[derive(Debug)]
pub(super) struct Watches {
    room: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// There while the thread runs.
    descriptors: Option<Arc<Descriptors>>,
    watched: BTreeMap<i32, Arc<Watched>>,
}

#[derive(Debug)]
struct Descriptors {
    inotify: OwnedFd,
    /// Wakes the thread when a follower has left.
    wake: OwnedFd,
}

/// A directory that is watched.
#[derive(Debug)]
struct Watched {
    followers: AtomicUsize,
    news: watch::Sender<News>,
}

/// What has happened in a directory so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    changes: u64,
    /// Those after which another file may have the log's name.
    renames: u64,
}

impl Default for Watches {
    fn default() -> Self {
        Self::with_room(MOST_WATCHES)
    }
}

impl Watches {
    pub(super) fn with_room(room: usize) -> Self {
        Self { room, state: Arc::default() }
    }

    /// Watches a directory from now on. Blocks: for the blocking pool.
    pub(super) fn start(&self, dir: &OwnedFd) -> Watch {
        self.subscribe(dir).unwrap_or_else(|err| {
            debug!(%err, "A log is followed by polling: no watch for its directory");
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
        // The descriptor, not the path: it is the directory that was checked. One directory has one number.
        let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let added = inotify::add_watch(&descriptors.inotify, path, what);
        let number = match added {
            Ok(number) => number,
            Err(err) => {
                // Without any follower the thread ends.
                descriptors.wake();
                return Err(err.into());
            }
        };
        if !state.watched.contains_key(&number) && state.watched.len() >= self.room {
            let _gone = inotify::remove_watch(&descriptors.inotify, number);
            return Err(io::Error::other("too many logs are followed"));
        }
        let watched = state.watched.entry(number).or_insert_with(|| {
            Arc::new(Watched { followers: AtomicUsize::new(0), news: watch::Sender::new(News::default()) })
        });
        watched.followers.fetch_add(1, Ordering::Relaxed);
        let news = watched.news.subscribe();
        let renames = news.borrow().renames;
        let follower = Follower { watched: Arc::clone(watched), descriptors };
        Ok(Watch::Shared { news, renames, _follower: follower })
    }

    #[cfg(test)]
    pub(super) fn watched(&self) -> usize {
        lock(&self.state).watched.len()
    }
}

/// News of one directory, for one follower.
pub(super) enum Watch {
    Shared {
        news: watch::Receiver<News>,
        /// Renames that this follower knows of.
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
    /// Waits until something has changed, or may have; whether another file may have the log's name then. It may be
    /// dropped while it waits: news are kept.
    pub(super) async fn wait(&mut self) -> bool {
        match self {
            Self::Shared { news, renames, .. } => {
                if news.changed().await.is_ok() {
                    let newest = news.borrow_and_update().renames;
                    return std::mem::replace(renames, newest) != newest;
                }
                // The directory is gone, or its watch.
                *self = Self::Poll;
            }
            Self::Poll => tokio::time::sleep(POLL_EVERY).await,
        }
        true
    }
}

impl Descriptors {
    fn wake(&self) {
        // A counter that is full wakes as well.
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

/// The thread: hands out events, lets go of what nobody follows, and ends when nobody follows anything.
fn run(shared: &Mutex<State>, descriptors: &Descriptors) {
    loop {
        let mut both =
            [PollFd::new(&descriptors.inotify, PollFlags::IN), PollFd::new(&descriptors.wake, PollFlags::IN)];
        let waited = poll(&mut both, None);
        let _none = rustix::io::read(&descriptors.wake, &mut [0; 8]);
        let mut state = lock(shared);
        let read = match waited {
            Ok(_) | Err(Errno::INTR) => hand_out(&mut state, descriptors),
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
            debug!(%err, "Cannot read changes of logs: followers poll");
            state.watched.clear();
        }
        if state.watched.is_empty() {
            state.descriptors = None;
            return;
        }
    }
}

fn hand_out(state: &mut State, descriptors: &Descriptors) -> Result<(), Errno> {
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
        let tell = |watched: &Watched| {
            watched.news.send_modify(|news| {
                news.changes = news.changes.wrapping_add(1);
                news.renames = news.renames.wrapping_add(u64::from(renamed));
            });
        };
        if what.intersects(ReadFlags::QUEUE_OVERFLOW) {
            // Events were lost: anything may have happened anywhere.
            state.watched.values().for_each(|watched| tell(watched));
        } else if what.intersects(ReadFlags::IGNORED) {
            // The directory is gone; its followers find out by polling.
            state.watched.remove(&number);
        } else if let Some(watched) = state.watched.get(&number) {
            tell(watched);
        }
    }
}
