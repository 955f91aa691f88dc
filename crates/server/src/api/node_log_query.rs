//! The query of `/logs/?query=…`: which logs of the node's services or files are wanted (HTTP-05). Pure.
//! upstream: kubelet_server_journal.go newNodeLogQuery, validate (v1.36)

use jiff::Timestamp;
use rubelet_engine::ports::JournalQuery;

use crate::url::query_values;

/// upstream: kubelet_server_journal.go maxTailLines, maxServiceLength, maxServices (v1.36)
const MOST_TAIL_LINES: i64 = 100_000;
const LONGEST_SERVICE: usize = 256;
const MOST_SERVICES: usize = 4;
/// Longest pattern: ours. It is matched against every entry.
const LONGEST_PATTERN: usize = 1024;

/// A query that can be read. Whether it can be answered is decided by [`NodeLogQuery::validate`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeLogQuery {
    services: Vec<String>,
    files: Vec<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    tail_lines: Option<i64>,
    boot: Option<i64>,
    pattern: String,
}

/// What a valid query asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// This file below the log directory.
    File(String),
    /// The logs of services: of those that log to files, only without options.
    Services {
        /// Services and options.
        query: JournalQuery,
        /// There is at least one option.
        options: bool,
    },
}

impl NodeLogQuery {
    /// The query, or `None` if the request asks for a file by its path. An error is the text for the client.
    pub(super) fn parse(query: Option<&str>) -> Result<Option<Self>, String> {
        let mut errors = Vec::new();
        let first = |key: &str| query_values(query, key).into_iter().next().filter(|value| !value.is_empty());
        let (files, services): (Vec<_>, Vec<_>) =
            query_values(query, "query").into_iter().partition(|word| word.contains(['/', '\\']));
        let given = !files.is_empty() || !services.is_empty();
        let spaces = services.clone();
        let services: Vec<String> = services.into_iter().filter(|word| !word.trim().is_empty()).collect();
        if given && files.is_empty() && services.is_empty() {
            errors.push(invalid("query", &json(&spaces), "may not be empty"));
        }
        let mut time = |key: &str| {
            let text = first(key)?;
            let time = text.parse::<Timestamp>();
            if time.is_err() {
                errors.push(invalid(key, &format!("{text:?}"), "invalid time format"));
            }
            time.ok()
        };
        let (since, until) = (time("sinceTime"), time("untilTime"));
        let mut number = |key: &str| {
            let text = first(key)?;
            let number = text.parse::<i64>();
            if let Err(err) = &number {
                let why = match err.kind() {
                    std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                errors.push(invalid(key, &format!("{text:?}"), &format!("strconv.Atoi: parsing {text:?}: {why}")));
            }
            number.ok()
        };
        let (boot, tail_lines) = (number("boot"), number("tailLines"));
        let pattern = first("pattern").unwrap_or_default();
        let parsed = Self { services, files, since, until, tail_lines, boot, pattern };
        if errors.is_empty() { Ok((parsed != Self::default()).then_some(parsed)) } else { Err(joined(&errors)) }
    }

    fn has_options(&self) -> bool {
        let Self { since, until, tail_lines, boot, pattern, .. } = self;
        since.is_some() || until.is_some() || tail_lines.is_some() || boot.is_some() || !pattern.is_empty()
    }

    /// What is wanted. An error is the text for the client.
    pub(super) fn validate(self) -> Result<Wanted, String> {
        let mut errors: Vec<String> = self.services.iter().filter_map(|service| unsafe_name(service)).collect();
        if self.services.len() > MOST_SERVICES {
            let count = self.services.len();
            errors.push(format!("query: Too many: {count}: must have at most {MOST_SERVICES} items"));
        }
        let list = |words: &[String]| format!("[{}]", words.join(" "));
        match (self.files.as_slice(), self.services.as_slice()) {
            ([], []) => errors.push("query: Required value: cannot be empty with options".to_owned()),
            (files @ [_, ..], services @ [_, ..]) => {
                let both = format!("{}, {}", list(files), list(services));
                errors.push(invalid("query", &format!("{both:?}"), "cannot specify a file and service"));
            }
            (files @ [_, _, ..], []) => {
                errors.push(invalid("query", &json(files), "cannot specify more than one file"));
            }
            (files @ [_], []) if self.has_options() => {
                errors.push(invalid("query", &json(files), "cannot specify file with options"));
            }
            (_, _) => {}
        }
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since > until
        {
            errors.push(invalid("untilTime", &format!("\"{until}\""), "must be after `sinceTime`"));
        }
        let boot = self.boot.map(|boot| (boot, i32::try_from(boot).ok().filter(|boot| *boot <= 0)));
        if let Some((boot, None)) = boot {
            errors.push(invalid("boot", &boot.to_string(), "must be less than 1"));
        }
        let in_range = |lines: i64| u32::try_from(lines).ok().filter(|_| lines <= MOST_TAIL_LINES);
        let tail_lines = self.tail_lines.map(|lines| (lines, in_range(lines)));
        if let Some((lines, None)) = tail_lines {
            let rule = format!("must be between 0 and {MOST_TAIL_LINES}, inclusive");
            errors.push(invalid("tailLines", &lines.to_string(), &rule));
        }
        if self.pattern.len() > LONGEST_PATTERN || self.pattern.contains('\0') {
            let rule = format!("must have at most {LONGEST_PATTERN} bytes, none of them zero");
            errors.push(format!("pattern: Invalid value: {rule}"));
        }
        if !errors.is_empty() {
            return Err(joined(&errors));
        }
        let options = self.has_options();
        Ok(match self.files.into_iter().next() {
            Some(file) => Wanted::File(file),
            None => Wanted::Services {
                query: JournalQuery {
                    services: self.services,
                    since: self.since,
                    until: self.until,
                    tail_lines: tail_lines.and_then(|(_, lines)| lines),
                    boot: boot.and_then(|(_, boot)| boot),
                    pattern: self.pattern,
                },
                options,
            },
        })
    }
}

/// Why the name of a service is refused.
#[doc(alias = "safeServiceName")]
fn unsafe_name(service: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '@');
    let value = format!("{service:?}");
    if service.len() > LONGEST_SERVICE {
        return Some(invalid("query", &value, &format!("length must be less than {LONGEST_SERVICE}")));
    }
    (!service.chars().all(plain)).then(|| invalid("query", &value, "input contains unsupported characters"))
}

