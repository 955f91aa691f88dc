//! How the fake containers behave: by script, or by their command.

use std::time::Duration;

use rubelet_core::launch::ContainerConfig;
use rubelet_engine::ports::ExecOutput;

/// How one instance of a container behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    pub(super) create_error: Option<String>,
    pub(super) start_error: Option<String>,
    pub(super) start_takes: Duration,
    /// Exits by itself after this time with this code.
    pub(super) ends: Option<(Duration, i32)>,
    /// Reaction to SIGTERM: exits after this time with this code, or none.
    pub(super) on_term: Option<(Duration, i32)>,
    /// The runtime's reason for the exit, if not the usual one.
    pub(super) reason: Option<String>,
    /// No signal ends it, like a process in uninterruptible sleep.
    pub(super) unkillable: bool,
    /// The error when the runtime is to stop it; only the end of its sandbox ends it then.
    pub(super) stop_error: Option<String>,
    /// The end of its sandbox does not end it either: only a SIGKILL without the runtime does.
    pub(super) outlives_sandbox: bool,
}

impl Behaviour {
    /// Runs for ever and exits at once on SIGTERM.
    pub fn runs() -> Self {
        Self {
            create_error: None,
            start_error: None,
            start_takes: Duration::ZERO,
            ends: None,
            on_term: Some((Duration::ZERO, 143)),
            reason: None,
            unkillable: false,
            stop_error: None,
            outlives_sandbox: false,
        }
    }

    /// Exits with `code` after `after`.
    pub fn exits_after(after: Duration, code: i32) -> Self {
        Self { ends: Some((after, code)), ..Self::runs() }
    }

    /// Exits with `code` at once.
    pub fn exits(code: i32) -> Self {
        Self::exits_after(Duration::ZERO, code)
    }

    /// Cannot be created.
    pub fn fails_to_create(message: &str) -> Self {
        Self { create_error: Some(message.into()), ..Self::runs() }
    }

    /// Can be created but not started.
    pub fn fails_to_start(message: &str) -> Self {
        Self { start_error: Some(message.into()), ..Self::runs() }
    }

    /// Only SIGKILL ends it.
    #[must_use]
    pub fn ignores_term(self) -> Self {
        Self { on_term: None, ..self }
    }

    /// No signal ends it; the runtime reports all the same that it was stopped.
    #[must_use]
    pub fn cannot_be_killed(self) -> Self {
        Self { on_term: None, unkillable: true, ..self }
    }

    /// The runtime fails to stop it; it ends with its sandbox.
    #[must_use]
    pub fn cannot_be_stopped(self, message: &str) -> Self {
        Self { stop_error: Some(message.into()), ..self }
    }

    /// The runtime fails to stop it and its sandbox; SIGKILL from outside ends it.
    #[must_use]
    pub fn outlives_its_sandbox(self, message: &str) -> Self {
        Self { outlives_sandbox: true, ..self.cannot_be_stopped(message) }
    }

    /// Takes `after` to exit on SIGTERM, with `code`.
    #[must_use]
    pub fn on_term(self, after: Duration, code: i32) -> Self {
        Self { on_term: Some((after, code)), ..self }
    }

    /// Takes `takes` to start.
    #[must_use]
    pub fn start_takes(self, takes: Duration) -> Self {
        Self { start_takes: takes, ..self }
    }

    /// Is killed by the kernel's OOM killer after `after`.
    pub fn out_of_memory_after(after: Duration) -> Self {
        Self { reason: Some("OOMKilled".into()), ..Self::exits_after(after, 137) }
    }

    /// The behaviour of the command of `config`: a small part of a shell, enough for the contract suites.
    pub(super) fn of_command(config: &ContainerConfig) -> Self {
        let words: Vec<&str> = config.command.iter().chain(&config.args).map(String::as_str).collect();
        let Some(program) = words.first() else { return Self::runs() };
        if program.starts_with("/no/such") {
            let message = format!("exec: \"{program}\": stat {program}: no such file or directory");
            return Self::fails_to_start(&message);
        }
        let script = Script::of(&words);
        let base = if script.traps_term { Self::runs().ignores_term() } else { Self::runs() };
        match script.code {
            Some(code) => Self { ends: Some((script.takes, code)), ..base },
            None => base,
        }
    }
}

/// Output and exit code of a command, and after which time; `None` if it never ends.
pub(super) fn run_command(words: &[String]) -> (Duration, Option<ExecOutput>) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let script = Script::of(&words);
    let output = |code| ExecOutput { exit_code: code, stdout: script.stdout.into_bytes(), stderr: Vec::new() };
    // Unlike in a container, an unknown command of an exec succeeds.
    let code = if script.endless { None } else { Some(script.code.unwrap_or_default()) };
    (script.takes, code.map(output))
}

/// The result of a script: `sleep N`, `exit N`, `echo …`, `true`, `false`, `trap '' TERM`, one after another.
#[derive(Default)]
struct Script {
    takes: Duration,
    /// `None` if the script has no explicit end.
    code: Option<i32>,
    endless: bool,
    traps_term: bool,
    stdout: String,
}

impl Script {
    fn of(words: &[&str]) -> Self {
        let mut script = Self::default();
        let text = match words {
            [shell, "-c", text, ..] if shell.ends_with("sh") => (*text).to_owned(),
            words => words.join(" "),
        };
        for step in text.split(';').map(str::trim) {
            let mut words = step.split_whitespace();
            match (words.next(), words.next()) {
                (Some("sleep"), Some("infinity")) => {
                    script.endless = true;
                    script.code = None;
                    return script;
                }
                (Some("sleep"), Some(secs)) => {
                    script.takes += Duration::from_secs_f64(secs.parse().unwrap_or_default());
                    script.code = Some(0);
                }
                (Some("exit"), Some(code)) => {
                    script.code = code.parse().ok();
                    return script;
                }
                (Some("true"), None) => script.code = Some(0),
                (Some("false"), None) => script.code = Some(1),
                (Some("echo"), _) => {
                    script.stdout.push_str(step.trim_start_matches("echo").trim());
                    script.stdout.push('\n');
                    script.code = Some(0);
                }
                (Some("trap"), Some("''")) => script.traps_term = true,
                _ => {}
            }
        }
        script
    }
}
