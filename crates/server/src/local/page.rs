//! The page for people: static files of our own, and the headers that keep a browser from doing more with them than it has to.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_FRAME_OPTIONS};

use crate::http1::{Answer, answer};

/// Scripts and styles are the page's own files; it loads nothing else, submits nothing, and is shown in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files: path, type, content.
const FILES: [(&str, &str, &str); 4] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// The page's file at this path.
pub(super) fn file(path: &str) -> Option<Answer> {
    let (_, kind, text) = FILES.iter().find(|(known, _, _)| *known == path)?;
    Some(answer(StatusCode::OK, kind, Bytes::from_static(text.as_bytes())))
}

/// Adds the headers that every answer has.
pub(super) fn guarded(mut answer: Answer) -> Answer {
    let headers: [(HeaderName, &'static str); 6] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_never_makes_markup_of_text() {
        for (path, _, text) in FILES {
            let outside = text.matches("://").count() - text.matches("http://www.w3.org/").count();
            assert_eq!(outside, 0, "{path} names an address");
            for word in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=\"", "onclick"]
            {
                assert!(!text.contains(word), "{path}: {word}");
            }
        }
    }
}
