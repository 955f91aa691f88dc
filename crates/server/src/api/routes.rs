//! Routes a request by method and path. Pure; a path that is not in canonical form has no route.
//! upstream: kubelet/server/server.go NewServer (v1.36)

use http::{Method, StatusCode};

use crate::url::decode;

/// The endpoints that a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offers {
    Everything,
    /// `enableDebuggingHandlers: false` (HTTP-01).
    NoDebugging,
    /// The read-only port.
    ReadOnly,
}

/// A container, as named in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) uid: Option<String>,
    /// Empty for a whole pod.
    pub(super) container: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Healthz,
    Pods,
    RunningPods,
    Configz,
    Metrics,
    ProbeMetrics,
    /// `/stats/summary`.
    Summary,
    ResourceMetrics,
    CadvisorMetrics,
    /// `/metrics/slis`.
    SliMetrics,
    /// `DELETE /metrics/slis`.
    ResetSlis,
    ContainerLogs(Target),
    Exec(Target),
    Attach(Target),
    PortForward(Target),
    Run(Target),
    /// An endpoint of upstream that rubelet does not have.
    Missing(Missing),
    /// An endpoint that is not served here, with the status and text. Answered only after authorization.
    Refused(StatusCode, &'static str),
    /// No such endpoint. Answered without authorization, as upstream does.
    Unknown,
}

impl Route {
    /// Whether the request outlives its response head, in the sense of upstream's metrics.
    pub(super) fn is_long_running(&self) -> bool {
        matches!(self, Self::Exec(_) | Self::Attach(_))
    }
}

/// An endpoint of upstream that rubelet does not have. Each can be switched off by configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Files of `/var/log`.
    SystemLogs,
    /// Profiles of the process.
    Profiles,
    /// Changing the log level at run time.
    LogLevel,
}

impl Missing {
    /// The response: upstream's text if the endpoint is switched off, otherwise that rubelet does not have it.
    pub(super) fn refusal(self, switched_on: bool) -> (StatusCode, &'static str) {
        match (self, switched_on) {
            (Self::SystemLogs, false) => (StatusCode::METHOD_NOT_ALLOWED, "logs endpoint is disabled.\n"),
            (Self::Profiles, false) => (StatusCode::METHOD_NOT_ALLOWED, "profiling endpoint is disabled.\n"),
            (Self::LogLevel, false) => (StatusCode::METHOD_NOT_ALLOWED, "flags endpoint is disabled.\n"),
            (Self::SystemLogs, true) => (
                StatusCode::NOT_IMPLEMENTED,
                "rubelet does not serve the files of /var/log: read them on the node itself\n",
            ),
            (Self::Profiles, true) => {
                (StatusCode::NOT_IMPLEMENTED, "rubelet has no profiler: use perf on the node itself\n")
            }
            (Self::LogLevel, true) => (
                StatusCode::NOT_IMPLEMENTED,
                "rubelet cannot change its log level while it runs: set --v and restart it\n",
            ),
        }
    }
}

const NO_METHOD: Route = Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
const NO_PAGE: Route = Route::Refused(StatusCode::NOT_FOUND, "404: Page Not Found");
const NO_DEBUGGING: Route = Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "Debug endpoints are disabled.\n");

/// The decoded path, or `None` if it is not in canonical form. Go redirects such paths; a redirect in front of a session has
/// been an attack vector.
pub(super) fn plain(path: &str) -> Option<String> {
    let path = decode(path);
    let rest = path.strip_prefix('/')?;
    let odd = |segment: &str| segment.is_empty() || segment == "." || segment == "..";
    let good = !rest.trim_end_matches('/').split('/').any(odd) && !rest.ends_with("//");
    let clean = path.chars().all(|c| !c.is_control() && c != char::REPLACEMENT_CHARACTER);
    (good && clean).then_some(path)
}

