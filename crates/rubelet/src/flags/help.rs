//! Help texts. Flags are grouped by topic.

use std::fmt::Write as _;

use rubelet_core::config::{KubeletConfiguration, known_features};

use super::commands::{COMMANDS, Spec};
use super::flag::{Flag, Group, Standing};
use super::settings::Settings;
use super::{REPORTED_VERSION, value};

/// Where help texts begin.
const INDENT: usize = 32;
/// Where lines end.
const WIDTH: usize = 100;

/// The help text of a command.
pub(super) fn of(spec: &Spec) -> String {
    let mut text = String::new();
    for paragraph in spec.text.split("\n\n") {
        wrapped(&mut text, paragraph, 0, 0);
        text.push('\n');
    }
    let _ = writeln!(text, "Usage:\n  {}", spec.usage());
    if spec.name.is_empty() {
        text.push_str("\nCommands:\n");
        list(&mut text, COMMANDS.iter());
    }
    if !spec.examples.is_empty() {
        text.push_str("\nExamples:\n");
        for (line, what) in spec.examples {
            let _ = writeln!(text, "  # {what}\n  {line}");
        }
    }
    flags(&mut text, &spec.flags());
    text
}

/// The help text of all commands with this first word.
pub(super) fn group(word: &str) -> String {
    let mut text = "Commands:\n".to_owned();
    list(&mut text, COMMANDS.iter().filter(|spec| spec.name.split(' ').next() == Some(word)));
    let _ = writeln!(text, "\nrubelet {word} COMMAND --help shows the flags of each.");
    text
}

fn list<'a>(text: &mut String, specs: impl Iterator<Item = &'a Spec>) {
    for spec in specs {
        let left = format!("  rubelet {} {}", spec.name, spec.args.usage());
        entry(text, left.trim_end(), spec.about);
    }
}

/// The line that tools parse from `kubelet --version`.
pub(super) fn version() -> String {
    format!("Kubernetes {REPORTED_VERSION}\n")
}

pub(super) fn raw_version() -> String {
    let rubelet = env!("CARGO_PKG_VERSION");
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("version.Info{{GitVersion:\"{REPORTED_VERSION}\", Rubelet:\"{rubelet}\", Platform:\"{os}/{arch}\"}}\n")
}

/// The gates that are worth setting.
pub(super) fn gates() -> String {
    let mut text =
        String::from("Feature gates, for --feature-gates=GATE=BOOL,… and featureGates in the --config file:\n\n");
    for line in known_features() {
        text.push_str("  ");
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn flags(text: &mut String, of: &[&'static Flag]) {
    let mut settings = Settings::over(KubeletConfiguration::legacy_defaults());
    for group in Group::ALL {
        let mut members = of.iter().filter(|flag| flag.group == group).peekable();
        if members.peek().is_none() {
            continue;
        }
        let _ = write!(text, "\n{}:\n", group.heading());
        let mut silent = Vec::new();
        for flag in members {
            if flag.help.is_empty() { silent.push(flag.name) } else { line(text, flag, &mut settings) }
        }
        if !silent.is_empty() {
            let names = silent.iter().map(|name| format!("--{name}")).collect::<Vec<_>>().join(", ");
            text.push_str("  ");
            wrapped(text, &names, 2, 2);
        }
    }
}

fn line(text: &mut String, flag: &Flag, settings: &mut Settings) {
    let mut left = match flag.short {
        Some(letter) => format!("  -{letter}, --{}", flag.name),
        None => format!("      --{}", flag.name),
    };
    let word = value::value_name(&flag.kind);
    if !word.is_empty() {
        let _ = write!(left, " {word}");
    }
    entry(text, &left, &about(flag, settings));
}

/// The description of a flag, with its default and its standing.
pub(super) fn about(flag: &Flag, settings: &mut Settings) -> String {
    let mut right = flag.help.to_owned();
    let default = value::show(&flag.kind, settings);
    if !default.is_empty() {
        let _ = write!(right, " (default {default})");
    }
    match flag.standing {
        Standing::UseField(field) => {
            let _ = write!(right, " [{field}]");
        }
        Standing::Old(why) => {
            let _ = write!(right, " Deprecated: {why}.");
        }
        Standing::Current | Standing::AlsoField(_) => {}
    }
    right
}

/// A name or a flag, and behind it what it is.
fn entry(text: &mut String, left: &str, right: &str) {
    text.push_str(left);
    let used = left.chars().count();
    if used + 2 > INDENT {
        text.push('\n');
        text.push_str(&" ".repeat(INDENT));
    } else {
        text.push_str(&" ".repeat(INDENT - used));
    }
    wrapped(text, right, INDENT, INDENT);
}

/// Appends words, breaking lines before [`WIDTH`]; `at` is the column that the text has reached.
fn wrapped(text: &mut String, words: &str, mut at: usize, indent: usize) {
    let mut first = true;
    for word in words.split(' ') {
        let len = word.chars().count();
        if !first && at + 1 + len > WIDTH {
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            at = indent;
        } else if !first {
            text.push(' ');
            at += 1;
        }
        text.push_str(word);
        at += len;
        first = false;
    }
    text.push('\n');
}
