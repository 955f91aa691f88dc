//! `/logs/`: the files below the node's log directory, as Go's file server shows them, and the logs of services (HTTP-05).
//!
//! The path and the query are the caller's. What they lead to is resolved by the port, by descriptor; this module only
//! makes responses of it. Every file is sent as plain text: containers write some of them, and a browser must run none.
//! upstream: kubelet.go Run (logServer), kubelet_server_journal.go (v1.36); Go's net/http FileServer

use std::io::ErrorKind;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_MODIFIED_SINCE, IF_RANGE, LAST_MODIFIED, LOCATION,
    RANGE,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use rubelet_engine::chain::Chain;
use rubelet_engine::ports::{
    FileError, JournalError, JournalQuery, JournalText, NodeLog, NodeLogEntry, NodeLogFile, NodeLogs,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answers::{Answer, Body, Refusal, stream as streamed, text, whole};
use super::node_log_query::{NodeLogQuery, Wanted, unreadable};
use crate::url::encode;

/// Concurrent readers of the node's logs. Each costs a descriptor and a piece of a file.
const MOST_READERS: usize = 32;
/// How much of a file is read at a time.
const PIECE: usize = 64 * 1024;

const NOT_FOUND: &str = "404 page not found\n";

/// Serves the node's logs.
pub(super) struct NodeLogPages {
    logs: Arc<dyn NodeLogs>,
    /// `enableSystemLogQuery`.
    queries: bool,
    readers: Arc<Semaphore>,
}

impl NodeLogPages {
    pub(super) fn new(logs: Arc<dyn NodeLogs>, queries: bool) -> Self {
        Self { logs, queries, readers: Arc::new(Semaphore::new(MOST_READERS)) }
    }

    /// `path` is the canonical path of the request.
    pub(super) async fn answer(&self, path: &str, query: Option<&str>, headers: &HeaderMap) -> Result<Answer, Refusal> {
        let Some(inside) = path.strip_prefix("/logs/") else {
            return Err((StatusCode::NOT_FOUND, NOT_FOUND.to_owned()));
        };
        let Ok(place) = Arc::clone(&self.readers).try_acquire_owned() else {
            return Err((
                StatusCode::SERVICE_UNAVAILABLE,
                "too many logs of this node are being read: try again later\n".to_owned(),
            ));
        };
        let bad = |status: StatusCode| move |why: String| (status, format!("{why}\n"));
        let parsed =
            if self.queries { NodeLogQuery::parse(query).map_err(bad(StatusCode::BAD_REQUEST))? } else { None };
        let Some(parsed) = parsed else { return self.file(inside, query, headers, place).await };
        if !inside.is_empty() {
            return Err(bad(StatusCode::NOT_ACCEPTABLE)("path not allowed in query mode".to_owned()));
        }
        match parsed.validate().map_err(bad(StatusCode::NOT_ACCEPTABLE))? {
            Wanted::Services { query, options } => Ok(self.services(query, options, place).await),
            Wanted::File(file) => {
                let refused = |why: &str| bad(StatusCode::NOT_ACCEPTABLE)(unreadable(&file, why));
                if file.starts_with('/') {
                    return Err(refused("path escapes from parent"));
                }
                match self.logs.open(&file).await {
                    Ok(log) => Ok(found(log, &file, None, headers, place)),
                    Err(err) if err.source.kind() == ErrorKind::NotFound => Err(refused("no such file or directory")),
                    Err(err) => Err(refused(&err.source.to_string())),
                }
            }
        }
    }

    async fn file(
        &self,
        inside: &str,
        query: Option<&str>,
        headers: &HeaderMap,
        place: OwnedSemaphorePermit,
    ) -> Result<Answer, Refusal> {
        let log = self.logs.open(inside).await.map_err(|err| refusal(&err))?;
        Ok(found(log, inside, Some(query), headers, place))
    }

    /// The logs of services: from the journal if it knows them, else from files.
    #[doc(alias = "copyForBoot")]
    async fn services(&self, mut query: JournalQuery, options: bool, place: OwnedSemaphorePermit) -> Answer {
        let known = self.logs.in_journal(&query.services).await;
        let (native, files): (Vec<_>, Vec<_>) = query.services.into_iter().zip(known).partition(|(_, known)| *known);
        let names = |services: Vec<(String, bool)>| services.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let (native, files) = (names(native), names(files));
        let mut parts = Vec::new();
        if !native.is_empty() {
            query.services = native;
            parts.push(match self.logs.journal(&query).await {
                Ok(journal) => Part::Journal(journal),
                Err(err @ JournalError::TooMany) => return text(StatusCode::SERVICE_UNAVAILABLE, format!("{err}\n")),
                Err(JournalError::Start(_)) => Part::Text("\nerror: journal output not available\n".to_owned()),
            });
        }
        if !files.is_empty() && options {
            let files = files.join(" ");
            parts.push(Part::Text(format!(
                "\noptions present and query resolved to log files for [{files}]\ntry without specifying options\n"
            )));
        } else {
            for service in files {
                parts.push(self.log_of(&service).await);
            }
        }
        parts.reverse();
        let mut answer = streamed(in_turn(Parts { parts, _place: place }));
        header(&mut answer, CONTENT_TYPE, "text/plain;charset=UTF-8");
        answer
    }

    /// The log file of a service, by the names that are common.
    #[doc(alias = "heuristicsCopyFileLogs")]
    async fn log_of(&self, service: &str) -> Part {
        for name in [service.to_owned(), format!("{service}.log"), format!("{service}/{service}.log")] {
            match self.logs.open(&name).await {
                Ok(NodeLog::File { size, content, .. }) => return Part::File { content, at: 0, left: size },
                Ok(NodeLog::Directory { .. }) => {}
                Err(err) if err.source.kind() == ErrorKind::NotFound => {}
                Err(err) => return Part::Text(format!("\nerror getting log for {service}: {}\n", Chain(&err))),
            }
        }
        Part::Text(format!("\nlog not found for {service}\n"))
    }
}

/// The response for what was found. With `redirect`, a directory's path ends with a slash, and a file's does not.
fn found(
    log: NodeLog,
    inside: &str,
    redirect: Option<Option<&str>>,
    headers: &HeaderMap,
    place: OwnedSemaphorePermit,
) -> Answer {
    let last = inside.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match (log, redirect) {
        (NodeLog::Directory { .. }, Some(query)) if !inside.is_empty() && !inside.ends_with('/') => {
            redirected(&format!("{}/", encode(last)), query)
        }
        (NodeLog::File { .. }, Some(query)) if inside.ends_with('/') => {
            redirected(&format!("../{}", encode(last)), query)
        }
        (NodeLog::Directory { entries, more }, _) => listing(&entries, more),
        (NodeLog::File { size, modified, content }, _) => content_of(size, modified, content, headers, place),
    }
}

fn content_of(
    size: u64,
    modified: Timestamp,
    content: Box<dyn NodeLogFile>,
    headers: &HeaderMap,
    place: OwnedSemaphorePermit,
) -> Answer {
    let modified = http_date(modified);
    let given = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    // A client that returns the time that it got has the file as it is.
    if given(RANGE).is_none() && given(IF_MODIFIED_SINCE) == Some(modified.as_str()) {
        let mut answer = Answer::new(whole(""));
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        return answer;
    }
    let wanted = given(RANGE).filter(|_| given(IF_RANGE).is_none_or(|known| known == modified));
    let range = match wanted.map_or(Ok(None), |wanted| range(wanted, size)) {
        Ok(range) => range,
        Err(why) => {
            let mut answer = text(StatusCode::RANGE_NOT_SATISFIABLE, format!("{why}\n"));
            header(&mut answer, CONTENT_RANGE, &format!("bytes */{size}"));
            return answer;
        }
    };
    let (start, length) = range.unwrap_or((0, size));
    let mut answer = streamed(body(FileStream { content, at: start, left: length, _place: place }));
    header(&mut answer, ACCEPT_RANGES, "bytes");
    header(&mut answer, LAST_MODIFIED, &modified);
    header(&mut answer, CONTENT_LENGTH, &length.to_string());
    if range.is_some() {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        let last = (start + length).saturating_sub(1);
        header(&mut answer, CONTENT_RANGE, &format!("bytes {start}-{last}/{size}"));
    }
    answer
}

/// upstream: Go's net/http toHTTPError
fn refusal(err: &FileError) -> Refusal {
    match err.source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => (StatusCode::NOT_FOUND, NOT_FOUND.to_owned()),
        ErrorKind::PermissionDenied => (StatusCode::FORBIDDEN, "403 Forbidden\n".to_owned()),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n".to_owned()),
    }
}