/// The route of a request. `path` is canonical.
pub(super) fn route(offers: Offers, method: &Method, path: &str) -> Route {
    let get = |route: Route| if method == Method::GET { route } else { NO_METHOD };
    let mut segments = path.trim_matches('/').split('/');
    let root = segments.next().unwrap_or_default();
    let rest: Vec<&str> = segments.collect();
    match (root, rest.as_slice(), offers) {
        ("healthz", [] | [_], _) => get(Route::Healthz),
        ("pods", [], _) => get(Route::Pods),
        ("metrics", [], _) => get(Route::Metrics),
        ("metrics", ["probes"], _) => get(Route::ProbeMetrics),
        ("metrics", ["resource"], _) => get(Route::ResourceMetrics),
        ("metrics", ["cadvisor"], _) => get(Route::CadvisorMetrics),
        ("metrics", ["slis"], _) if method == Method::DELETE => Route::ResetSlis,
        ("metrics", ["slis"], _) => get(Route::SliMetrics),
        ("stats", ["summary"], _) => session(method, Route::Summary),
        // Not implemented: checkpoints, statusz and flagz.
        ("pods" | "stats" | "metrics" | "healthz", _, _) => NO_PAGE,
        (root, rest, Offers::NoDebugging | Offers::ReadOnly) => match (root, rest) {
            ("run" | "exec" | "attach" | "portForward" | "containerLogs" | "runningpods" | "logs", _)
            | ("debug", ["pprof", ..]) => NO_DEBUGGING,
            _ => Route::Unknown,
        },
        ("configz", [], _) => get(Route::Configz),
        ("runningpods", [], _) => get(Route::RunningPods),
        ("logs", _, _) => Route::Missing(Missing::SystemLogs),
        ("debug", ["pprof", ..], _) => Route::Missing(Missing::Profiles),
        ("debug", ["flags", "v"], _) => Route::Missing(Missing::LogLevel),
        ("containerLogs", [namespace, pod, container], _) => {
            get(Route::ContainerLogs(target(namespace, pod, None, container)))
        }
        ("portForward", rest, _) => match rest {
            [namespace, pod] => session(method, Route::PortForward(target(namespace, pod, None, ""))),
            [namespace, pod, uid] => session(method, Route::PortForward(target(namespace, pod, Some(uid), ""))),
            _ => NO_PAGE,
        },
        ("exec" | "attach" | "run", rest, _) => {
            let target = match rest {
                [namespace, pod, container] => target(namespace, pod, None, container),
                [namespace, pod, uid, container] => target(namespace, pod, Some(uid), container),
                _ => return NO_PAGE,
            };
            match root {
                "exec" => session(method, Route::Exec(target)),
                "attach" => session(method, Route::Attach(target)),
                _ if method == Method::POST => Route::Run(target),
                _ => NO_METHOD,
            }
        }
        ("containerLogs" | "configz" | "runningpods" | "checkpoint" | "statusz" | "flagz", _, _) => NO_PAGE,
        _ => Route::Unknown,
    }
}

/// Either method: a session may start with both, as browsers can only use GET, and the summary is read with both.
fn session(method: &Method, route: Route) -> Route {
    if method == Method::GET || method == Method::POST { route } else { NO_METHOD }
}

fn target(namespace: &str, pod: &str, uid: Option<&&str>, container: &str) -> Target {
    Target {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid: uid.map(|uid| (*uid).to_owned()),
        container: container.to_owned(),
    }
}

