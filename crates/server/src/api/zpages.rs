//! `/flagz` and `/statusz`: the flags of the process and what it is, as text or JSON (FLG-01). Pure.
//! upstream: apiserver/pkg/server/flagz, statusz (v1.36)

use std::collections::BTreeMap;

use http::header::{ACCEPT, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answers::{Answer, Refusal, json as json_answer, text};

const COMPONENT: &str = "kubelet";
const GROUP: &str = "config.k8s.io";
/// Upstream names one of several delimiters at random, so that nobody parses the text.
const DELIMITER: &str = ": ";
/// The line for Go's version: programs that read the page expect one.
const NO_GO: &str = "none, rubelet is written in Rust";
const WARNING: HeaderName = HeaderName::from_static("warning");

/// The representation that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json(ApiVersion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApiVersion {
    V1Alpha1,
    V1Beta1,
}

impl ApiVersion {
    const fn as_str(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// `/flagz`.
pub(super) fn flagz(headers: &HeaderMap, flags: &BTreeMap<String, String>) -> Result<Answer, Refusal> {
    match form(headers, "Flagz")? {
        Form::Text => {
            let lines = flags.iter().map(|(name, value)| format!("{name}{DELIMITER}{value}\n"));
            Ok(text(StatusCode::OK, head("flagz") + &lines.collect::<String>()))
        }
        Form::Json(version) => Ok(structured("flagz", "Flagz", version, json!({ "flags": flags }))),
    }
}

/// What `/statusz` shows.
pub(super) struct Status<'a> {
    pub(super) started: Timestamp,
    pub(super) now: Timestamp,
    /// The Kubernetes release, such as `1.36.4`.
    pub(super) version: &'a str,
    /// The first parts of the paths that are served besides those for pods.
    pub(super) paths: &'a [&'a str],
}

/// `/statusz`.
pub(super) fn statusz(headers: &HeaderMap, status: &Status<'_>) -> Result<Answer, Refusal> {
    let Status { started, now, version, paths } = status;
    let up = now.as_second().saturating_sub(started.as_second()).max(0);
    // `1.36` of `1.36.4`.
    let emulated = version.rsplit_once('.').map_or(*version, |(release, _)| release);
    match form(headers, "Statusz")? {
        Form::Text => {
            let started = started.strftime("%a %b %e %H:%M:%S UTC %Y");
            let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
            let lines = [
                ("Started", started.to_string()),
                ("Up", format!("{hours} hr {minutes:02} min {seconds:02} sec")),
                ("Go version", NO_GO.to_owned()),
                ("Binary version", (*version).to_owned()),
                ("Emulation version", emulated.to_owned()),
                ("Paths", paths.join(" ")),
            ];
            let lines = lines.map(|(name, value)| format!("{name}{DELIMITER} {value}\n"));
            Ok(text(StatusCode::OK, format!("{}\n{}", head("statusz"), lines.concat())))
        }
        Form::Json(api) => {
            let fields = json!({
                "startTime": started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "uptimeSeconds": up,
                "goVersion": NO_GO,
                "binaryVersion": version,
                "emulationVersion": emulated,
                "paths": paths,
            });
            Ok(structured("statusz", "Statusz", api, fields))
        }
    }
}

fn head(page: &str) -> String {
    format!(
        "\n{COMPONENT} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
         guarantees and is for debugging purposes only.\n"
    )
}

fn structured(page: &str, kind: &str, version: ApiVersion, fields: Value) -> Answer {
    let mut object = json!({
        "kind": kind,
        "apiVersion": format!("{GROUP}/{}", version.as_str()),
        "metadata": { "name": COMPONENT },
    });
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    let mut answer = json_answer(object.to_string());
    if version == ApiVersion::V1Alpha1 {
        let warning =
            format!("299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\"");
        if let Ok(warning) = HeaderValue::from_str(&warning) {
            answer.headers_mut().insert(WARNING, warning);
        }
    }
    answer
}