/// A redirect that is relative, so that it holds behind the API server's proxy too.
fn redirected(to: &str, query: Option<&str>) -> Answer {
    let to = query.map_or_else(|| to.to_owned(), |query| format!("{to}?{query}"));
    let mut answer = Answer::new(whole(""));
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    header(&mut answer, LOCATION, &to);
    answer
}

fn header(answer: &mut Answer, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// upstream: Go's net/http dirList
fn listing(entries: &[NodeLogEntry], more: bool) -> Answer {
    let mut page = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_owned();
    for entry in entries {
        let name = format!("{}{}", entry.name, if entry.is_directory { "/" } else { "" });
        page.push_str(&format!("<a href=\"{}\">{}</a>\n", encode(&name), escaped(&name)));
    }
    if more {
        page.push_str("and more\n");
    }
    page.push_str("</pre>\n");
    let mut answer = text(StatusCode::OK, page);
    header(&mut answer, CONTENT_TYPE, "text/html; charset=utf-8");
    answer
}

fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// RFC 9110's date, such as `Thu, 01 Jan 2026 00:00:00 GMT`.
fn http_date(time: Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// The start and length of the one range that is wanted; `None` for the whole file, which is also the answer to a request
/// for several ranges. upstream: Go's net/http parseRange
fn range(wanted: &str, size: u64) -> Result<Option<(u64, u64)>, &'static str> {
    const INVALID: &str = "invalid range";
    let specs = wanted.strip_prefix("bytes=").ok_or(INVALID)?;
    let mut specs = specs.split(',').map(str::trim).filter(|spec| !spec.is_empty());
    let (Some(spec), None) = (specs.next(), specs.next()) else { return Ok(None) };
    let (first, last) = spec.split_once('-').ok_or(INVALID)?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| digits).ok_or(INVALID)
    };
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        let length = number(last)?.min(size);
        return Ok(Some((size - length, length)));
    }
    let start = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    match (start <= last, start < size) {
        (false, _) => Err(INVALID),
        // Some clients ask for a range of every file.
        (true, false) if size == 0 => Ok(None),
        (true, false) => Err("invalid range: failed to overlap"),
        (true, true) => Ok(Some((start, last.min(size - 1) - start + 1))),
    }
}

