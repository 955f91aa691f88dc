//! Parses arguments into a [`Command`].

mod error;
mod locate;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rubelet_core::config::KubeletConfiguration;
use rubelet_engine::ports::LogWish;
use rubelet_server::documents::LogAsk;

use super::commands::{self, Action, Args, Spec};
use super::flag::{Group, Kind};
use super::settings::{LogSettings, Settings};
use super::value;
use super::{Assigned, Command, Query, REPORTED_VERSION, RunOptions, apply, completion, control_socket, help, man};
use crate::commands::Watch;
pub use error::FlagError;
use locate::{Found, find_flag, locate};

/// Reads a command line (without the program's own name).
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, FlagError> {
    let words = args.into_iter().map(|word| word.into_string().map_err(FlagError::NotText));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let (spec, rest) = match locate(&words)? {
        Found::Command(spec, rest) => (spec, rest),
        Found::HelpOfGroup(group) => return Ok(Command::Print(help::group(group))),
    };
    let parsed = Parsed::read(&rest, spec)?;
    let common = matches!(spec.action, Action::Run | Action::Check | Action::ConfigShow | Action::ConfigValidate);
    if common { parsed.looks_at_a_run(spec) } else { parsed.stands_alone(spec) }
}

/// A command line, split into flags and arguments.
struct Parsed {
    assigned: Vec<Assigned>,
    /// Arguments that are not flags.
    words: Vec<String>,
}

impl Parsed {
    fn read(words: &[String], spec: &Spec) -> Result<Self, FlagError> {
        let (command, flags) = (spec.full_name(), spec.flags());
        let mut parsed = Self { assigned: Vec::new(), words: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                parsed.words.extend(words.cloned());
                break;
            }
            let Some((flag, attached)) = find_flag(word, &flags, &command)? else {
                parsed.words.push(word.clone());
                continue;
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

    /// The arguments are those that the command takes.
    fn check_words(&self, spec: &Spec) -> Result<(), FlagError> {
        let command = || spec.full_name();
        let most = match spec.args {
            Args::None => 0,
            Args::Pod | Args::PodOrNode | Args::OneOf(_) => 1,
            // `help config show`.
            Args::Command => 2,
        };
        if let Some(word) = self.words.get(most) {
            return Err(FlagError::Unexpected { command: command(), word: word.clone() });
        }
        match (spec.args, self.words.first()) {
            (Args::Pod | Args::PodOrNode | Args::OneOf(_), None) => {
                Err(FlagError::Missing { command: command(), what: spec.args.usage() })
            }
            (Args::OneOf(valid), Some(word)) if !valid.contains(&word.as_str()) => {
                Err(FlagError::Argument { command: command(), word: word.clone(), what: spec.args.usage() })
            }
            (Args::None | Args::Pod | Args::PodOrNode | Args::OneOf(_) | Args::Command, _) => Ok(()),
        }
    }

    /// A command that asks a running rubelet, or nothing but this program.
    fn stands_alone(self, spec: &'static Spec) -> Result<Command, FlagError> {
        if self.wants(|kind| matches!(kind, Kind::Help)) {
            return Ok(Command::Print(help::of(spec)));
        }
        self.check_words(spec)?;
        let Settings { flags, tool, .. } = self.settings()?;
        let socket = match tool.socket.as_str() {
            "" => control_socket(Path::new(&flags.root_dir)),
            path => PathBuf::from(path),
        };
        let query = Query { output: tool.output, socket };
        let namespace = Some(tool.namespace).filter(|name| !name.is_empty() && !tool.all_namespaces);
        let word = self.words.first().map(String::as_str).unwrap_or_default();
        Ok(match spec.action {
            Action::Pods => Command::Pods { query, namespace },
            Action::Explain if word == "node" => Command::ExplainNode { query },
            Action::Explain => Command::Explain { query, pod: in_namespace(word, namespace) },
            Action::Top => Command::Top { query },
            Action::Events => {
                Command::Events { query, namespace, watch: if tool.watch { Watch::Yes } else { Watch::No } }
            }
            Action::Logs => logs(query, in_namespace(word, namespace), tool.log),
            Action::Status => Command::Status { query },
            Action::Version => Command::Version { format: tool.format },
            Action::Completion => Command::Print(completion::script(word)),
            Action::Man if !tool.dir.is_empty() => Command::ManPages { dir: tool.dir.into() },
            Action::Man => Command::Print(man::page(self.named_command()?)),
            Action::Help => match (self.words.len(), commands::second_words(word).is_empty()) {
                (1, false) => Command::Print(help::group(word)),
                _ => Command::Print(help::of(self.named_command()?)),
            },
            Action::Run | Action::Check | Action::ConfigShow | Action::ConfigValidate => {
                return self.looks_at_a_run(spec);
            }
        })
    }

    /// The command that the arguments name; without any, the agent.
    fn named_command(&self) -> Result<&'static Spec, FlagError> {
        match commands::find(&self.words.join(" ")) {
            Some(spec) => Ok(spec),
            None => Err(locate::unknown_command(&self.words)),
        }
    }

    /// The agent, or a command that takes its flags. Help and version take precedence, as upstream.
    fn looks_at_a_run(self, spec: &'static Spec) -> Result<Command, FlagError> {
        if self.wants(|kind| matches!(kind, Kind::Help)) {
            return Ok(Command::Print(help::of(spec)));
        }
        self.check_words(spec)?;
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
        let Settings { flags, config, tool, .. } = settings;
        let mut assigned = self.assigned;
        assigned.retain(|assigned| assigned.flag.group != Group::Tool);
        let options = Box::new(RunOptions { flags, warnings, reported_version, config, assigned });
        Ok(match spec.action {
            Action::Check => Command::Check { output: tool.output, options },
            Action::ConfigShow => Command::ConfigShow { format: tool.format, all: tool.all_fields, options },
            Action::ConfigValidate => Command::ConfigValidate { output: tool.output, options },
            _ => Command::Run(options),
        })
    }
}

fn logs(query: Query, pod: String, log: LogSettings) -> Command {
    let LogSettings { container, follow, previous, timestamps, tail } = log;
    let container = Some(container).filter(|name| !name.is_empty());
    let ask = LogAsk { pod, container, previous, until_end_of: None };
    Command::Logs { query, ask, wish: LogWish { follow, timestamps, tail_lines: tail, ..LogWish::default() } }
}

/// The pod's name with the namespace of `-n`, unless it has one.
fn in_namespace(pod: &str, namespace: Option<String>) -> String {
    match namespace {
        Some(namespace) if !pod.contains('/') => format!("{namespace}/{pod}"),
        Some(_) | None => pod.to_owned(),
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
