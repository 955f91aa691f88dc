//! rubelet's own log: to stderr, one line per event, as text for people or as JSON for collectors.
//!
//! How `-v` (klog's scale) becomes a level:
//!
//! | `-v` | rubelet's lines | lines of libraries |
//! |---|---|---|
//! | 0 to 3 | info: what happened | warn |
//! | 4, 5 | debug: and why | warn |
//! | 6, 7 | trace: every call | info |
//! | 8 and more | trace | trace |
//!
//! `--vmodule=pattern=N` sets the scale for modules whose last name, or whose source file, matches the pattern.
//! JSON lines carry upstream's keys: `ts` in milliseconds since the epoch, `v` for info and finer, `msg`, then the
//! fields of the enclosing spans and of the event; `level` and `caller` tell the rest.

mod json;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};

use rubelet_core::config::{LogFormat, Logging};
use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::{Layer as _, filter};

/// Logging was set up before.
#[derive(Debug, thiserror::Error)]
#[error("logging is already set up")]
pub struct LogSetupError(#[source] tracing::subscriber::SetGlobalDefaultError);

/// Sends every line of this process to stderr from now on.
///
/// # Errors
/// [`LogSetupError`] the second time.
pub fn init(logging: &Logging) -> Result<(), LogSetupError> {
    // https://no-color.org: any value that is not empty means no colours.
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let colours = if wanted && io::stderr().is_terminal() { Colours::Ansi } else { Colours::None };
    tracing::subscriber::set_global_default(subscriber(logging, colours, io::stderr)).map_err(LogSetupError)
}

/// Whether text lines are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// With terminal codes.
    Ansi,
    /// Plain.
    None,
}

/// The subscriber that writes to `writer`.
pub fn subscriber<W>(logging: &Logging, colours: Colours, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let verbosity = Verbosity::new(logging);
    let most = verbosity.most();
    let filter = filter::filter_fn(move |metadata| verbosity.allows(metadata)).with_max_level_hint(most);
    match logging.format {
        LogFormat::Text => {
            let layer = tracing_subscriber::fmt::layer().with_ansi(colours == Colours::Ansi).with_writer(writer);
            Box::new(Registry::default().with(layer.with_filter(filter)))
        }
        LogFormat::Json => {
            let layer = tracing_subscriber::fmt::layer()
                .fmt_fields(tracing_subscriber::fmt::format::JsonFields::new())
                .event_format(json::Lines)
                .with_writer(writer);
            Box::new(Registry::default().with(layer.with_filter(filter)))
        }
    }
}

/// The level of rubelet's own lines at a klog verbosity.
#[must_use]
pub const fn level(verbosity: u32) -> LevelFilter {
    match verbosity {
        0..=3 => LevelFilter::INFO,
        4 | 5 => LevelFilter::DEBUG,
        6.. => LevelFilter::TRACE,
    }
}

const fn library_level(verbosity: u32) -> LevelFilter {
    match verbosity {
        0..=5 => LevelFilter::WARN,
        6 | 7 => LevelFilter::INFO,
        8.. => LevelFilter::TRACE,
    }
}

struct Verbosity {
    own: LevelFilter,
    libraries: LevelFilter,
    modules: Vec<(String, LevelFilter)>,
}

impl Verbosity {
    fn new(logging: &Logging) -> Self {
        Self {
            own: level(logging.verbosity),
            libraries: library_level(logging.verbosity),
            modules: logging.vmodule.iter().map(|item| (item.file_pattern.clone(), level(item.verbosity))).collect(),
        }
    }

    fn most(&self) -> LevelFilter {
        self.modules.iter().map(|(_, level)| *level).chain([self.own, self.libraries]).max().unwrap_or(self.own)
    }

    fn allows(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let module = target.rsplit("::").next().unwrap_or(target);
        let file = metadata.file().and_then(|file| file.rsplit('/').next()).map(|file| file.trim_end_matches(".rs"));
        let named = self
            .modules
            .iter()
            .find(|(pattern, _)| matches(pattern, module) || file.is_some_and(|file| matches(pattern, file)));
        let own = target.starts_with("rubelet");
        let general = if own { self.own } else { self.libraries };
        *metadata.level() <= named.map_or(general, |(_, level)| *level)
    }
}

/// Shell patterns of `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    loop {
        match pattern.next() {
            None => return name.next().is_none(),
            Some('*') => {
                let tail = pattern.as_str();
                return (0..=name.as_str().len())
                    .filter_map(|at| name.as_str().get(at..))
                    .any(|name| matches(tail, name));
            }
            Some('?') if name.next().is_some() => {}
            Some(letter) if letter != '?' && name.next() == Some(letter) => {}
            Some(_) => return false,
        }
    }
}