/// The label `path` of the request metrics: a bounded set, whatever clients request (CVE-2020-8551).
/// upstream: kubelet/server/server.go getMetricBucket (v1.36)
pub(super) fn bucket(path: &str) -> &'static str {
    const BUCKETS: [&str; 17] = [
        "healthz",
        "pods",
        "stats",
        "metrics",
        "metrics/cadvisor",
        "metrics/probes",
        "metrics/resource",
        "run",
        "exec",
        "attach",
        "portForward",
        "containerLogs",
        "configz",
        "runningpods",
        "checkpoint",
        "logs",
        "debug",
    ];
    let path = path.trim_start_matches('/');
    let root = match path.split_once('/') {
        Some(("metrics", page)) => path.get(.."metrics/".len() + page.find('/').unwrap_or(page.len())),
        Some((root, _)) => Some(root),
        None => Some(path),
    };
    BUCKETS.into_iter().find(|bucket| Some(*bucket) == root).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(offers: Offers, rows: &[(&str, &str)]) {
        for (request, expected) in rows {
            let (method, path) = request.split_once(' ').unwrap();
            let found = match plain(path) {
                Some(path) => match route(offers, &method.parse().unwrap(), &path) {
                    Route::Refused(status, words) => format!("{} {words}", status.as_u16()),
                    Route::Exec(target) => format!("exec {}", show(&target)),
                    Route::Attach(target) => format!("attach {}", show(&target)),
                    Route::Run(target) => format!("run {}", show(&target)),
                    Route::PortForward(target) => format!("portForward {}", show(&target)),
                    Route::ContainerLogs(target) => format!("logs {}", show(&target)),
                    other => format!("{other:?}"),
                },
                None => "odd".to_owned(),
            };
            assert_eq!(found.trim_end(), *expected, "{request}");
        }
    }

    fn show(target: &Target) -> String {
        let Target { namespace, pod, uid, container } = target;
        format!("{namespace}/{pod}/{}/{container}", uid.as_deref().unwrap_or_default())
    }

    #[test]
    fn section_27_2_paths_and_methods() {
        check(
            Offers::Everything,
            &[
                ("GET /healthz", "Healthz"),
                ("GET /healthz/syncloop", "Healthz"),
                ("POST /healthz", "405 405: Method Not Allowed"),
                ("GET /pods", "Pods"),
                ("GET /pods/", "Pods"),
                ("DELETE /pods", "405 405: Method Not Allowed"),
                ("GET /pods/x", "404 404: Page Not Found"),
                ("GET /runningpods/", "RunningPods"),
                ("GET /configz", "Configz"),
                ("GET /metrics", "Metrics"),
                ("GET /metrics/probes", "ProbeMetrics"),
                ("POST /metrics/probes", "405 405: Method Not Allowed"),
                ("GET /metrics/cadvisor", "CadvisorMetrics"),
                ("POST /metrics/cadvisor", "405 405: Method Not Allowed"),
                ("GET /metrics/cadvisor/x", "404 404: Page Not Found"),
                ("GET /metrics/resource", "ResourceMetrics"),
                ("GET /metrics/slis", "SliMetrics"),
                ("DELETE /metrics/slis", "ResetSlis"),
                ("POST /metrics/slis", "405 405: Method Not Allowed"),
                ("GET /metrics/other", "404 404: Page Not Found"),
                ("GET /stats/summary", "Summary"),
                ("POST /stats/summary", "Summary"),
                ("PUT /stats/summary", "405 405: Method Not Allowed"),
                ("GET /stats", "404 404: Page Not Found"),
                ("GET /stats/default/web/uid/app", "404 404: Page Not Found"),
                ("GET /containerLogs/ns/pod/c", "logs ns/pod//c"),
                ("POST /containerLogs/ns/pod/c", "405 405: Method Not Allowed"),
                ("GET /containerLogs/ns/pod", "404 404: Page Not Found"),
                ("GET /containerLogs/ns/pod/c/d", "404 404: Page Not Found"),
                ("POST /exec/ns/pod/c", "exec ns/pod//c"),
                ("GET /exec/ns/pod/u/c", "exec ns/pod/u/c"),
                ("PUT /exec/ns/pod/c", "405 405: Method Not Allowed"),
                ("POST /attach/ns/pod/c", "attach ns/pod//c"),
                ("POST /attach/ns/pod", "404 404: Page Not Found"),
                ("POST /portForward/ns/pod", "portForward ns/pod//"),
                ("GET /portForward/ns/pod/u", "portForward ns/pod/u/"),
                ("GET /portForward/ns", "404 404: Page Not Found"),
                ("POST /run/ns/pod/c", "run ns/pod//c"),
                ("GET /run/ns/pod/c", "405 405: Method Not Allowed"),
                ("GET /logs/", "Missing(SystemLogs)"),
                ("GET /logs/syslog", "Missing(SystemLogs)"),
                ("GET /debug/pprof/heap", "Missing(Profiles)"),
                ("PUT /debug/flags/v", "Missing(LogLevel)"),
                ("GET /checkpoint/ns/pod/c", "404 404: Page Not Found"),
                ("GET /", "odd"),
                ("GET /nothing", "Unknown"),
                ("GET /debug", "Unknown"),
            ],
        );
    }

    #[test]
    fn http_01_without_debugging_handlers_the_routes_are_those_of_the_read_only_port() {
        for offers in [Offers::NoDebugging, Offers::ReadOnly] {
            check(
                offers,
                &[
                    ("GET /healthz", "Healthz"),
                    ("GET /pods", "Pods"),
                    ("GET /metrics", "Metrics"),
                    ("GET /metrics/probes", "ProbeMetrics"),
                    ("GET /metrics/resource", "ResourceMetrics"),
                    ("GET /metrics/cadvisor", "CadvisorMetrics"),
                    ("GET /metrics/slis", "SliMetrics"),
                    ("POST /stats/summary", "Summary"),
                    ("POST /run/ns/pod/c", "405 Debug endpoints are disabled."),
                    ("POST /exec/ns/pod/c", "405 Debug endpoints are disabled."),
                    ("POST /attach/ns/pod/c", "405 Debug endpoints are disabled."),
                    ("POST /portForward/ns/pod", "405 Debug endpoints are disabled."),
                    ("GET /containerLogs/ns/pod/c", "405 Debug endpoints are disabled."),
                    ("GET /runningpods/", "405 Debug endpoints are disabled."),
                    ("GET /logs/", "405 Debug endpoints are disabled."),
                    ("GET /debug/pprof/", "405 Debug endpoints are disabled."),
                    ("GET /configz", "Unknown"),
                    ("POST /checkpoint/ns/pod/c", "Unknown"),
                    ("GET /nothing", "Unknown"),
                ],
            );
        }
    }

    #[test]
    fn a_path_that_is_not_canonical_has_no_route() {
        check(
            Offers::Everything,
            &[
                ("GET /pods/../exec/ns/pod/c", "odd"),
                ("GET //exec/ns/pod/c", "odd"),
                ("GET /exec//pod/c", "odd"),
                ("GET /containerLogs/ns/pod/..", "odd"),
                ("GET /containerLogs/ns/pod/%2e%2e", "odd"),
                ("GET /containerLogs/ns/%2e%2e%2f%2e%2e/c", "odd"),
                ("GET /containerLogs/ns/pod/c%00", "odd"),
                ("GET /containerLogs/ns/pod/c%0a", "odd"),
                ("GET /containerLogs/ns/pod/%ff", "odd"),
                ("GET /pods//", "odd"),
                ("GET pods", "odd"),
                ("OPTIONS *", "odd"),
                // As in Go, an escaped slash is a slash: authorization and routing see the same path.
                ("GET /containerLogs/ns/pod%2Fc", "logs ns/pod//c"),
            ],
        );
    }

    #[test]
    fn http_06_the_path_label_of_metrics_is_bounded() {
        for (path, label) in [
            ("/exec/ns/pod/c", "exec"),
            ("/metrics", "metrics"),
            ("/metrics/cadvisor", "metrics/cadvisor"),
            ("/metrics/cadvisor/x", "metrics/cadvisor"),
            ("/metrics/anything", "other"),
            ("/containerLogs/a/b/c", "containerLogs"),
            ("/whatever", "other"),
            ("/", "other"),
        ] {
            assert_eq!(bucket(path), label, "{path}");
        }
    }
}
