//! Parses arguments into a [`Command`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rubelet_core::config::{KubeletConfiguration, nearest};

use super::flag::{Flag, Kind};
use super::settings::Settings;
use super::{Assigned, Command, REPORTED_VERSION, RunOptions, apply, control_socket, help, table, value};

/// Why a command line is invalid. Every message names the argument and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// No such flag.
    #[error("unknown flag --{flag}; {}", .nearest.map_or("rubelet --help lists all of them".to_owned(), |n| format!("did you mean --{n}?")))]
    UnknownFlag {
        /// The name given.
        flag: String,
        /// The flag it was probably meant to be.
        nearest: Option<&'static str>,
    },
    /// No such one-letter flag.
    #[error("unknown flag {word:?}; flags of more than one letter take two dashes{}", guess(.nearest.map(|n| format!("--{n}"))))]
    UnknownShort {
        /// The argument.
        word: String,
        /// The flag it was probably meant to be.
        nearest: Option<&'static str>,
    },
    /// A flag without its value.
    #[error("flag --{flag} needs a value: write --{flag}=VALUE")]
    NoValue {
        /// The flag.
        flag: &'static str,
    },
    /// A flag with a value that it cannot take.
    #[error("invalid value {word:?} for --{flag}: {rule}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// The value.
        word: String,
        /// What would be valid.
        rule: String,
    },
    /// An argument that starts like a flag and is none.
    #[error("bad flag syntax: {0:?}")]
    Syntax(String),
    /// No such command.
    #[error("unknown command {word:?}; without a command rubelet runs the node, else there are {}{}", COMMANDS.join(", "), guess(.nearest.map(str::to_owned)))]
    UnknownCommand {
        /// The argument.
        word: String,
        /// The command it was probably meant to be.
        nearest: Option<&'static str>,
    },
    /// `--switch false`: the value must be attached.
    #[error("unexpected argument {0:?}; a switch takes its value after '=', like --fail-swap-on={0}")]
    DetachedSwitch(String),
    /// A command without a required argument.
    #[error("rubelet {command} needs {what}: rubelet {command} {what}")]
    Missing {
        /// The command.
        command: &'static str,
        /// What it needs.
        what: &'static str,
    },
    /// A command with an argument too many.
    #[error("unexpected argument {word:?} after rubelet {command}")]
    Unexpected {
        /// The command.
        command: &'static str,
        /// The argument.
        word: String,
    },
    /// An argument that is not UTF-8.
    #[error("argument {0:?} is not valid UTF-8")]
    NotText(OsString),
}

const COMMANDS: [&str; 3] = ["pods", "explain", "check"];

