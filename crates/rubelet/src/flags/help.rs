//! Help texts, grouped by topic.

use std::fmt::Write as _;

use rubelet_core::config::{KubeletConfiguration, known_features};

use super::flag::{Flag, Group, Standing};
use super::settings::Settings;
use super::{KUBERNETES_VERSION, REPORTED_VERSION, table, value};

/// Where help texts begin.
const INDENT: usize = 32;
/// Where lines end.
const WIDTH: usize = 100;

pub(super) fn run() -> String {
    let mut text = format!(
        "rubelet runs the pods of one node: a drop-in for the kubelet of Kubernetes {KUBERNETES_VERSION}.\n\n\
         Usage:\n  \
         rubelet [FLAGS]              run the node's agent\n  \
         rubelet pods [FLAGS]         list the pods of this node\n  \
         rubelet explain POD [FLAGS]  show what happened to a pod and what it waits for\n  \
         rubelet check [FLAGS]        test this machine before use\n\n\
         Flags may be written with - or _, as --flag=value or --flag value. A flag with a [field] after its\n\
         text is deprecated in favour of that field in the --config file; both work, and the flag wins.\n"
    );
    flags(&mut text, table::run_flags());
    text
}

pub(super) fn pods() -> String {
    tool("rubelet pods [FLAGS]", "List the pods of this node: state, reason, restarts, age.", table::tool_flags())
}

pub(super) fn explain() -> String {
    let about = "Tell a pod's story on this node, each step with its time, and what it waits for now. POD is a name, \
                 namespace/name, or a UID.";
    tool("rubelet explain POD [FLAGS]", about, table::tool_flags())
}

pub(super) fn check() -> String {
    let about = "Test this machine before use: runtime, cgroups, swap, ports, kernel, disk. Takes every flag of a run, \
                 and tests for that run.";
    tool("rubelet check [FLAGS]", about, table::check_flags())
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

fn tool(usage: &str, about: &str, of: impl Iterator<Item = &'static Flag> + Clone) -> String {
    let mut text = String::new();
    wrapped(&mut text, about, 0, 0);
    let _ = write!(text, "\nUsage:\n  {usage}\n");
    flags(&mut text, of);
    text
}

fn flags(text: &mut String, of: impl Iterator<Item = &'static Flag> + Clone) {
    let mut settings = Settings::over(KubeletConfiguration::legacy_defaults());
    for group in Group::ALL {
        let mut members = of.clone().filter(|flag| flag.group == group).peekable();
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
    text.push_str(&left);
    let used = left.chars().count();
    if used + 2 > INDENT {
        text.push('\n');
        text.push_str(&" ".repeat(INDENT));
    } else {
        text.push_str(&" ".repeat(INDENT - used));
    }
    wrapped(text, &right, INDENT, INDENT);
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
