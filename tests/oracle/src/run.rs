//! A run: generate, ask both sides, compare, count.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::compare::differences;
use crate::function::Function;
use crate::rng::Rng;
use crate::shrink::Judged;
use crate::upstream::{Answers, Questions, Reply, Upstream};

/// Cases that travel together: enough that neither side waits for single lines.
const BATCH: u64 = 128;
/// Batches that our side may be ahead of upstream's.
const AHEAD: usize = 4;
/// The greatest size of a case.
const MAX_SIZE: u64 = 6;
/// Kinds of difference after which a run ends: more would only repeat themselves.
const MAX_KINDS: usize = 8;
/// A run with differences goes on for so many cases to see which kinds there are.
const MORE_AFTER_DIFFERENCE: u64 = 200_000;

/// When a run of one function ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After so many cases.
    Cases(u64),
    /// After so much time.
    Time(Duration),
}

/// What a run of one function showed.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Cases that were compared.
    pub cases: u64,
    /// How long that took.
    pub took: Duration,
    /// Differences that are stated in docs/parity, and in how many cases they showed.
    pub stated: BTreeMap<&'static str, u64>,
    /// Other differences, by kind: how often, and the first one.
    pub unexplained: BTreeMap<String, (u64, Judged)>,
}

struct Batch(Vec<(Value, anyhow::Result<Value>)>);

/// Compares `function` with upstream's.
///
/// # Errors
/// If upstream's process cannot be started or ends.
pub fn run(function: &dyn Function, program: &Path, seed: u64, until: Until) -> anyhow::Result<Outcome> {
    let mut upstream = Upstream::start(program)?;
    let (questions, mut answers) = upstream.halves().context("a new process has both halves")?;
    let (sender, receiver) = sync_channel(AHEAD);
    let clock = Clock::start(until);
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || ask(function, questions, &sender, seed, clock));
        let outcome = compare(function, &mut answers, receiver);
        // Our side may wait for a process whose answers nobody reads any more.
        upstream.stop();
        let asked = asking.join().map_err(|_| anyhow::anyhow!("our side panicked in {}", function.name()))?;
        let outcome = Outcome { took: clock.started.elapsed(), ..outcome? };
        if outcome.unexplained.is_empty() {
            asked?;
        }
        Ok(outcome)
    })
}

/// Our side: makes cases, answers them and hands them to upstream's side, until the run is over or nobody listens.
fn ask(
    function: &dyn Function,
    mut questions: Questions,
    batches: &SyncSender<Batch>,
    seed: u64,
    end: Clock,
) -> anyhow::Result<()> {
    let mut index = 0;
    while !end.is_over(index) {
        let (mut batch, mut lines) = (Vec::new(), Vec::new());
        for _ in 0..end.left(index).min(BATCH) {
            let mut rng = Rng::of_case(seed, function.name(), index);
            let case = function.generate(&mut rng, size(index));
            Questions::line(function.name(), &case, &mut lines)?;
            let ours = function.ours(&case);
            batch.push((case, ours));
            index += 1;
        }
        // The batch goes first: with nobody to read answers, upstream's side would stop reading questions.
        if batches.send(Batch(batch)).is_err() {
            break;
        }
        questions.send(&lines)?;
    }
    Ok(())
}

/// Small cases first: a difference that a small case can show is found by one.
fn size(index: u64) -> usize {
    let size = 1 + u64::from((index + 1).ilog2()) / 3;
    usize::try_from(size.min(MAX_SIZE)).unwrap_or(1)
}

/// Reads upstream's answers beside ours.
#[expect(clippy::needless_pass_by_value, reason = "when it is dropped, the other side ends")]
fn compare(function: &dyn Function, answers: &mut Answers, batches: Receiver<Batch>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut first = None;
    for batch in &batches {
        for (case, ours) in batch.0 {
            let reply = answers.next()?;
            outcome.cases += 1;
            weigh(function, &mut outcome, case, ours, reply);
        }
        if !outcome.unexplained.is_empty() && first.is_none() {
            first = Some(outcome.cases);
        }
        let long = first.is_some_and(|first| outcome.cases - first >= MORE_AFTER_DIFFERENCE);
        if long || outcome.unexplained.len() >= MAX_KINDS {
            break;
        }
    }
    Ok(outcome)
}

fn weigh(function: &dyn Function, outcome: &mut Outcome, case: Value, ours: anyhow::Result<Value>, reply: Reply) {
    if let Some(name) = function.incomparable(&case) {
        *outcome.stated.entry(name).or_default() += 1;
        return;
    }
    let (ours, upstream) = match (ours, reply) {
        (Ok(ours), Reply::Answer(mut theirs)) => {
            for name in function.adjust(&case, &mut theirs) {
                *outcome.stated.entry(name).or_default() += 1;
            }
            if theirs.is_null() {
                return;
            }
            (ours, theirs)
        }
        (Ok(ours), Reply::Refused(why)) => (ours, json!({ "refused": why })),
        (Err(why), Reply::Answer(theirs)) => (json!({ "refused": format!("{why:#}") }), theirs),
        (Err(why), Reply::Refused(theirs)) => (json!({ "refused": format!("{why:#}") }), json!({ "refuses": theirs })),
    };
    let differences = differences(&ours, &upstream);
    let Some(kind) = differences.first().map(crate::compare::Difference::kind) else { return };
    let judged = || Judged { case, ours, upstream, differences };
    outcome.unexplained.entry(kind).or_insert_with(|| (0, judged())).0 += 1;
}

#[derive(Clone, Copy)]
struct Clock {
    started: Instant,
    until: Until,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a run takes is no decision; nothing that is compared sees it"
    )]
    fn start(until: Until) -> Self {
        Self { started: Instant::now(), until }
    }

    fn is_over(&self, index: u64) -> bool {
        match self.until {
            Until::Cases(cases) => index >= cases,
            Until::Time(time) => self.started.elapsed() >= time,
        }
    }

    fn left(&self, index: u64) -> u64 {
        match self.until {
            Until::Cases(cases) => cases.saturating_sub(index),
            Until::Time(_) => u64::MAX,
        }
    }
}