fn guess(name: Option<String>) -> String {
    name.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// Reads a command line (without the program's own name).
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, FlagError> {
    let words = args.into_iter().map(|word| word.into_string().map_err(FlagError::NotText));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    match words.split_first() {
        Some((first, rest)) if COMMANDS.contains(&first.as_str()) => command(first, rest),
        _ => {
            let parsed = Parsed::read(&words, table::run_flags())?;
            if let Some(word) = parsed.words.first().filter(|word| value::boolean(word).is_ok()) {
                return Err(FlagError::DetachedSwitch(word.clone()));
            }
            if let Some(word) = parsed.words.first() {
                return Err(FlagError::UnknownCommand { word: word.clone(), nearest: nearest(word, COMMANDS) });
            }
            parsed.run_or_print(help::run, |options| Command::Run(Box::new(options)))
        }
    }
}

fn command(name: &str, words: &[String]) -> Result<Command, FlagError> {
    if name == "check" {
        let parsed = Parsed::read(words, table::check_flags())?;
        parsed.nothing_left("check", 0)?;
        let output = parsed.settings()?.output;
        return parsed.run_or_print(help::check, |options| Command::Check { output, options: Box::new(options) });
    }
    let parsed = Parsed::read(words, table::tool_flags())?;
    let settings = parsed.settings()?;
    let output = settings.output;
    let socket = match settings.socket.as_str() {
        "" => control_socket(Path::new(&settings.flags.root_dir)),
        path => PathBuf::from(path),
    };
    if parsed.wants(|kind| matches!(kind, Kind::Help)) {
        return Ok(Command::Print(if name == "pods" { help::pods() } else { help::explain() }));
    }
    if name == "pods" {
        parsed.nothing_left("pods", 0)?;
        return Ok(Command::Pods { output, socket });
    }
    parsed.nothing_left("explain", 1)?;
    let pod = parsed.words.first().ok_or(FlagError::Missing { command: "explain", what: "POD" })?.clone();
    Ok(Command::Explain { pod, output, socket })
}

/// A command line, split into flags and arguments.
struct Parsed {
    assigned: Vec<Assigned>,
    /// Arguments that are not flags.
    words: Vec<String>,
}

impl Parsed {
    fn read(words: &[String], flags: impl Iterator<Item = &'static Flag> + Clone) -> Result<Self, FlagError> {
        let mut parsed = Self { assigned: Vec::new(), words: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (flag, attached) = match word.strip_prefix('-') {
                Some("-") => {
                    parsed.words.extend(words.cloned());
                    break;
                }
                Some(rest) if !rest.is_empty() => match rest.strip_prefix('-') {
                    Some(long) => long_flag(word, long, flags.clone())?,
                    None => short_flag(word, rest, flags.clone())?,
                },
                Some(_) | None => {
                    parsed.words.push(word.clone());
                    continue;
                }
            };
            let word = match attached {
                Some(value) => value.to_owned(),
                None if flag.stands_alone() => "true".to_owned(),
                None => words.next().ok_or(FlagError::NoValue { flag: flag.name })?.clone(),
            };
            parsed.assigned.push(Assigned { flag, word });
        }
        // Values are parsed in order, so that the error names the first invalid one.
        parsed.settings()?;
        Ok(parsed)
    }

    /// The settings over the legacy defaults.
    fn settings(&self) -> Result<Settings, FlagError> {
        let mut settings = Settings::over(KubeletConfiguration::legacy_defaults());
        let lists_gates = |a: &&Assigned| !(matches!(a.flag.kind, Kind::Gates(_)) && a.word == "help");
        let assigned: Vec<_> = self.assigned.iter().filter(lists_gates).cloned().collect();
        apply(&assigned, &mut settings)?;
        for Assigned { flag, word } in &self.assigned {
            let valid = match flag.kind {
                Kind::Help => value::boolean(word).map(|_| ()),
                Kind::Version => version_word(word),
                _ => Ok(()),
            };
            valid.map_err(|rule| FlagError::Value { flag: flag.name, word: word.clone(), rule })?;
        }
        Ok(settings)
    }

    fn wants(&self, which: fn(&Kind) -> bool) -> bool {
        let last = self.assigned.iter().rev().find(|assigned| which(&assigned.flag.kind));
        last.is_some_and(|assigned| assigned.word != "false" && value::boolean(&assigned.word) != Ok(false))
    }

    fn nothing_left(&self, command: &'static str, words: usize) -> Result<(), FlagError> {
        match self.words.get(words) {
            Some(word) => Err(FlagError::Unexpected { command, word: word.clone() }),
            None => Ok(()),
        }
    }

    /// Help and version take precedence over a run, as upstream.
    fn run_or_print(self, help: fn() -> String, run: impl FnOnce(RunOptions) -> Command) -> Result<Command, FlagError> {
        if self.wants(|kind| matches!(kind, Kind::Help)) {
            return Ok(Command::Print(help()));
        }
        if self.assigned.iter().any(|a| matches!(a.flag.kind, Kind::Gates(_)) && a.word == "help") {
            return Ok(Command::Print(help::gates()));
        }
        let version =
            self.assigned.iter().rev().find(|a| matches!(a.flag.kind, Kind::Version)).map(|a| a.word.as_str());
        let mut reported_version = REPORTED_VERSION.to_owned();
        match version {
            Some("raw") => return Ok(Command::Print(help::raw_version())),
            Some(word) if word.starts_with('v') => word.clone_into(&mut reported_version),
            Some(word) if value::boolean(word) == Ok(true) => return Ok(Command::Print(help::version())),
            Some(_) | None => {}
        }
        let settings = self.settings()?;
        let mut warnings: Vec<String> = Vec::new();
        for line in self.assigned.iter().filter_map(|assigned| assigned.flag.deprecation()) {
            if !warnings.contains(&line) {
                warnings.push(line);
            }
        }
        let Settings { flags, config, .. } = settings;
        Ok(run(RunOptions { flags, warnings, reported_version, config, assigned: self.assigned }))
    }
}

fn long_flag<'a>(
    word: &str,
    long: &'a str,
    mut flags: impl Iterator<Item = &'static Flag> + Clone,
) -> Result<(&'static Flag, Option<&'a str>), FlagError> {
    let (name, attached) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
    if name.is_empty() || name.starts_with('-') {
        return Err(FlagError::Syntax(word.to_owned()));
    }
    let spelled = name.replace('_', "-");
    let names = flags.clone().map(|flag| flag.name);
    match flags.find(|flag| flag.name == spelled) {
        Some(flag) => Ok((flag, attached)),
        None => Err(FlagError::UnknownFlag { flag: name.to_owned(), nearest: nearest(&spelled, names) }),
    }
}

fn short_flag<'a>(
    word: &str,
    rest: &'a str,
    mut flags: impl Iterator<Item = &'static Flag> + Clone,
) -> Result<(&'static Flag, Option<&'a str>), FlagError> {
    let mut letters = rest.chars();
    let letter = letters.next();
    let after = letters.as_str();
    let names = flags.clone().map(|flag| flag.name);
    let flag = flags.find(|flag| flag.short.is_some() && flag.short == letter);
    // `-v=4`, `-v4`, `-v 4`; a switch must stand alone or take `=`.
    match (flag, after.strip_prefix('=')) {
        (Some(flag), Some(value)) => Ok((flag, Some(value))),
        (Some(flag), None) if after.is_empty() => Ok((flag, None)),
        (Some(flag), None) if !flag.stands_alone() && !names.clone().any(|name| name == rest) => {
            Ok((flag, Some(after)))
        }
        (Some(_) | None, _) => {
            let name = rest.split_once('=').map_or(rest, |(name, _)| name);
            Err(FlagError::UnknownShort { word: word.to_owned(), nearest: nearest(name, names) })
        }
    }
}

/// `--version` takes true, false, raw, or another build of the same release.
// upstream: component-base/version/dynamic.go validateDynamicVersion (v1.36).
fn version_word(word: &str) -> Result<(), String> {
    if word == "raw" || value::boolean(word).is_ok() {
        return Ok(());
    }
    let build = word.strip_prefix(super::KUBERNETES_VERSION);
    let allowed = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'+'));
    if build.is_some_and(|build| build.is_empty() || (build.starts_with(['-', '+']) && allowed(build))) {
        return Ok(());
    }
    Err(format!("must be true, false, raw, or {} with a build after - or +", super::KUBERNETES_VERSION))
}