/// The first accepted representation that exists. JSON has to name its version.
/// upstream: apiserver/pkg/endpoints/handlers/negotiation NegotiateOutputMediaType (v1.36)
fn form(headers: &HeaderMap, kind: &str) -> Result<Form, Refusal> {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepted.trim().is_empty() {
        return Ok(Form::Text);
    }
    for wanted in accepted.split(',') {
        let mut parts = wanted.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: BTreeMap<&str, &str> = parts.filter_map(|part| part.split_once('=')).collect();
        let named = |name: &str| parameters.get(name).copied();
        match (media, named("as")) {
            ("text/plain" | "text/*" | "*/*", None) => return Ok(Form::Text),
            ("application/json" | "application/*", Some(asked)) if asked == kind && named("g") == Some(GROUP) => {
                match named("v") {
                    Some("v1alpha1") => return Ok(Form::Json(ApiVersion::V1Alpha1)),
                    Some("v1beta1") => return Ok(Form::Json(ApiVersion::V1Beta1)),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    let page = kind.to_lowercase();
    let why = format!("{page}: only text/plain and application/json;as={kind};v=v1beta1;g={GROUP} are served\n");
    Err((StatusCode::NOT_ACCEPTABLE, why))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use http_body_util::BodyExt;

    use super::*;

    async fn check(answer: Result<Answer, Refusal>, expected: Expect) {
        let shown = match answer {
            Err((status, why)) => format!("{status} {why}"),
            Ok(answer) => {
                let (head, body) = answer.into_parts();
                let kind = head.headers["content-type"].to_str().unwrap().to_owned();
                let warning = head.headers.get("warning").map(|value| format!("{value:?}\n")).unwrap_or_default();
                let body = body.collect().await.unwrap().to_bytes();
                format!("{kind}\n{warning}{}", String::from_utf8_lossy(&body))
            }
        };
        expected.assert_eq(&shown);
    }

    fn accept(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))])
    }

    #[tokio::test]
    async fn flg_01_the_flags_as_text_and_as_json() {
        let flags = BTreeMap::from([("v".to_owned(), "2".to_owned()), ("config".to_owned(), "/etc/c".to_owned())]);
        check(
            flagz(&HeaderMap::new(), &flags),
            expect![[r#"
                text/plain; charset=utf-8

                kubelet flagz
                Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.
                config: /etc/c
                v: 2
            "#]],
        )
        .await;
        check(
            flagz(&accept("application/json;as=Flagz;v=v1beta1;g=config.k8s.io"), &flags),
            expect![[r#"
                application/json
                {"apiVersion":"config.k8s.io/v1beta1","flags":{"config":"/etc/c","v":"2"},"kind":"Flagz","metadata":{"name":"kubelet"}}"#]],
        )
        .await;
    }

    #[tokio::test]
    async fn flg_01_the_status_as_text_and_as_json() {
        let status = Status {
            started: "2026-01-01T00:00:00Z".parse().unwrap(),
            now: "2026-01-01T01:02:03Z".parse().unwrap(),
            version: "1.36.4",
            paths: &["/configz", "/healthz"],
        };
        check(
            statusz(&accept("text/html, */*"), &status),
            expect![[r#"
                text/plain; charset=utf-8

                kubelet statusz
                Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.

                Started:  Thu Jan  1 00:00:00 UTC 2026
                Up:  1 hr 02 min 03 sec
                Go version:  none, rubelet is written in Rust
                Binary version:  1.36.4
                Emulation version:  1.36
                Paths:  /configz /healthz
            "#]],
        )
        .await;
        check(
            statusz(&accept("application/json;v=v1alpha1;g=config.k8s.io;as=Statusz"), &status),
            expect![[r#"
                application/json
                "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\""
                {"apiVersion":"config.k8s.io/v1alpha1","binaryVersion":"1.36.4","emulationVersion":"1.36","goVersion":"none, rubelet is written in Rust","kind":"Statusz","metadata":{"name":"kubelet"},"paths":["/configz","/healthz"],"startTime":"2026-01-01T00:00:00Z","uptimeSeconds":3723}"#]],
        )
        .await;
    }

    #[test]
    fn flg_01_other_representations_are_refused() {
        for accepted in [
            "application/json",
            "application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
            "application/json;as=Flagz;v=v9;g=config.k8s.io",
            "application/json;as=Flagz;v=v1beta1;g=other",
            "application/yaml;as=Flagz;v=v1beta1;g=config.k8s.io",
            "text/html",
            "text/plain;as=Flagz",
        ] {
            let found = form(&accept(accepted), "Flagz").map_err(|(status, _)| status);
            assert_eq!(found, Err(StatusCode::NOT_ACCEPTABLE), "{accepted}");
        }
        for accepted in ["", " ", "*/*", "text/plain", "text/*", "text/html, text/plain;q=0.5"] {
            assert_eq!(form(&accept(accepted), "Flagz"), Ok(Form::Text), "{accepted}");
        }
    }
}
