//! Serves one request: routing, authentication, authorization, response.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::CONNECTION;
use http::{HeaderValue, Request, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use jiff::Timestamp;
use rubelet_engine::ports::RuntimeView;
use rubelet_engine::sync_loop::{KnownPod, NodeView};
use rubelet_engine::trace::{self, Span, SpanContext, SpanKind, Tracer};
use tracing::error;

use super::access::Access;
use super::answers::{Answer, Refusal, json, metrics_page, text};
use super::attempts::Attempts;
use super::authn::{Authn, AuthnError};
use super::checkpoint::Checkpointer;
use super::connection::{Peer, TurnRefused};
use super::log_options::LogOptions;
use super::logs::Logs;
use super::metrics::{MetricsPage, Requests, write_node, write_start};
use super::node_logs::NodeLogPages;
use super::pods::{self, tty};
use super::pprof::Profiles;
use super::routes::{Offers, Route, Target, bucket, plain, route};
use super::sessions::Sessions;
use super::tls::Tls;
use super::usage::UsagePages;
use super::zpages::{Status, flagz, statusz};
use super::{ApiParts, ApiSettings, NodePages, debug};
use crate::healthz::{API_CHECKS, Health};
use crate::log_limiter::LogLimiter;
use crate::watched::WatchedNode;

/// A sync loop that does not respond within this hangs.
const VIEW_WITHIN: Duration = Duration::from_secs(5);
/// The number of running containers is one metric: not worth waiting for a hanging runtime.
const LIST_WITHIN: Duration = Duration::from_secs(5);

const TOO_MANY_HEADS: &str = "too many requests before the first was answered\n";
const TOO_MANY_TOKENS: &str = "too many tokens from this address were refused: try again later\n";

/// Serves requests.
pub(super) struct Handler {
    offers: Offers,
    /// Authentication and authorization; `None` if all requests are allowed.
    guard: Option<(Authn, Access)>,
    node: Arc<dyn WatchedNode>,
    runtime: Arc<dyn RuntimeView>,
    health: Health,
    logs: Logs,
    sessions: Sessions,
    node_logs: NodeLogPages,
    checkpoints: Checkpointer,
    profiles: Profiles,
    node_pages: NodePages,
    tracer: Tracer,
    requests: Arc<Requests>,
    pages: Vec<Arc<dyn MetricsPage>>,
    probe_page: Arc<dyn MetricsPage>,
    usage: UsagePages,
    settings: ApiSettings,
    node_name: String,
    configz: Bytes,
    started: Timestamp,
}

impl Handler {
    /// With `tls`, requests are authenticated.
    pub(super) fn new(parts: ApiParts, offers: Offers, tls: Option<Arc<Tls>>) -> Self {
        let ApiParts { node, runtime, logs, health, reviews, clock, node_name, configz, node_pages, settings, .. } =
            parts;
        let guard = tls.map(|tls| {
            let tokens = reviews.clone().filter(|_| settings.tokens);
            let authn = Authn {
                tls,
                tokens,
                anonymous: settings.anonymous,
                attempts: Attempts::new(clock.clone()),
                failures: LogLimiter::new(clock.clone()),
            };
            let failures = LogLimiter::new(clock.clone());
            let (mode, session_verb) = (settings.authorization, settings.session_verb);
            (authn, Access { mode, reviews, node: node_name.clone(), session_verb, failures })
        });
        Self {
            offers,
            guard,
            health,
            logs: Logs::new(Arc::clone(&node), Arc::clone(&runtime) as _, logs, clock.clone()),
            sessions: Sessions { runtime: Arc::clone(&runtime), clock: clock.clone(), idle: settings.idle },
            node_logs: NodeLogPages::new(Arc::clone(&node_pages.logs), settings.log_queries),
            checkpoints: Checkpointer::new(Arc::clone(&runtime), Arc::clone(&node_pages.checkpoints), clock.clone()),
            profiles: Profiles { profiler: node_pages.profiler.clone(), command_line: node_pages.command_line.clone() },
            node_pages,
            tracer: parts.tracer,
            requests: Arc::default(),
            pages: parts.metrics,
            probe_page: parts.probe_metrics,
            usage: UsagePages::new(parts.usage, node_name.clone(), clock.wall()),
            started: clock.wall(),
            settings,
            node,
            runtime,
            node_name,
            configz,
        }
    }

    pub(super) async fn answer(&self, peer: &Peer, request: Request<Incoming>) -> Answer {
        // A panic affects this request only (HTTP-07).
        let one_by_one = request.version() < Version::HTTP_2;
        let mut answer = match AssertUnwindSafe(self.guarded(peer, request)).catch_unwind().await {
            Ok(answer) => answer,
            Err(_panic) => {
                error!("Panic while serving a request: this is a bug");
                text(StatusCode::INTERNAL_SERVER_ERROR, "internal error\n")
            }
        };
        // After a rejected token the connection is closed, so that guessing tokens costs handshakes. A 403 does not close it: an
        // HTTP/2 connection may carry requests of several users.
        if matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS) {
            peer.close_after_responses();
            if one_by_one {
                // Pipelined requests are not read.
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
        }
        answer
    }

    /// Authenticates and authorizes a request, and admits its connection.
    async fn authorize(&self, peer: &Peer, request: &Request<Incoming>, path: &str) -> Result<(), Answer> {
        let (method, headers) = (request.method(), request.headers());
        // Held until the connection is admitted.
        let _turn = match peer.turn(head_size(request)).await {
            Ok(turn) => turn,
            Err(TurnRefused::Closing) => return Err(text(StatusCode::UNAUTHORIZED, "Unauthorized")),
            Err(TurnRefused::TooMany) => return Err(text(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_HEADS)),
        };
        if let Some((authn, access)) = &self.guard {
            let caller = match authn.authenticate(peer, headers).await {
                Ok(caller) => caller,
                Err(AuthnError::Unauthorized) => return Err(text(StatusCode::UNAUTHORIZED, "Unauthorized")),
                Err(AuthnError::TooOften) => return Err(text(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_TOKENS)),
            };
            if let Some(refusal) = access.refusal(&caller, method, path).await {
                return Err(refusal);
            }
        }
        if peer.admit() { Ok(()) } else { Err(text(StatusCode::SERVICE_UNAVAILABLE, "too many connections\n")) }
    }

    async fn guarded(&self, peer: &Peer, mut request: Request<Incoming>) -> Answer {
        let busy = peer.begin();
        let unknown = || text(StatusCode::NOT_FOUND, "404 page not found\n");
        let Some(path) = plain(request.uri().path()) else { return unknown() };
        let method = request.method();
        let asked = route(self.offers, self.settings.pages, method, &path);
        let clock = &self.sessions.clock;
        let in_flight = Arc::new(self.requests.enter(method, bucket(&path), asked.is_long_running(), clock));
        if asked == Route::Unknown {
            return unknown();
        }
        if let Err(refusal) = self.authorize(peer, &request, &path).await {
            return refusal;
        }
        // A session is in flight until it ends, any other request until its response has been read.
        request.extensions_mut().insert(Arc::clone(&in_flight));
        let span = self.span(&request, &asked);
        let context = span.as_ref().map(Span::context);
        in_flight.keep(span);
        let answer = match context {
            Some(context) => {
                let work = Box::pin(self.dispatch(peer, request, asked, &path));
                trace::within(Some(context), work).await
            }
            None => self.dispatch(peer, request, asked, &path).await,
        };
        let answer = answer.unwrap_or_else(|(status, why)| text(status, why));
        let status = answer.status();
        in_flight.trace(|span| {
            span.set("http.response.status_code", i64::from(status.as_u16()));
            if status.is_server_error() {
                span.fail(&"");
            }
        });
        answer.map(|body| {
            let held = move |frame| {
                let _still = (&in_flight, &busy);
                frame
            };
            body.map_frame(held).boxed_unsync()
        })
    }

    /// The span of an authorized request; `None` if there are no traces.
    ///
    /// It is part of the caller's trace only where callers are authenticated: anybody else could have every request traced.
    /// upstream: kubelet/server/server.go InstallTracingFilter (v1.36)
    fn span(&self, request: &Request<Incoming>, asked: &Route) -> Option<Span> {
        if !self.tracer.is_on() {
            return None;
        }
        let header = request.headers().get("traceparent").filter(|_| self.guard.is_some());
        let parent = header.and_then(|value| SpanContext::parse(value.to_str().ok()?));
        let mut span = self.tracer.start(asked.template(), SpanKind::Server, parent)?;
        span.set("server.address", "kubelet");
        span.set("http.request.method", request.method().to_string());
        span.set("url.path", request.uri().path().to_owned());
        span.set("http.route", asked.template());
        Some(span)
    }

    async fn dispatch(
        &self,
        peer: &Peer,
        request: Request<Incoming>,
        asked: Route,
        path: &str,
    ) -> Result<Answer, Refusal> {
        let missing = |_: &Target| "pod does not exist".to_owned();
        let query = request.uri().query().map(str::to_owned);
        let query = query.as_deref();
        match asked {
            Route::Healthz => {
                Ok(self.health.answer(API_CHECKS, path.trim_end_matches('/'), query).await.map(BodyExt::boxed_unsync))
            }
            Route::Pods => Ok(pods::list(&self.view().await?)),
            Route::RunningPods => Ok(pods::running(self.runtime.list().await)),
            Route::Configz => Ok(json(self.configz.clone())),
            Route::Metrics => Ok(self.metrics().await),
            Route::ProbeMetrics => Ok(self.probe_metrics().await),
            Route::Summary => self.usage.summary(request).await,
            Route::ResourceMetrics => self.usage.resource().await,
            Route::CadvisorMetrics => self.usage.cadvisor().await,
            Route::SliMetrics => Ok(self.sli_metrics()),
            Route::ResetSlis => {
                self.health.results().reset();
                Ok(text(StatusCode::OK, "metrics reset\n"))
            }
            Route::ContainerLogs(target) => {
                let options = LogOptions::parse(query, self.sessions.clock.wall(), self.settings.split_streams)?;
                let pod = self.pod(&target, |target| format!("pod {:?} does not exist", target.pod)).await?;
                if tty(&pod, &target.container).is_none() {
                    let why = format!("container {:?} not found in pod {:?}", target.container, target.pod);
                    return Err((StatusCode::NOT_FOUND, why));
                }
                Ok(self.logs.answer(&pod, &target.container, &options).await)
            }
            Route::Exec(target) => {
                let pod = self.pod(&target, missing).await?;
                self.sessions.exec(peer, request, &pod, &target).await
            }
            Route::Attach(target) => {
                let pod = self.pod(&target, missing).await?;
                self.sessions.attach(peer, request, &pod, &target).await
            }
            Route::PortForward(target) => {
                let pod = self.pod(&target, missing).await?;
                self.sessions.port_forward(peer, request, &pod, &target).await
            }
            Route::Run(target) => {
                let pod = self.pod(&target, missing).await?;
                self.sessions.run(query, &pod, &target).await
            }
            Route::NodeLogs => self.node_logs.answer(path, query, request.headers()).await,
            Route::Checkpoint(target) => {
                let pod = self.pod(&target, missing).await?;
                self.checkpoints.answer(query, &pod, &target).await
            }
            Route::Flagz => flagz(request.headers(), &self.node_pages.flags),
            Route::Statusz => self.statusz(&request),
            Route::LogLevel => Ok(debug::log_level(request, self.node_pages.verbosity.as_ref()).await),
            Route::Profile(name) => self.profiles.answer(&name, query).await,
            Route::Refused(status, message) => Err((status, message.to_owned())),
            Route::Unknown => Err((StatusCode::NOT_FOUND, "404 page not found\n".to_owned())),
        }
    }

    fn statusz(&self, request: &Request<Incoming>) -> Result<Answer, Refusal> {
        // upstream lists what is served without a template for the path: pages that only show something.
        let paths = [
            Some("/configz"),
            Some("/debug"),
            self.settings.pages.flagz.then_some("/flagz"),
            Some("/healthz"),
            (!self.settings.pages.node_logs).then_some("/logs"),
            Some("/metrics"),
        ];
        let paths: Vec<&str> = paths.into_iter().flatten().collect();
        let (started, now) = (self.started, self.sessions.clock.wall());
        statusz(request.headers(), &Status { started, now, version: self.node_pages.version, paths: &paths })
    }

    async fn view(&self) -> Result<NodeView, Refusal> {
        let view = tokio::time::timeout(VIEW_WITHIN, self.node.view()).await.ok().flatten();
        view.ok_or_else(no_answer)
    }

    async fn pod(&self, target: &Target, missing: impl Fn(&Target) -> String) -> Result<KnownPod, Refusal> {
        let asked = self.node.pod_named(&target.namespace, &target.pod);
        let found = tokio::time::timeout(VIEW_WITHIN, asked).await.ok().flatten().ok_or_else(no_answer)?;
        found.ok_or_else(|| (StatusCode::NOT_FOUND, missing(target)))
    }

    async fn metrics(&self) -> Answer {
        let listed = tokio::time::timeout(LIST_WITHIN, RuntimeView::list(self.runtime.as_ref())).await;
        let listed = listed.ok().and_then(Result::ok);
        let mut page = String::new();
        self.requests.write(&mut page, if self.guard.is_some() { "readwrite" } else { "readonly" });
        write_node(&mut page, &self.node_name, self.started, listed.as_deref());
        for other in &self.pages {
            self.add(&mut page, other.as_ref()).await;
        }
        metrics_page(page)
    }

    async fn probe_metrics(&self) -> Answer {
        let mut page = String::new();
        write_start(&mut page, self.started);
        self.add(&mut page, self.probe_page.as_ref()).await;
        metrics_page(page)
    }

    fn sli_metrics(&self) -> Answer {
        let mut page = String::new();
        self.health.results().write(&mut page);
        write_start(&mut page, self.started);
        metrics_page(page)
    }

    /// Appends another page; a page that does not come in time is omitted as a whole.
    async fn add(&self, page: &mut String, other: &dyn MetricsPage) {
        let mut own = String::new();
        if tokio::time::timeout(VIEW_WITHIN, other.write(&mut own)).await.is_ok() {
            page.push_str(&own);
        }
    }
}

fn no_answer() -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, "the sync loop does not respond\n".to_owned())
}

/// Approximate memory of a request's head.
fn head_size(request: &Request<Incoming>) -> usize {
    /// A header is stored with a hash and two lengths.
    const EACH: usize = 64;
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + EACH);
    let uri = request.uri();
    uri.path().len() + uri.query().map_or(0, str::len) + headers.sum::<usize>()
}
