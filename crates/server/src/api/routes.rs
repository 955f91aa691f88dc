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
    /// `/logs/`: the node's own logs.
    NodeLogs,
    /// `/checkpoint`: the state of a container, written to a file.
    Checkpoint(Target),
    /// `/flagz`: the flags of the process.
    Flagz,
    /// `/statusz`: what the process is.
    Statusz,
    /// `/debug/flags/v`: the log level at run time.
    LogLevel,
    /// `/debug/pprof/`, with the name of a profile.
    Profile(String),
    /// An endpoint that is not served here, with the status and text. Answered only after authorization.
    Refused(StatusCode, &'static str),
    /// No such endpoint. Answered without authorization, as upstream does.
    Unknown,
}

impl Route {
    /// The template of the path: the name of the request's span.
    /// upstream: go-restful SelectedRoutePath (v1.36); a page without a template has its path here.
    pub(super) fn template(&self) -> &'static str {
        match self {
            Self::Healthz => "/healthz",
            Self::Pods => "/pods",
            Self::RunningPods => "/runningpods/",
            Self::Configz => "/configz",
            Self::Metrics => "/metrics",
            Self::ProbeMetrics => "/metrics/probes",
            Self::Summary => "/stats/summary",
            Self::ResourceMetrics => "/metrics/resource",
            Self::CadvisorMetrics => "/metrics/cadvisor",
            Self::SliMetrics | Self::ResetSlis => "/metrics/slis",
            Self::ContainerLogs(_) => "/containerLogs/{podNamespace}/{podID}/{containerName}",
            Self::Exec(Target { uid: None, .. }) => "/exec/{podNamespace}/{podID}/{containerName}",
            Self::Exec(_) => "/exec/{podNamespace}/{podID}/{uid}/{containerName}",
            Self::Attach(Target { uid: None, .. }) => "/attach/{podNamespace}/{podID}/{containerName}",
            Self::Attach(_) => "/attach/{podNamespace}/{podID}/{uid}/{containerName}",
            Self::PortForward(Target { uid: None, .. }) => "/portForward/{podNamespace}/{podID}",
            Self::PortForward(_) => "/portForward/{podNamespace}/{podID}/{uid}",
            Self::Run(Target { uid: None, .. }) => "/run/{podNamespace}/{podID}/{containerName}",
            Self::Run(_) => "/run/{podNamespace}/{podID}/{uid}/{containerName}",
            Self::NodeLogs => "/logs/{logpath:*}",
            Self::Checkpoint(_) => "/checkpoint/{podNamespace}/{podID}/{containerName}",
            Self::Flagz => "/flagz",
            Self::Statusz => "/statusz",
            Self::LogLevel => "/debug/flags/v",
            Self::Profile(_) => "/debug/pprof/{subpath:*}",
            Self::Refused(..) | Self::Unknown => "other",
        }
    }

    /// Whether the request outlives its response head, in the sense of upstream's metrics.
    pub(super) fn is_long_running(&self) -> bool {
        matches!(self, Self::Exec(_) | Self::Attach(_))
    }
}

/// What the configuration switches on and off, besides [`Offers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switches {
    /// `enableSystemLogHandler`.
    pub(super) node_logs: bool,
    /// `enableProfilingHandler`.
    pub(super) profiles: bool,
    /// `enableDebugFlagsHandler`.
    pub(super) log_level: bool,
    /// The gate `ContainerCheckpoint`.
    pub(super) checkpoints: bool,
    /// The gate `ComponentFlagz`.
    pub(super) flagz: bool,
    /// The gate `ComponentStatusz`.
    pub(super) statusz: bool,
}

const NO_METHOD: Route = Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
const NO_PAGE: Route = Route::Refused(StatusCode::NOT_FOUND, "404: Page Not Found");
const NO_DEBUGGING: Route = Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "Debug endpoints are disabled.\n");
const NO_LOGS: Route = Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "logs endpoint is disabled.\n");
const NO_PROFILES: Route = Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "profiling endpoint is disabled.\n");
const NO_LOG_LEVEL: Route = Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "flags endpoint is disabled.\n");

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

