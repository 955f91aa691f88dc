//! Why a command line is invalid.

use std::ffi::OsString;

/// Why a command line is invalid. Every message names the argument and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// No such flag of this command.
    #[error("{}{}", unknown(.command, .flag), hint(.command, .flag, *.nearest))]
    UnknownFlag {
        /// The command, such as `rubelet pods`.
        command: String,
        /// The flag as it was written, without a value.
        flag: String,
        /// The flag it was probably meant to be.
        nearest: Option<&'static str>,
    },
    /// A flag of more than one letter with one dash.
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
    #[error("unknown command {word:?}; without a command rubelet runs the node, else there are {}{}", .known.join(", "), guess(.nearest.map(str::to_owned)))]
    UnknownCommand {
        /// The argument.
        word: String,
        /// The commands that there are.
        known: Vec<&'static str>,
        /// The command it was probably meant to be.
        nearest: Option<&'static str>,
    },
    /// `--switch false`: the value must be attached.
    #[error("unexpected argument {0:?}; a switch takes its value after '=', like --fail-swap-on={0}")]
    DetachedSwitch(String),
    /// A command without a required argument.
    #[error("{command} needs {what}: {command} {what}")]
    Missing {
        /// The command.
        command: String,
        /// What it needs.
        what: String,
    },
    /// A command with an argument that it does not know.
    #[error("{command} knows no {word:?}: {command} {what}")]
    Argument {
        /// The command.
        command: String,
        /// The argument.
        word: String,
        /// What would be valid.
        what: String,
    },
    /// A command with an argument too many.
    #[error("unexpected argument {word:?} after {command}")]
    Unexpected {
        /// The command.
        command: String,
        /// The argument.
        word: String,
    },
    /// An argument that is not UTF-8.
    #[error("argument {0:?} is not valid UTF-8")]
    NotText(OsString),
}

fn guess(name: Option<String>) -> String {
    name.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

fn unknown(command: &str, flag: &str) -> String {
    match command {
        "rubelet" => format!("unknown flag {flag}"),
        command => format!("{command} has no flag {flag}"),
    }
}

/// What to write instead of an unknown flag. Users of `kubectl get pods` expect `--watch`.
fn hint(command: &str, flag: &str, nearest: Option<&str>) -> String {
    match (flag, nearest) {
        ("-w" | "--watch", _) if command == "rubelet pods" => {
            "; to see changes, run it every second: watch -n 1 rubelet pods".to_owned()
        }
        (_, Some(name)) => format!("; did you mean --{name}?"),
        (_, None) if command == "rubelet" => "; rubelet --help lists all of them".to_owned(),
        (_, None) => format!("; {command} --help lists its flags"),
    }
}
