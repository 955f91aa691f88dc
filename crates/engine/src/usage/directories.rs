//! What directories and writable layers take: measured in the background, one minute apart, or at once if a pod is to end
//! because a disk is full.
//!
//! Directories are measured a batch at a time. One that turns out to be large goes on by itself, with pauses, so that the
//! others never wait for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rubelet_core::id::ContainerId;
use rubelet_core::time::Instant;
use rubelet_core::usage::{DiskUsage, LayerUsage, Measured, OwnFileSystem};
use tokio::task::JoinSet;

use super::World;
use super::look::{MeasuredDirs, file_system};
use crate::ports::Walked;
use crate::task::timed;

/// How old a result becomes before the directory is measured again. upstream: VolumeStatsAggPeriod, one minute (STS-03)
const EVERY: Duration = Duration::from_secs(60);
/// How old the writable layers become.
const LAYERS_EVERY: Duration = Duration::from_secs(60);
/// Directories of one call.
const BATCH: usize = 16;
/// Calls at a time, and large directories that are measured at a time.
const CALLS: usize = 4;
/// Between two turns of a large directory. A turn takes a few milliseconds, so this leaves the disk to others.
const PAUSE: Duration = Duration::from_millis(100);
/// A call that has not returned by then is given up; the directory is tried again when it is due.
const CALL_WITHIN: Duration = Duration::from_secs(30);
/// Turns of a large directory before it is given up: more than a million files fit.
const TURNS: usize = 20_000;

/// When directories and layers are measured again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// When the last result has become old.
    Due,
    /// Whatever is known of them.
    Now,
}

/// What ended in the background.
pub(super) enum Done {
    /// A batch of directories.
    Batch { asked: Vec<Place>, walked: BTreeMap<PathBuf, Answer> },
    /// A large directory; `None` if it could not be measured.
    Large { place: Place, used: Option<Answer> },
    /// Writable layers; `None` if the runtime does not answer.
    Layers(Option<BTreeMap<ContainerId, LayerUsage>>),
}

/// One directory's answer.
pub(super) struct Answer {
    walked: Walked,
    on: Option<rubelet_core::usage::FsStats>,
}

pub(super) type Place = (PathBuf, OwnFileSystem);

/// All directories that somebody asked for. The keys are text, since paths are compared part by part.
#[derive(Default)]
pub(super) struct Directories {
    pub(super) measured: MeasuredDirs,
    pub(super) layers: Arc<BTreeMap<ContainerId, LayerUsage>>,
    layers_at: Option<Instant>,
    layers_known: bool,
    /// When each was last asked for, whatever came of it.
    tried: BTreeMap<OsString, Instant>,
    queue: VecDeque<Place>,
    large: VecDeque<Place>,
    calls: usize,
    walks: usize,
    /// Questions to the runtime that are on their way.
    asking_layers: usize,
    /// Queued or in flight.
    open: BTreeSet<OsString>,
    /// In flight since a turn ended without result: nobody waits for these.
    slow: BTreeSet<OsString>,
    /// Measured anew for the look that waits, large or not; and whether the layers are.
    anew: BTreeSet<OsString>,
    layers_anew: bool,
}

impl Directories {
    /// Has these directories measured that are due, and forgets all others.
    pub(super) fn want(&mut self, places: Vec<Place>, when: When, world: &Arc<World>, work: &mut JoinSet<Done>) {
        let now = world.clock.mono();
        let wanted: BTreeSet<&OsStr> = places.iter().map(|(path, _)| path.as_os_str()).collect();
        self.measured.retain(|path, _| wanted.contains(path.as_os_str()));
        self.tried.retain(|path, _| wanted.contains(path.as_os_str()));
        self.queue.retain(|(path, _)| wanted.contains(path.as_os_str()));
        self.large.retain(|(path, _)| wanted.contains(path.as_os_str()));
        let queued: BTreeSet<&OsStr> = self.queue.iter().chain(&self.large).map(|(path, _)| path.as_os_str()).collect();
        self.open.retain(|path| wanted.contains(path.as_os_str()) || queued.contains(path.as_os_str()));
        self.slow.retain(|path| wanted.contains(path.as_os_str()));
        self.anew = BTreeSet::new();
        if when == When::Now {
            self.anew.extend(places.iter().map(|(path, _)| path.as_os_str().to_owned()));
        }
        for place in places {
            let path = place.0.as_os_str();
            let due = when == When::Now || self.tried.get(path).is_none_or(|at| now.since(*at) >= EVERY);
            if due && self.open.insert(path.to_owned()) {
                self.tried.insert(path.to_owned(), now);
                self.queue.push_back(place);
            }
        }
        let due = self.asking_layers == 0 && self.layers_at.is_none_or(|at| now.since(at) >= LAYERS_EVERY);
        if when == When::Now || due {
            (self.asking_layers, self.layers_at) = (self.asking_layers + 1, Some(now));
            work.spawn(timed("usage-layers", layers(Arc::clone(world), when)));
        }
        self.layers_anew = when == When::Now;
        self.start(world, work);
    }