/// The route of a request. `path` is canonical. Where upstream answers every method, so does this: such a page only shows
/// something, and the method decides which right is needed.
pub(super) fn route(offers: Offers, switches: Switches, method: &Method, path: &str) -> Route {
    let get = |route: Route| if method == Method::GET { route } else { NO_METHOD };
    let mut segments = path.trim_matches('/').split('/');
    let root = segments.next().unwrap_or_default();
    let rest: Vec<&str> = segments.collect();
    match (root, rest.as_slice(), offers) {
        ("healthz", [] | [_], _) => Route::Healthz,
        ("pods", [], _) => get(Route::Pods),
        ("metrics", [], _) => Route::Metrics,
        ("metrics", ["probes"], _) => Route::ProbeMetrics,
        ("metrics", ["resource"], _) => Route::ResourceMetrics,
        ("metrics", ["cadvisor"], _) => Route::CadvisorMetrics,
        ("metrics", ["slis"], _) if method == Method::DELETE => Route::ResetSlis,
        ("metrics", ["slis"], _) => Route::SliMetrics,
        ("stats", ["summary"], _) => session(method, Route::Summary),
        ("pods" | "stats" | "metrics" | "healthz", _, _) => NO_PAGE,
        (root, rest, Offers::NoDebugging | Offers::ReadOnly) => match (root, rest) {
            ("run" | "exec" | "attach" | "portForward" | "containerLogs" | "runningpods" | "logs", _)
            | ("debug", ["pprof", ..]) => NO_DEBUGGING,
            _ => Route::Unknown,
        },
        ("configz", [], _) => Route::Configz,
        ("runningpods", [], _) => get(Route::RunningPods),
        ("flagz", [], _) if switches.flagz => Route::Flagz,
        ("statusz", [], _) if switches.statusz => Route::Statusz,
        ("flagz" | "statusz", _, _) => Route::Unknown,
        ("logs", _, _) if !switches.node_logs => NO_LOGS,
        ("logs", _, _) => get(Route::NodeLogs),
        ("debug", ["pprof", ..], _) if !switches.profiles => NO_PROFILES,
        ("debug", ["pprof"], _) => get(Route::Profile(String::new())),
        ("debug", ["pprof", profile], _) => get(Route::Profile((*profile).to_owned())),
        ("debug", ["pprof", ..], _) => NO_PAGE,
        ("debug", ["flags", "v"], _) if switches.log_level => Route::LogLevel,
        ("debug", ["flags", "v"], _) => NO_LOG_LEVEL,
        ("checkpoint", _, _) if !switches.checkpoints => Route::Unknown,
        ("checkpoint", [namespace, pod, container], _) if method == Method::POST => {
            Route::Checkpoint(target(namespace, pod, None, container))
        }
        ("checkpoint", [_, _, _], _) => NO_METHOD,
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
        ("containerLogs" | "configz" | "runningpods" | "checkpoint", _, _) => NO_PAGE,
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
    const BUCKETS: [&str; 19] = [
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
        "flagz",
        "statusz",
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

    const ON: Switches =
        Switches { node_logs: true, profiles: true, log_level: true, checkpoints: true, flagz: true, statusz: true };
    const OFF: Switches = Switches {
        node_logs: false,
        profiles: false,
        log_level: false,
        checkpoints: false,
        flagz: false,
        statusz: false,
    };

    fn check(offers: Offers, rows: &[(&str, &str)]) {
        check_with(offers, ON, rows);
    }

    fn check_with(offers: Offers, switches: Switches, rows: &[(&str, &str)]) {
        for (request, expected) in rows {
            let (method, path) = request.split_once(' ').unwrap();
            let found = match plain(path) {
                Some(path) => match route(offers, switches, &method.parse().unwrap(), &path) {
                    Route::Checkpoint(target) => format!("checkpoint {}", show(&target)),
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
                ("POST /healthz", "Healthz"),
                ("GET /pods", "Pods"),
                ("GET /pods/", "Pods"),
                ("DELETE /pods", "405 405: Method Not Allowed"),
                ("GET /pods/x", "404 404: Page Not Found"),
                ("GET /runningpods/", "RunningPods"),
                ("GET /configz", "Configz"),
                ("GET /metrics", "Metrics"),
                ("GET /metrics/probes", "ProbeMetrics"),
                ("POST /metrics/probes", "ProbeMetrics"),
                ("POST /metrics", "Metrics"),
                ("POST /configz", "Configz"),
                ("POST /runningpods/", "405 405: Method Not Allowed"),
                ("GET /metrics/cadvisor", "CadvisorMetrics"),
                ("POST /metrics/cadvisor", "CadvisorMetrics"),
                ("GET /metrics/cadvisor/x", "404 404: Page Not Found"),
                ("GET /metrics/resource", "ResourceMetrics"),
                ("GET /metrics/slis", "SliMetrics"),
                ("DELETE /metrics/slis", "ResetSlis"),
                ("POST /metrics/slis", "SliMetrics"),
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
                ("GET /logs/", "NodeLogs"),
                ("GET /logs/pods/x/0.log", "NodeLogs"),
                ("POST /logs/", "405 405: Method Not Allowed"),
                ("HEAD /logs/syslog", "405 405: Method Not Allowed"),
                ("GET /debug/pprof/", "Profile(\"\")"),
                ("GET /debug/pprof/heap", "Profile(\"heap\")"),
                ("POST /debug/pprof/symbol", "405 405: Method Not Allowed"),
                ("PUT /debug/flags/v", "LogLevel"),
                ("GET /debug/flags/v", "LogLevel"),
                ("POST /checkpoint/ns/pod/c", "checkpoint ns/pod//c"),
                ("GET /checkpoint/ns/pod/c", "405 405: Method Not Allowed"),
                ("POST /checkpoint/ns/pod", "404 404: Page Not Found"),
                ("POST /checkpoint/ns/pod/u/c", "404 404: Page Not Found"),
                ("GET /flagz", "Flagz"),
                ("GET /statusz", "Statusz"),
                ("GET /statusz/x", "Unknown"),
                ("GET /", "odd"),
                ("GET /nothing", "Unknown"),
                ("GET /debug", "Unknown"),
            ],
        );
    }

    #[test]
    fn section_27_2_what_the_configuration_switches_off() {
        check_with(
            Offers::Everything,
            OFF,
            &[
                ("GET /logs/syslog", "405 logs endpoint is disabled."),
                ("POST /logs/", "405 logs endpoint is disabled."),
                ("GET /debug/pprof/heap", "405 profiling endpoint is disabled."),
                ("PUT /debug/flags/v", "405 flags endpoint is disabled."),
                ("POST /checkpoint/ns/pod/c", "Unknown"),
                ("GET /flagz", "Unknown"),
                ("GET /statusz", "Unknown"),
                ("GET /configz", "Configz"),
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
                    ("PUT /debug/flags/v", "Unknown"),
                    ("GET /flagz", "Unknown"),
                    ("GET /statusz", "Unknown"),
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
