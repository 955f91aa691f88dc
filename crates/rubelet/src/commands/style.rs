//! Colours and signs, if the output is a terminal.

use std::io::IsTerminal;

/// How output is styled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// ASCII only: for a file, a pipe, or `NO_COLOR`.
    Plain,
    /// Colours and signs.
    Rich,
}

/// What a text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Doubtful,
    Bad,
    Faint,
    Strong,
}

impl Style {
    /// Rich on a terminal, unless `NO_COLOR` is set or the terminal is dumb. See <https://no-color.org>.
    pub(super) fn detect() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb { Self::Rich } else { Self::Plain }
    }

    /// `text` in this tone. Pad it before: escape sequences would count as width.
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Doubtful => "33",
            Tone::Bad => "31",
            Tone::Faint => "2",
            Tone::Strong => "1",
        };
        match self {
            Self::Plain => text.to_owned(),
            Self::Rich => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    /// The sign of this tone, as wide as any other.
    pub(super) fn sign(self, tone: Tone) -> &'static str {
        match (self, tone) {
            (Self::Plain, Tone::Good) => "ok  ",
            (Self::Plain, Tone::Doubtful) => "warn",
            (Self::Plain, Tone::Bad) => "FAIL",
            (Self::Rich, Tone::Good) => "✓",
            (Self::Rich, Tone::Doubtful) => "!",
            (Self::Rich, Tone::Bad) => "✗",
            (_, Tone::Faint | Tone::Strong) => " ",
        }
    }
}