/// A file being sent.
struct FileStream {
    content: Box<dyn NodeLogFile>,
    at: u64,
    left: u64,
    /// The permit of this reader.
    _place: OwnedSemaphorePermit,
}

/// The next piece of a file; `None` at its end, and if it cannot be read further.
async fn next_piece(content: &dyn NodeLogFile, at: &mut u64, left: &mut u64) -> Option<Bytes> {
    let most = usize::try_from(*left).map_or(PIECE, |left| left.min(PIECE));
    if most == 0 {
        return None;
    }
    let piece = content.read(*at, most).await.ok().filter(|piece| !piece.is_empty())?;
    let read = u64::try_from(piece.len()).unwrap_or(u64::MAX);
    (*at, *left) = (at.saturating_add(read), left.saturating_sub(read));
    Some(Bytes::from(piece))
}

/// A file as a body: read at the client's pace.
fn body(file: FileStream) -> Body {
    let pieces = stream::unfold(file, |mut file| async move {
        let piece = next_piece(file.content.as_ref(), &mut file.at, &mut file.left).await?;
        Some((Ok(Frame::data(piece)), file))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// A part of the answer to a query of services.
enum Part {
    Journal(Box<dyn JournalText>),
    File { content: Box<dyn NodeLogFile>, at: u64, left: u64 },
    Text(String),
}

/// The parts that are left, the next one last.
struct Parts {
    parts: Vec<Part>,
    _place: OwnedSemaphorePermit,
}

fn in_turn(parts: Parts) -> Body {
    let pieces = stream::unfold(parts, |mut parts| async move {
        loop {
            let piece = match parts.parts.last_mut()? {
                Part::Journal(journal) => journal.next().await.map(Bytes::from),
                Part::File { content, at, left } => next_piece(content.as_ref(), at, left).await,
                Part::Text(text) if text.is_empty() => None,
                Part::Text(text) => Some(Bytes::from(std::mem::take(text))),
            };
            match piece {
                Some(piece) => return Some((Ok(Frame::data(piece)), parts)),
                None => drop(parts.parts.pop()),
            }
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_go_reads_it() {
        for (wanted, size, expected) in [
            ("bytes=0-4", 10, Ok(Some((0, 5)))),
            ("bytes=2-", 10, Ok(Some((2, 8)))),
            ("bytes=-3", 10, Ok(Some((7, 3)))),
            ("bytes=-30", 10, Ok(Some((0, 10)))),
            ("bytes=5-100", 10, Ok(Some((5, 5)))),
            ("bytes=5-18446744073709551615", 10, Ok(Some((5, 5)))),
            ("bytes=10-", 10, Err("invalid range: failed to overlap")),
            ("bytes=0-", 0, Ok(None)),
            ("bytes=0-1,4-5", 10, Ok(None)),
            ("bytes=,", 10, Ok(None)),
            ("bytes=4-2", 10, Err("invalid range")),
            ("bytes=+1-2", 10, Err("invalid range")),
            ("bytes=--1", 10, Err("invalid range")),
            ("bytes=1", 10, Err("invalid range")),
            ("bytes=99999999999999999999-", 10, Err("invalid range")),
            ("lines=1-2", 10, Err("invalid range")),
        ] {
            assert_eq!(range(wanted, size), expected, "{wanted} of {size}");
        }
    }

    #[test]
    fn a_name_is_text_in_a_listing() {
        let hostile = "<script>alert('1')</script>&\"?#%.log";
        assert_eq!(escaped(hostile), "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&#34;?#%.log");
        assert!(!encode(hostile).contains(['<', '"', '?', '#', ':']));
        assert_eq!(http_date("2026-01-01T00:00:00Z".parse().unwrap()), "Thu, 01 Jan 2026 00:00:00 GMT");
    }
}
