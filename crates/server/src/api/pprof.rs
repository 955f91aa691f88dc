//! `/debug/pprof/`: profiles of the process in pprof's format (ADR 29).
//! upstream: Go's net/http/pprof

mod encode;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use prost::Message as _;
use rubelet_engine::chain::Chain;
use rubelet_engine::ports::{NoProfile, Profiler};

use self::encode::{Shown, encode};
use super::answers::{Answer, Refusal, text};
use crate::url::query_values;

/// How long a profile lasts that is asked for without `seconds`. upstream: net/http/pprof Profile
const USUAL: u64 = 30;
/// How long one may last. Upstream's bound is the time in which its server must have answered, four hours.
const LONGEST: u64 = 600;

const INDEX: &str = "\
/debug/pprof/allocs?seconds=30   the memory that is allocated from now on
/debug/pprof/cmdline             the command line of the process
/debug/pprof/heap?seconds=30     the same, and what of it is still in use at the end
/debug/pprof/profile?seconds=30  where CPU time is used from now on
/debug/pprof/symbol              how many symbols can be looked up: none

go tool pprof reads allocs, heap and profile. The program is stripped: pprof finds the names of functions in a copy of this
build that is not, by its build id.
";

/// Profiles of Go's runtime that have no counterpart, and why.
const OF_GO: [(&str, &str); 5] = [
    ("block", "rubelet does not count how long its tasks wait"),
    ("goroutine", "rubelet has no goroutines: its tasks have no stacks while they wait"),
    ("mutex", "rubelet does not count how long its threads wait for locks"),
    ("threadcreate", "rubelet does not note where its threads were started"),
    ("trace", "rubelet has no execution traces in Go's format; /debug/pprof/profile shows where CPU time is used"),
];

/// Serves profiles.
pub(super) struct Profiles {
    pub(super) profiler: Option<Arc<dyn Profiler>>,
    /// The arguments of the process, with a zero byte between them.
    pub(super) command_line: Bytes,
}

impl Profiles {
    pub(super) async fn answer(&self, name: &str, query: Option<&str>) -> Result<Answer, Refusal> {
        match name {
            "" => Ok(text(StatusCode::OK, INDEX)),
            "cmdline" => Ok(text(StatusCode::OK, self.command_line.clone())),
            // Addresses are left as they are by clients that learn that there are no symbols.
            "symbol" => Ok(text(StatusCode::OK, "num_symbols: 0\n")),
            "profile" => self.take(Shown::Cpu, query).await,
            "heap" => self.take(Shown::InUse, query).await,
            "allocs" => self.take(Shown::Allocated, query).await,
            other => Err(match OF_GO.iter().find(|(name, _)| *name == other) {
                Some((_, why)) => (StatusCode::NOT_IMPLEMENTED, format!("{why}\n")),
                None => (StatusCode::NOT_FOUND, "Unknown profile\n".to_owned()),
            }),
        }
    }

    async fn take(&self, shown: Shown, query: Option<&str>) -> Result<Answer, Refusal> {
        let Some(profiler) = &self.profiler else { return Err(failure(shown, &NoProfile::Unsupported)) };
        let lasts = Duration::from_secs(seconds(query)?);
        let profile = match shown {
            Shown::Cpu => profiler.cpu(lasts).await,
            Shown::InUse | Shown::Allocated => profiler.heap(lasts).await,
        };
        let profile = profile.map_err(|err| failure(shown, &err))?;
        let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
        let bytes = zipped.write_all(&encode(&profile, shown).encode_to_vec()).and_then(|()| zipped.finish());
        let bytes = bytes.expect("writing to memory does not fail");
        let mut answer = text(StatusCode::OK, bytes);
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        let name = match shown {
            Shown::Cpu => "attachment; filename=\"profile\"",
            Shown::InUse => "attachment; filename=\"heap\"",
            Shown::Allocated => "attachment; filename=\"allocs\"",
        };
        headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static(name));
        Ok(answer)
    }
}

fn failure(shown: Shown, err: &NoProfile) -> Refusal {
    let what = match shown {
        Shown::Cpu => "CPU profiling",
        Shown::InUse | Shown::Allocated => "heap profiling",
    };
    let status = match err {
        NoProfile::Unsupported => StatusCode::NOT_IMPLEMENTED,
        NoProfile::Busy | NoProfile::Refused(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, format!("Could not enable {what}: {}\n", Chain(err)))
}

/// As Go reads it: what is no number above zero is as if it were not there.
fn seconds(query: Option<&str>) -> Result<u64, Refusal> {
    let refuse = |why: String| Err((StatusCode::BAD_REQUEST, why));
    if query_values(query, "debug").iter().any(|value| value != "0") {
        return refuse("profiles are in pprof's format only: leave out `debug`\n".to_owned());
    }
    let asked = query_values(query, "seconds").first().and_then(|value| value.parse::<u64>().ok());
    match asked.filter(|asked| *asked > 0).unwrap_or(USUAL) {
        longer if longer > LONGEST => refuse(format!("a profile takes at most {LONGEST} seconds\n")),
        seconds => Ok(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_27_2_how_long_a_profile_lasts() {
        for (query, lasts) in [
            (None, Some(30)),
            (Some("seconds=5"), Some(5)),
            (Some("seconds=0"), Some(30)),
            (Some("seconds=-1"), Some(30)),
            (Some("seconds=x"), Some(30)),
            (Some("seconds=600"), Some(600)),
            (Some("seconds=601"), None),
            (Some("seconds=18446744073709551615"), None),
            (Some("debug=1"), None),
            (Some("debug=0&seconds=2"), Some(2)),
        ] {
            assert_eq!(seconds(query).ok(), lasts, "{query:?}");
        }
    }
}