/// The file that a query names cannot be opened.
pub(super) fn unreadable(file: &str, why: &str) -> String {
    invalid("query", &json(&[file.to_owned()]), &format!("statat {file}: {why}"))
}

/// upstream: apimachinery/pkg/util/validation/field Error.ErrorBody (v1.36)
fn invalid(field: &str, value: &str, detail: &str) -> String {
    format!("{field}: Invalid value: {value}: {detail}")
}

fn json(words: &[String]) -> String {
    serde_json::to_string(words).unwrap_or_default()
}

/// upstream: apimachinery/pkg/util/errors aggregate.Error (v1.36)
fn joined(errors: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a query comes down to, or the error of its first or second stage.
    fn check(query: &str) -> String {
        match NodeLogQuery::parse(Some(query)) {
            Err(why) => format!("400 {why}"),
            Ok(None) => "path".to_owned(),
            Ok(Some(parsed)) => match parsed.validate() {
                Err(why) => format!("406 {why}"),
                Ok(Wanted::File(file)) => format!("file {file}"),
                Ok(Wanted::Services { query, options }) => format!("{} options={options}", query.services.join(" ")),
            },
        }
    }

    #[test]
    fn http_05_a_query_names_services_or_one_file() {
        for (query, expected) in [
            ("", "path"),
            ("unknown=1", "path"),
            ("query=kubelet", "kubelet options=false"),
            ("query=kubelet&query=crio", "kubelet crio options=false"),
            ("query=foo.log", "foo.log options=false"),
            ("query=a/foo.log", "file a/foo.log"),
            ("query=kubelet&tailLines=10", "kubelet options=true"),
            ("query=kubelet&boot=0", "kubelet options=true"),
            ("query=kubelet&pattern=error", "kubelet options=true"),
            ("query=%20%20", "400 query: Invalid value: [\"  \"]: may not be empty"),
            ("query=", "400 query: Invalid value: [\"\"]: may not be empty"),
            ("tailLines=10", "406 query: Required value: cannot be empty with options"),
            ("query=a&query=b/c", "406 query: Invalid value: \"[b/c], [a]\": cannot specify a file and service"),
            ("query=a/b&query=c/d", "406 query: Invalid value: [\"a/b\",\"c/d\"]: cannot specify more than one file"),
            ("query=a/b&boot=0", "406 query: Invalid value: [\"a/b\"]: cannot specify file with options"),
            ("query=a&query=b&query=c&query=d&query=e", "406 query: Too many: 5: must have at most 4 items"),
        ] {
            assert_eq!(check(query), expected, "{query}");
        }
    }

    #[test]
    fn http_05_options_are_validated() {
        for (query, expected) in [
            ("query=a&tailLines=100000", "a options=true"),
            (
                "query=a&tailLines=100001",
                "406 tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive",
            ),
            ("query=a&tailLines=-1", "406 tailLines: Invalid value: -1: must be between 0 and 100000, inclusive"),
            ("query=a&tailLines=x", "400 tailLines: Invalid value: \"x\": strconv.Atoi: parsing \"x\": invalid syntax"),
            ("query=a&boot=1", "406 boot: Invalid value: 1: must be less than 1"),
            ("query=a&sinceTime=x", "400 sinceTime: Invalid value: \"x\": invalid time format"),
            (
                "query=a&sinceTime=x&untilTime=x",
                "400 [sinceTime: Invalid value: \"x\": invalid time format, untilTime: Invalid value: \"x\": invalid \
                 time format]",
            ),
            ("query=a&sinceTime=2026-01-01T00:00:00Z&untilTime=2026-01-02T00:00:00Z", "a options=true"),
            (
                "query=a&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z",
                "406 untilTime: Invalid value: \"2026-01-01T00:00:00Z\": must be after `sinceTime`",
            ),
        ] {
            assert_eq!(check(query), expected, "{query}");
        }
        let long = format!("query=a&pattern={}", "x".repeat(LONGEST_PATTERN + 1));
        assert!(check(&long).starts_with("406 pattern: Invalid value: must have at most 1024 bytes"));
        assert!(check("query=a&pattern=%00").starts_with("406 pattern"));
    }

    #[test]
    fn http_05_the_name_of_a_service_cannot_leave_its_argument() {
        for bad in ["a%20b", "a%3Bid", "$(id)", "a%60", "a%26", "a%0A--flush", "a%00", "a*", "ä", "a'b", "a\"b"] {
            let found = check(&format!("query={bad}"));
            assert!(found.starts_with("406") && found.ends_with("input contains unsupported characters"), "{found}");
        }
        let long = check(&format!("query={}", "x".repeat(257)));
        assert!(long.ends_with("length must be less than 256"), "{long}");
        assert_eq!(check("query=dbus-:1.2@x_y.z"), "dbus-:1.2@x_y.z options=false");
        assert_eq!(check("query=--flush"), "--flush options=false", "it becomes --unit=--flush");
    }
}
