//! Completion scripts of shells.

mod bash;
mod fish;
mod zsh;

#[cfg(test)]
mod tests;

use super::commands::{self, Args, RUN, Spec};
use super::flag::{Flag, Group, Kind, Standing};
use super::table::FlagSet;
use super::value;

/// How the value of a flag is completed.
enum Values {
    /// The flag takes no value.
    None,
    /// One of these words.
    Words(Vec<&'static str>),
    /// A file or a directory.
    Path,
    /// Anything else.
    Free,
}

/// The script of this shell.
pub(super) fn script(shell: &str) -> String {
    match shell {
        "zsh" => zsh::script(),
        "fish" => fish::script(),
        _ => bash::script(),
    }
}

fn values(flag: &Flag) -> Values {
    match &flag.kind {
        Kind::Path(_) => Values::Path,
        _ if flag.stands_alone() => Values::None,
        kind => {
            let words: Vec<&str> = value::value_name(kind).split('|').collect();
            let plain = |word: &&str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            if words.len() > 1 && words.iter().all(plain) { Values::Words(words) } else { Values::Free }
        }
    }
}

/// Flags that are worth offering: those that do nothing are left out.
fn offered(flags: Vec<&'static Flag>) -> impl Iterator<Item = &'static Flag> {
    flags.into_iter().filter(|flag| flag.group != Group::NoEffect && !matches!(flag.standing, Standing::Old(_)))
}

/// The flags of a run.
fn run_flags() -> impl Iterator<Item = &'static Flag> {
    offered(RUN.flags())
}

/// The flags of a command that are not flags of a run that it takes with all others.
fn own_flags(spec: &Spec) -> Vec<&'static Flag> {
    match spec.flags {
        FlagSet::Run => Vec::new(),
        FlagSet::RunAnd(own) => own.to_vec(),
        FlagSet::Ask(_) | FlagSet::Only(_) => spec.flags(),
    }
}

/// Whether the command takes the flags of a run.
fn takes_run_flags(spec: &Spec) -> bool {
    matches!(spec.flags, FlagSet::Run | FlagSet::RunAnd(_))
}

/// Every flag of every command, each name once.
fn every_flag() -> Vec<&'static Flag> {
    let mut flags: Vec<&'static Flag> = commands::all().flat_map(Spec::flags).collect();
    flags.sort_by_key(|flag| flag.name);
    flags.dedup_by_key(|flag| flag.name);
    flags
}

/// `--output`, `-o`.
fn spellings(flag: &Flag) -> Vec<String> {
    let short = flag.short.map(|letter| format!("-{letter}"));
    std::iter::once(format!("--{}", flag.name)).chain(short).collect()
}

/// The words that a command takes as its argument.
fn arguments(spec: &Spec) -> Vec<&'static str> {
    match spec.args {
        Args::None | Args::Pod | Args::PodOrNode => Vec::new(),
        Args::OneOf(words) => words.to_vec(),
        Args::Command => commands::first_words(),
    }
}
