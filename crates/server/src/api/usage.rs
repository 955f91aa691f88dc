//! `/stats/summary`, `/metrics/resource` and `/metrics/cadvisor`: what the node and its pods use.
//!
//! Nothing is measured unless a page is asked for. Requests that come together share one look, and a look that is a moment
//! old will do, so that many scrapers cost as much as one. Pages are sent part by part, and only so many at a time: memory
//! does not grow with the number of requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Body as HttpBody, Frame};
use jiff::Timestamp;
use rubelet_core::usage::{CadvisorPage, NodeUsage, Parts, SummaryOf, resource_failure, resource_page, summary};
use rubelet_engine::ports::{Detail, Unmeasured, UsageReader, Wanted};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use super::answers::{Answer, Refusal, json, metrics_page, metrics_stream};
use crate::url::query_values;

/// A look at all cgroups takes milliseconds. One that takes this long hangs.
const LOOK_WITHIN: Duration = Duration::from_secs(30);
/// A page may show a look of this age. Upstream's are up to ten seconds old.
const MAX_AGE: Duration = Duration::from_secs(1);
/// Pages that are sent at a time. Each costs some hundred kilobytes on a node with many pods.
pub(super) const MOST_PAGES: usize = 16;
/// How long a request waits for one of them to end.
const TURN_WITHIN: Duration = Duration::from_secs(10);
/// The most bytes of a form, and how long its client may take to send it.
const LONGEST_FORM: usize = 4096;
const FORM_WITHIN: Duration = Duration::from_secs(10);

type Look = BoxFuture<'static, Result<Arc<NodeUsage>, Unmeasured>>;

/// Serves the pages of usage.
pub(super) struct UsagePages {
    reader: Option<Arc<dyn UsageReader>>,
    node: String,
    /// When the kubelet was started.
    started: Timestamp,
    /// The looks that are under way.
    looks: Mutex<Vec<(Wanted, WeakShared<Look>)>>,
    turns: Arc<Semaphore>,
}

impl UsagePages {
    pub(super) fn new(reader: Option<Arc<dyn UsageReader>>, node: String, started: Timestamp) -> Self {
        Self { reader, node, started, looks: Mutex::default(), turns: Arc::new(Semaphore::new(MOST_PAGES)) }
    }

    /// upstream: kubelet/server/stats/handler.go handleSummary (v1.36)
    #[doc(alias = "handleSummary")]
    pub(super) async fn summary<B>(&self, request: Request<B>) -> Result<Answer, Refusal>
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let failed = |why: String| (StatusCode::INTERNAL_SERVER_ERROR, format!("Internal Error: {why}"));
        let parts = parts(request).await.ok_or_else(|| failed("parse form failed".into()))?;
        let usage = self.look(of_summary(parts)).await.map_err(|why| failed(why.to_string()))?;
        let turn = self.turn().await?;
        let machine = match &self.reader {
            Some(reader) => reader.machine().await,
            None => Default::default(),
        };
        let of = SummaryOf { node: &self.node, machine: &machine, kubelet_started: self.started };
        Ok(held(json(summary(&usage, &of, parts)), turn))
    }

    pub(super) async fn resource(&self) -> Result<Answer, Refusal> {
        let wanted = Wanted { detail: Detail::CpuAndMemory, networks: false, disks: false, max_age: MAX_AGE };
        let usage = self.look(wanted).await;
        let turn = self.turn().await?;
        let page = match usage {
            Ok(usage) => resource_page(&usage),
            Err(why) => {
                warn!(%why, "Failed to measure the usage of the node for /metrics/resource");
                resource_failure()
            }
        };
        Ok(held(metrics_page(page), turn))
    }

    pub(super) async fn cadvisor(&self) -> Result<Answer, Refusal> {
        let wanted = Wanted { detail: Detail::Everything, networks: true, disks: true, max_age: MAX_AGE };
        let usage = self.look(wanted).await;
        let turn = self.turn().await?;
        if let Err(why) = &usage {
            warn!(%why, "Failed to measure the usage of the node for /metrics/cadvisor");
        }
        let machine = match &self.reader {
            Some(reader) => reader.machine().await,
            None => Default::default(),
        };
        let page = CadvisorPage::new(usage.ok(), machine).map(|part| Ok(Frame::data(Bytes::from(part))));
        Ok(held(metrics_stream(StreamBody::new(stream::iter(page)).boxed_unsync()), turn))
    }

    /// After the look, which all that wait for a turn share.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let turn = tokio::time::timeout(TURN_WITHIN, Arc::clone(&self.turns).acquire_owned()).await;
        let busy = || (StatusCode::SERVICE_UNAVAILABLE, "too many pages are being read: try again later\n".to_owned());
        turn.ok().and_then(Result::ok).ok_or_else(busy)
    }

    async fn look(&self, wanted: Wanted) -> Result<Arc<NodeUsage>, Unmeasured> {
        let Some(reader) = &self.reader else { return Err(Unmeasured("there is no reader of usage".into())) };
        let look = self.under_way(wanted, reader);
        let hangs = || Unmeasured(format!("no answer within {} s", LOOK_WITHIN.as_secs()));
        tokio::time::timeout(LOOK_WITHIN, look).await.unwrap_or_else(|_| Err(hangs()))
    }

    /// The look that others wait for already, or a new one. It ends with the last that waits for it.
    fn under_way(&self, wanted: Wanted, reader: &Arc<dyn UsageReader>) -> Shared<Look> {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|(_, look)| look.upgrade().is_some_and(|look| look.peek().is_none()));
        let found = looks.iter().filter(|(of, _)| *of == wanted).find_map(|(_, look)| look.upgrade());
        found.unwrap_or_else(|| {
            let reader = Arc::clone(reader);
            let look = async move { reader.usage(wanted).await }.boxed().shared();
            looks.extend(look.downgrade().map(|weak| (wanted, weak)));
            look
        })
    }
}

fn of_summary(parts: Parts) -> Wanted {
    let all = parts == Parts::All;
    Wanted { detail: Detail::Usage, networks: all, disks: all, max_age: MAX_AGE }
}

/// The page keeps its turn until it was sent.
fn held(answer: Answer, turn: OwnedSemaphorePermit) -> Answer {
    answer.map(|body| {
        let turn = Arc::new(turn);
        let held = move |frame| {
            let _still = &turn;
            frame
        };
        body.map_frame(held).boxed_unsync()
    })
}

/// `only_cpu_and_memory=true`, once, in the query or in the form of a POST. `None` if the form cannot be read.
async fn parts<B>(request: Request<B>) -> Option<Parts>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    const KEY: &str = "only_cpu_and_memory";
    let (head, body) = request.into_parts();
    let is_form = |kind: &http::HeaderValue| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded");
    let mut values = Vec::new();
    if head.method == Method::POST && head.headers.get(CONTENT_TYPE).is_some_and(is_form) {
        let form = tokio::time::timeout(FORM_WITHIN, Limited::new(body, LONGEST_FORM).collect()).await.ok()?.ok()?;
        values = query_values(std::str::from_utf8(&form.to_bytes()).ok(), KEY);
    }
    values.extend(query_values(head.uri.query(), KEY));
    Some(if values == ["true"] { Parts::CpuAndMemory } else { Parts::All })
}
