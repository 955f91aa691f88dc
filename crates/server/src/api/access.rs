//! Authorization: maps a request to a verb on a subresource of this node (section 27.2).
//! upstream: kubelet/server/auth.go GetRequestAttributes, server.go InstallAuthFilter (v1.36)

use std::sync::Arc;

use http::{Method, StatusCode};
use rubelet_core::config::AuthorizationMode;
use rubelet_engine::ports::{Caller, NodeAccess, Reviews};
use tracing::{debug, warn};

use super::answers::{Answer, text};
use crate::log_limiter::LogLimiter;

/// Authorizes requests.
pub(super) struct Access {
    pub(super) mode: AuthorizationMode,
    pub(super) reviews: Option<Arc<dyn Reviews>>,
    pub(super) node: String,
    /// Which verb a session needs.
    pub(super) session_verb: SessionVerb,
    /// Limits a warning that clients can cause.
    pub(super) failures: LogLimiter,
}

/// Which verb exec, attach, run and port-forward need.
///
/// A WebSocket begins with a GET, so upstream lets a caller that may only `get nodes/proxy` run commands (k/k#119640).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionVerb {
    /// That of the request's method, as upstream.
    OfTheMethod,
    /// Always `create` (`--sessions-need-create`).
    Create,
}

impl Access {
    /// `None` if `caller` is allowed, else the response. One allowed subresource is enough.
    pub(super) async fn refusal(&self, caller: &Caller, method: &Method, path: &str) -> Option<Answer> {
        match self.mode {
            AuthorizationMode::AlwaysAllow => return None,
            AuthorizationMode::Webhook => {}
        }
        let (verb, subresources) = (self.verb(method, path), subresources(path));
        let user = &caller.name;
        for subresource in &subresources {
            let access =
                NodeAccess { verb: verb.to_owned(), node: self.node.clone(), subresource: (*subresource).to_owned() };
            let Some(reviews) = &self.reviews else { break };
            match reviews.may(caller, &access).await {
                Ok(true) => return None,
                Ok(false) => {}
                Err(err) => {
                    if let Some(suppressed) = self.failures.permit() {
                        warn!(%user, verb, subresource, %err, suppressed, "Authorization error");
                    }
                    let why = format!(
                        "Authorization error (user={user}, verb={verb}, resource=nodes, subresource={subresource})"
                    );
                    return Some(text(StatusCode::INTERNAL_SERVER_ERROR, why));
                }
            }
        }
        let subresources = subresources.join(" ");
        debug!(%user, verb, %subresources, "Forbidden");
        let why = format!("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{subresources}])\n");
        Some(text(StatusCode::FORBIDDEN, why))
    }
}

impl Access {
    fn verb(&self, method: &Method, path: &str) -> &'static str {
        match self.session_verb {
            SessionVerb::Create if is_session(path) => "create",
            SessionVerb::Create | SessionVerb::OfTheMethod => verb(method),
        }
    }
}

/// Whether the path is one by which commands are run in containers, or their ports are reached.
fn is_session(path: &str) -> bool {
    let root = path.trim_start_matches('/').split('/').next();
    root.is_some_and(|root| matches!(root, "exec" | "attach" | "run" | "portForward"))
}

fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// The subresources of which one has to be allowed, in the order in which they are reviewed.
fn subresources(path: &str) -> Vec<&'static str> {
    let below = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let fine = [("/pods", "pods"), ("/healthz", "healthz"), ("/configz", "configz"), ("/runningpods", "pods")];
    let coarse = [
        ("/stats", "stats"),
        ("/metrics", "metrics"),
        ("/logs", "log"),
        ("/checkpoint", "checkpoint"),
        ("/statusz", "statusz"),
        ("/flagz", "configz"),
    ];
    let found = |table: &[(&str, &'static str)]| table.iter().find(|(root, _)| below(root)).map(|(_, name)| *name);
    found(&fine).into_iter().chain([found(&coarse).unwrap_or("proxy")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No review is answered: there is no API server.
    fn access(mode: AuthorizationMode) -> Access {
        let failures = LogLimiter::new(rubelet_engine::clock::Clock::virtual_from(crate::testing::ago(0)));
        Access { mode, reviews: None, node: "node".into(), session_verb: SessionVerb::OfTheMethod, failures }
    }

    #[tokio::test(start_paused = true)]
    async fn http_02_without_reviews_webhook_mode_denies_everything_and_always_allow_nothing() {
        let caller = Caller { name: "admin".into(), groups: vec!["system:masters".into()], ..Caller::default() };
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
            for path in ["/pods", "/healthz", "/metrics", "/configz", "/exec/ns/pod/c", "/logs/", "/", ""] {
                let method: Method = method.parse().unwrap();
                let refused = access(AuthorizationMode::Webhook).refusal(&caller, &method, path).await;
                assert_eq!(refused.map(|answer| answer.status()), Some(StatusCode::FORBIDDEN), "{method} {path}");
                assert!(access(AuthorizationMode::AlwaysAllow).refusal(&caller, &method, path).await.is_none());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn strict_sessions_need_create_whatever_the_method() {
        let mut access = access(AuthorizationMode::Webhook);
        for (method, path, usual, strict) in [
            ("GET", "/exec/ns/pod/c", "get", "create"),
            ("GET", "/attach/ns/pod/c", "get", "create"),
            ("GET", "/portForward/ns/pod", "get", "create"),
            ("POST", "/portForward/ns/pod", "create", "create"),
            ("PUT", "/run/ns/pod/c", "update", "create"),
            ("HEAD", "/exec", "", "create"),
            ("GET", "/containerLogs/ns/pod/c", "get", "get"),
            ("GET", "/executor", "get", "get"),
            ("GET", "/pods", "get", "get"),
            ("PUT", "/debug/flags/v", "update", "update"),
        ] {
            let method: Method = method.parse().unwrap();
            access.session_verb = SessionVerb::OfTheMethod;
            assert_eq!(access.verb(&method, path), usual, "{method} {path}");
            access.session_verb = SessionVerb::Create;
            assert_eq!(access.verb(&method, path), strict, "{method} {path}");
        }
    }

    #[test]
    fn section_27_2_verbs_and_subresources() {
        for (method, path, expected) in [
            ("GET", "/healthz", "get healthz proxy"),
            ("GET", "/healthz/ping", "get healthz proxy"),
            ("GET", "/healthzz", "get proxy"),
            ("GET", "/pods", "get pods proxy"),
            ("GET", "/pods/", "get pods proxy"),
            ("GET", "/podsx", "get proxy"),
            ("GET", "/runningpods/", "get pods proxy"),
            ("GET", "/runningpods", "get pods proxy"),
            ("GET", "/configz", "get configz proxy"),
            ("GET", "/flagz", "get configz"),
            ("GET", "/statusz", "get statusz"),
            ("GET", "/stats/summary", "get stats"),
            ("POST", "/stats/summary", "create stats"),
            ("GET", "/metrics", "get metrics"),
            ("GET", "/metrics/cadvisor", "get metrics"),
            ("GET", "/logs/", "get log"),
            ("GET", "/logs/syslog", "get log"),
            ("POST", "/checkpoint/ns/pod/c", "create checkpoint"),
            ("GET", "/containerLogs/ns/pod/c", "get proxy"),
            ("GET", "/exec/ns/pod/c", "get proxy"),
            ("POST", "/exec/ns/pod/c", "create proxy"),
            ("POST", "/attach/ns/pod/c", "create proxy"),
            ("POST", "/portForward/ns/pod", "create proxy"),
            ("POST", "/run/ns/pod/c", "create proxy"),
            ("PUT", "/debug/flags/v", "update proxy"),
            ("GET", "/debug/pprof/heap", "get proxy"),
            ("PATCH", "/", "patch proxy"),
            ("DELETE", "/", "delete proxy"),
            ("HEAD", "/pods", " pods proxy"),
        ] {
            let method: Method = method.parse().unwrap();
            assert_eq!(format!("{} {}", verb(&method), subresources(path).join(" ")), expected, "{method} {path}");
        }
    }
}
