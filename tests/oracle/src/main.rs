//! `oracle PROGRAM`: replays the regressions, then compares functions of upstream and ours on generated cases.
//!
//! Settings come from the environment, as `make oracle` hands them on: `CASES` or `DURATION` in seconds, `FUNCTION`, `SEED`,
//! `REPLAY`, `KEEP`, `GOLDENS`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rubelet_oracle::regressions::{self, Document};
use rubelet_oracle::run::{Outcome, Until, run};
use rubelet_oracle::shrink::{Judged, judge, shrink};
use rubelet_oracle::upstream::Upstream;
use rubelet_oracle::{Function, functions, golden};

/// The seed of CI: any number will do, as long as it stays.
const SEED: u64 = 1;
/// How long all functions together are compared if nothing else is asked for.
const SECONDS: u64 = 60;

fn main() -> ExitCode {
    match compare_all() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(err) => {
            say(&format!("error: {err:#}"));
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) {
    // Nobody is left to tell if standard output is gone.
    drop(writeln!(std::io::stdout(), "{line}"));
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> anyhow::Result<Option<u64>> {
    setting(name).map(|text| text.parse().with_context(|| format!("{name}={text} is not a number"))).transpose()
}

fn compare_all() -> anyhow::Result<bool> {
    let program = PathBuf::from(std::env::args_os().nth(1).context("usage: oracle PROGRAM")?);
    if let Some(path) = setting("REPLAY") {
        return replay(&program, Path::new(&path));
    }
    let all = functions::all();
    if setting("GOLDENS").is_some() {
        return goldens(&program, &all.iter().map(AsRef::as_ref).collect::<Vec<_>>(), Goldens::Record);
    }
    let wanted = setting("FUNCTION");
    let chosen: Vec<&dyn Function> =
        all.iter().map(AsRef::as_ref).filter(|f| wanted.as_deref().is_none_or(|name| name == f.name())).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = all.iter().map(|f| f.name()).collect();
        bail!("there is no such function; there are {}", names.join(", "));
    }
    let seed = number("SEED")?.unwrap_or(SEED);
    let share = Duration::from_secs(number("DURATION")?.unwrap_or(SECONDS)) / u32::try_from(chosen.len()).unwrap_or(1);
    let until = number("CASES")?.map_or(Until::Time(share), Until::Cases);
    let mut good = replay_kept(&program, &chosen)?;
    good &= goldens(&program, &chosen, Goldens::Check)?;
    for function in chosen {
        let outcome = run(function, &program, seed, until)?;
        report(function, &outcome);
        good &= outcome.unexplained.is_empty();
        for (count, found) in outcome.unexplained.into_values() {
            show(function, &program, found, count)?;
        }
    }
    Ok(good)
}

fn report(function: &dyn Function, outcome: &Outcome) {
    let unexplained: u64 = outcome.unexplained.values().map(|(count, _)| count).sum();
    let pace = u128::from(outcome.cases).saturating_mul(1000).checked_div(outcome.took.as_millis()).unwrap_or_default();
    let (name, cases) = (function.name(), outcome.cases);
    say(&format!("{name:<28} {cases:>9} cases, {pace:>6} a second, {unexplained} unexplained differences"));
    for (name, count) in &outcome.stated {
        say(&format!("{:<28} {count:>9} with the stated difference: {name}", ""));
    }
}

/// Shrinks a failure and prints it as one document, which `REPLAY=` reads.
fn show(function: &dyn Function, program: &Path, found: Judged, count: u64) -> anyhow::Result<()> {
    let mut upstream = Upstream::start(program)?;
    let Judged { case, ours, upstream: theirs, differences } = shrink(function, &mut upstream, found)?;
    say(&format!("\n{}: {count} cases differ like this one:", function.name()));
    for difference in differences {
        say(&format!("  {}: ours {}, upstream {}", difference.path, difference.ours, difference.upstream));
    }
    let document = Document { function: function.name().to_owned(), note: String::new(), case, upstream: theirs, ours };
    say(&serde_json::to_string(&document).context("print the case")?);
    Ok(())
}

fn replay(program: &Path, path: &Path) -> anyhow::Result<bool> {
    let document = regressions::load(path)?;
    let all = functions::all();
    let function = all.iter().find(|f| f.name() == document.function).context("there is no such function")?;
    let Some(judged) = judge(function.as_ref(), &mut Upstream::start(program)?, &document.case)? else {
        bail!("one of the two sides cannot read the case: {:?}", function.ours(&document.case));
    };
    say(&format!("case     {}", judged.case));
    say(&format!("ours     {}", judged.ours));
    say(&format!("upstream {}", judged.upstream));
    for difference in &judged.differences {
        say(&format!("  {}: ours {}, upstream {}", difference.path, difference.ours, difference.upstream));
    }
    if setting("KEEP").is_some() {
        regressions::keep(path, Document { case: judged.case, upstream: judged.upstream, ..document })?;
    }
    Ok(judged.differences.is_empty())
}

/// What is done with upstream's answers to the golden cases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goldens {
    /// They are compared with those that are kept, and with ours.
    Check,
    /// They are written beside the cases.
    Record,
}

fn goldens(program: &Path, chosen: &[&dyn Function], task: Goldens) -> anyhow::Result<bool> {
    let mut upstream = Upstream::start(program)?;
    let (mut good, mut count) = (true, 0);
    for folder in &golden::FOLDERS {
        for file in golden::load(folder)? {
            let Some(function) = chosen.iter().find(|f| f.name() == file.function) else { continue };
            let answers = golden::ask(folder, *function, &mut upstream, &file)?;
            count += answers.len();
            let mut faults = Vec::new();
            if task == Goldens::Record {
                golden::record(&file, &answers)?;
            } else if golden::answers(&file)? != answers {
                faults.push(format!("{}: upstream answers otherwise: make oracle GOLDENS=1", file.path.display()));
            }
            faults.extend(golden::faults(folder, *function, &file, &answers)?);
            good &= faults.is_empty();
            faults.iter().for_each(|fault| say(fault));
        }
    }
    say(&format!("{count} golden cases {}", if task == Goldens::Record { "answered and written" } else { "answered" }));
    Ok(good)
}

fn replay_kept(program: &Path, chosen: &[&dyn Function]) -> anyhow::Result<bool> {
    let mut upstream = Upstream::start(program)?;
    let (mut good, mut count) = (true, 0);
    for (path, document) in regressions::all()? {
        let Some(function) = chosen.iter().find(|f| f.name() == document.function) else { continue };
        count += 1;
        let judged = judge(*function, &mut upstream, &document.case)?;
        let same = judged.is_some_and(|j| j.differences.is_empty() && j.upstream == document.upstream);
        if !same {
            say(&format!("{}: differs; see REPLAY={}", function.name(), path.display()));
            good = false;
        }
    }
    say(&format!("{count} kept cases replayed"));
    Ok(good)
}
