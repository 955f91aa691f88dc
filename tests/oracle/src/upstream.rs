//! The Go program in which upstream's functions answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::{Value, json};

/// What upstream's side makes of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The function's answer.
    Answer(Value),
    /// The case cannot be read, or the function panicked on it.
    Refused(String),
}

/// One process of it. Cases are answered one after another, in order.
pub struct Upstream {
    child: Child,
    questions: Option<Questions>,
    answers: Option<Answers>,
}

/// The writing half.
pub struct Questions(ChildStdin);

/// The reading half.
pub struct Answers(BufReader<ChildStdout>);

impl Upstream {
    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(program: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let stdin = child.stdin.take().context("the process has no standard input")?;
        let stdout = child.stdout.take().context("the process has no standard output")?;
        let answers = Answers(BufReader::with_capacity(1 << 20, stdout));
        Ok(Self { child, questions: Some(Questions(stdin)), answers: Some(answers) })
    }

    /// The two halves, for two threads: whoever writes while nobody reads stops when both pipes are full.
    pub fn halves(&mut self) -> Option<(Questions, Answers)> {
        Some((self.questions.take()?, self.answers.take()?))
    }

    /// Asks a few cases and waits for the answers.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn ask(&mut self, function: &str, cases: &[Value]) -> anyhow::Result<Vec<Reply>> {
        let mut replies = Vec::with_capacity(cases.len());
        let (Some(questions), Some(answers)) = (&mut self.questions, &mut self.answers) else {
            bail!("both halves are in use elsewhere");
        };
        for case in cases {
            let mut line = Vec::new();
            Questions::line(function, case, &mut line)?;
            questions.send(&line)?;
            replies.push(answers.next()?);
        }
        Ok(replies)
    }
}

impl Upstream {
    /// Ends the process, whatever it does.
    pub fn stop(&mut self) {
        self.questions = None;
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Questions {
    /// Appends one case to `lines`.
    ///
    /// # Errors
    /// If it cannot be printed.
    pub fn line(function: &str, case: &Value, lines: &mut Vec<u8>) -> anyhow::Result<()> {
        serde_json::to_writer(&mut *lines, &json!({ "function": function, "case": case })).context("print a case")?;
        lines.push(b'\n');
        Ok(())
    }

    /// Sends cases.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn send(&mut self, lines: &[u8]) -> anyhow::Result<()> {
        self.0.write_all(lines).context("write cases")
    }
}

#[derive(Deserialize)]
struct Line {
    answer: Option<Value>,
    error: Option<String>,
    panic: Option<String>,
}

impl Answers {
    /// The next answer.
    ///
    /// # Errors
    /// If the process has ended or writes something else.
    #[expect(
        clippy::should_implement_trait,
        reason = "an answer is owed for every question; there is no end of answers"
    )]
    pub fn next(&mut self) -> anyhow::Result<Reply> {
        let mut text = String::new();
        if self.0.read_line(&mut text).context("read an answer")? == 0 {
            bail!("upstream's side has ended without an answer");
        }
        let line: Line = serde_json::from_str(&text).with_context(|| format!("read the answer {text:?}"))?;
        Ok(match line {
            Line { error: Some(error), .. } => Reply::Refused(error),
            Line { panic: Some(panic), .. } => Reply::Refused(format!("panic: {panic}")),
            Line { answer, .. } => Reply::Answer(answer.unwrap_or(Value::Null)),
        })
    }
}