    /// A first answer would lack something that is about to be known.
    pub(super) fn is_incomplete(&self) -> bool {
        let unknown = |path: &OsString| {
            self.anew.contains(path) || (!self.measured.contains_key(path) && !self.slow.contains(path))
        };
        (self.asking_layers > 0 && (self.layers_anew || !self.layers_known)) || self.open.iter().any(unknown)
    }

    /// Takes a result.
    pub(super) fn done(&mut self, done: Done, world: &Arc<World>, work: &mut JoinSet<Done>) {
        match done {
            Done::Batch { asked, mut walked } => {
                self.calls -= 1;
                for place in asked {
                    match walked.remove(&place.0) {
                        Some(Answer { walked: Walked::Whole(used), on }) => self.measure(place.0, used, on, world),
                        Some(Answer { walked: Walked::Unfinished, .. }) => {
                            self.slow.insert(place.0.clone().into_os_string());
                            self.large.push_back(place);
                        }
                        None => drop(self.open.remove(place.0.as_os_str())),
                    }
                }
            }
            Done::Large { place, used } => {
                self.walks -= 1;
                self.slow.remove(place.0.as_os_str());
                match used {
                    Some(Answer { walked: Walked::Whole(used), on }) => self.measure(place.0, used, on, world),
                    _ => drop(self.open.remove(place.0.as_os_str())),
                }
            }
            Done::Layers(layers) => {
                (self.asking_layers, self.layers_known) = (self.asking_layers.saturating_sub(1), true);
                if let Some(layers) = layers {
                    self.layers = Arc::new(layers);
                }
            }
        }
        self.start(world, work);
    }

    fn measure(&mut self, path: PathBuf, used: DiskUsage, on: Option<rubelet_core::usage::FsStats>, world: &World) {
        let path = path.into_os_string();
        self.open.remove(&path);
        // Nobody may want it any more.
        if self.tried.contains_key(&path) {
            self.measured.insert(path, Measured { used, on, at: world.clock.wall() });
        }
    }

    fn start(&mut self, world: &Arc<World>, work: &mut JoinSet<Done>) {
        while self.calls < CALLS && !self.queue.is_empty() {
            let count = self.queue.len().min(BATCH);
            let batch: Vec<Place> = self.queue.drain(..count).collect();
            self.calls += 1;
            work.spawn(timed("usage-directories", measure_batch(Arc::clone(world), batch)));
        }
        while self.walks < CALLS
            && let Some(place) = self.large.pop_front()
        {
            self.walks += 1;
            work.spawn(timed("usage-directories", measure_large(Arc::clone(world), place)));
        }
    }
}

async fn measure_batch(world: Arc<World>, asked: Vec<Place>) -> Done {
    let paths: Vec<PathBuf> = asked.iter().map(|(path, _)| path.clone()).collect();
    let answers = tokio::time::timeout(CALL_WITHIN, world.parts.disks.usage(&paths)).await.unwrap_or_default();
    let mut walked = BTreeMap::new();
    for (path, own) in &asked {
        if let Some(answer) = answers.get(path) {
            let on = on(&world, path, *own).await;
            walked.insert(path.clone(), Answer { walked: *answer, on });
        }
    }
    Done::Batch { asked, walked }
}

async fn measure_large(world: Arc<World>, place: Place) -> Done {
    let (path, own) = &place;
    for _turn in 0..TURNS {
        world.clock.sleep_until(Some(world.clock.mono() + PAUSE)).await;
        let paths = [path.clone()];
        let answers = tokio::time::timeout(CALL_WITHIN, world.parts.disks.usage(&paths)).await.unwrap_or_default();
        match answers.get(path) {
            Some(Walked::Unfinished) => {}
            Some(whole @ Walked::Whole(_)) => {
                let answer = Answer { walked: *whole, on: on(&world, path, *own).await };
                return Done::Large { place, used: Some(answer) };
            }
            None => break,
        }
    }
    Done::Large { place, used: None }
}

async fn on(world: &World, path: &std::path::Path, own: OwnFileSystem) -> Option<rubelet_core::usage::FsStats> {
    match own {
        OwnFileSystem::No => None,
        OwnFileSystem::Maybe => file_system(world, path).await,
    }
}

async fn layers(world: Arc<World>, when: When) -> Done {
    let ask = async {
        match when {
            When::Due => world.parts.runtime.layers().await,
            When::Now => world.parts.runtime.layers_now().await,
        }
    };
    let layers = tokio::time::timeout(CALL_WITHIN, ask).await;
    Done::Layers(layers.ok().and_then(Result::ok))
}
