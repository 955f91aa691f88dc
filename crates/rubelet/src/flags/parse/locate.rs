//! Finds the command and the flags in a command line. Flags may stand before the command: `rubelet --root-dir X pods`.

use rubelet_core::config::nearest;

use super::super::commands::{self, RUN, Spec, first_words, second_words};
use super::super::flag::Flag;
use super::super::value::boolean;
use super::FlagError;

/// What a command line asks for.
pub(super) enum Found {
    /// A command, and the other words.
    Command(&'static Spec, Vec<String>),
    /// `config --help`: the help text of all commands with this first word.
    HelpOfGroup(&'static str),
}

/// A flag, and the value that is attached to it.
type Attached<'a> = (&'static Flag, Option<&'a str>);

/// Finds the command: the first word that is neither a flag nor the value of one.
pub(super) fn locate(words: &[String]) -> Result<Found, FlagError> {
    let every: Vec<&'static Flag> = commands::all().flat_map(Spec::flags).collect();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if word == "--" {
            at += 1;
            break;
        }
        // No command is known yet: an unknown flag is compared with those of the agent.
        let found = find_flag(word, &every, "").or_else(|_| find_flag(word, &RUN.flags(), &RUN.full_name()))?;
        let Some((flag, attached)) = found else { break };
        at += if attached.is_none() && !flag.stands_alone() { 2 } else { 1 };
    }
    let Some(word) = words.get(at) else { return Ok(Found::Command(&RUN, words.to_vec())) };
    if let Some(spec) = commands::find(word).filter(|spec| !spec.name.is_empty()) {
        return Ok(Found::Command(spec, without(words, at, 1)));
    }
    let second = second_words(word);
    let Some(group) = first_words().into_iter().find(|group| group == word && !second.is_empty()) else {
        return Err(match boolean(word) {
            Ok(_) if at > 0 => FlagError::DetachedSwitch(word.clone()),
            Ok(_) | Err(_) => unknown_command(std::slice::from_ref(word)),
        });
    };
    let next = words.get(at + 1);
    match next.and_then(|next| commands::find(&format!("{group} {next}"))) {
        Some(spec) => Ok(Found::Command(spec, without(words, at, 2))),
        None if words.iter().any(|word| word == "--help" || word == "-h") => Ok(Found::HelpOfGroup(group)),
        None => Err(match next.filter(|next| !next.starts_with('-')) {
            Some(next) => unknown_command(&[word.clone(), next.clone()]),
            None => FlagError::Missing { command: format!("rubelet {group}"), what: second.join("|") },
        }),
    }
}

fn without(words: &[String], at: usize, count: usize) -> Vec<String> {
    words
        .iter()
        .enumerate()
        .filter(|(index, _)| !(at..at + count).contains(index))
        .map(|(_, word)| word.clone())
        .collect()
}

/// The error for words that name no command: the first one that is wrong, and the nearest that is not.
pub(super) fn unknown_command(words: &[String]) -> FlagError {
    let first = words.first().map(String::as_str).unwrap_or_default();
    let (second, known) = (second_words(first), first_words());
    match words.get(1) {
        Some(word) if !second.is_empty() => {
            FlagError::Argument { command: format!("rubelet {first}"), word: word.clone(), what: second.join("|") }
        }
        Some(word) if known.contains(&first) => {
            FlagError::Unexpected { command: format!("rubelet {first}"), word: word.clone() }
        }
        Some(_) | None => {
            FlagError::UnknownCommand { word: first.to_owned(), nearest: nearest(first, known.iter().copied()), known }
        }
    }
}

/// The flag that `word` is, if it is one, with the value that is attached to it.
pub(super) fn find_flag<'a>(
    word: &'a str,
    flags: &[&'static Flag],
    command: &str,
) -> Result<Option<Attached<'a>>, FlagError> {
    match word.strip_prefix('-') {
        None | Some("") => Ok(None),
        Some(rest) => match rest.strip_prefix('-') {
            Some(long) => long_flag(word, long, flags, command).map(Some),
            None => short_flag(word, rest, flags, command).map(Some),
        },
    }
}

fn long_flag<'a>(word: &str, long: &'a str, flags: &[&'static Flag], command: &str) -> Result<Attached<'a>, FlagError> {
    let (name, attached) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
    if name.is_empty() || name.starts_with('-') {
        return Err(FlagError::Syntax(word.to_owned()));
    }
    let spelled = name.replace('_', "-");
    match flags.iter().find(|flag| flag.name == spelled) {
        Some(flag) => Ok((flag, attached)),
        None => Err(FlagError::UnknownFlag {
            command: command.to_owned(),
            flag: format!("--{name}"),
            nearest: nearest(&spelled, flags.iter().map(|flag| flag.name)),
        }),
    }
}

fn short_flag<'a>(
    word: &str,
    rest: &'a str,
    flags: &[&'static Flag],
    command: &str,
) -> Result<Attached<'a>, FlagError> {
    let mut letters = rest.chars();
    let letter = letters.next();
    let after = letters.as_str();
    let names = || flags.iter().map(|flag| flag.name);
    let flag = flags.iter().find(|flag| flag.short.is_some() && flag.short == letter);
    // `-v=4`, `-v4`, `-v 4`; a switch must stand alone or take `=`.
    match (flag, after.strip_prefix('=')) {
        (Some(flag), Some(value)) => Ok((flag, Some(value))),
        (Some(flag), None) if after.is_empty() => Ok((flag, None)),
        (Some(flag), None) if !flag.stands_alone() && !names().any(|name| name == rest) => Ok((flag, Some(after))),
        (Some(_) | None, _) => {
            let name = rest.split_once('=').map_or(rest, |(name, _)| name);
            match name.chars().nth(1) {
                None => {
                    Err(FlagError::UnknownFlag { command: command.to_owned(), flag: format!("-{name}"), nearest: None })
                }
                Some(_) => Err(FlagError::UnknownShort { word: word.to_owned(), nearest: nearest(name, names()) }),
            }
        }
    }
}
