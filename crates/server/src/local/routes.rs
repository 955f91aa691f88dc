//! What each path answers. The local socket and the page's port share it; only the socket serves what is for root alone.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use rubelet_core::usage::NodeUsage;
use rubelet_engine::ports::{Detail, Wanted};
use rubelet_engine::sync_loop::NodeView;
use serde::Serialize;
use tracing::debug;

use super::guard::{self, Names};
use super::{Agent, EVENTS, LOGS, NODE, PAGE, PODS, Refusal, STATUS, TOP, page};
use crate::documents::{
    LogAsk, Miss, NodeFigures, PodStory, ended_story, node_document, node_story, page_document, pod_log, pod_story,
    status_document, top_document, uid_of,
};
use crate::http1::{Answer, answer};
use crate::url::{decode, query_values};
use crate::watched::WatchedNode;

/// A sync loop that does not respond within this hangs.
const VIEW_WITHIN: Duration = Duration::from_secs(5);
/// Usage that cannot be measured within this is left out: a file system may hang.
const USAGE_WITHIN: Duration = Duration::from_secs(4);
/// How old the usage may be that a command or the page shows.
const USAGE_AGE: Duration = Duration::from_secs(1);
/// How old the disks' usage may be: it is expensive, and changes slowly.
const DISK_AGE: Duration = Duration::from_secs(60);
/// A request that waits for news is answered after this even without any. It is shorter than the deadline of a connection.
const NEWS_WITHIN: Duration = Duration::from_secs(8);

/// Answers requests.
pub(super) struct Routes {
    pub(super) node: Arc<dyn WatchedNode>,
    pub(super) agent: Agent,
    pub(super) names: Names,
}

/// What may be asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything.
    Root,
    /// The page and what it reads.
    Page,
}

/// What a request asks for.
enum Asked {
    Pods,
    /// The word that names the pod.
    Pod(String),
    Status,
    Top,
    Node,
    Page,
    Log(LogAsk),
}

impl Routes {
    /// Answers one request.
    pub(super) async fn answer<B>(&self, request: &Request<B>, scope: Scope) -> Answer {
        let uri = request.uri();
        if let Some((status, why)) = guard::refusal(request.method(), uri, request.headers(), self.names) {
            return page::guarded(refuse(status, why));
        }
        page::guarded(self.path(uri.path(), uri.query(), scope).await)
    }

    async fn path(&self, path: &str, query: Option<&str>, scope: Scope) -> Answer {
        if let Some(file) = page::file(path) {
            return file;
        }
        if path == EVENTS && scope == Scope::Root {
            return self.events(query).await;
        }
        let Some(asked) = asked(path, query, scope) else { return refuse(StatusCode::NOT_FOUND, "no such path") };
        if let Asked::Log(ask) = &asked
            && let Some(id) = ask.until_end_of.clone()
        {
            return self.end_of(&id, ask).await;
        }
        match self.view().await {
            Ok(view) => self.document(&view, asked).await,
            Err(refusal) => refusal,
        }
    }

    async fn view(&self) -> Result<NodeView, Answer> {
        match tokio::time::timeout(VIEW_WITHIN, self.node.view()).await {
            Ok(Some(view)) => Ok(view),
            Ok(None) => Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "rubelet is stopping")),
            Err(_elapsed) => {
                let error = "the sync loop does not answer: this is a bug, its log may tell more";
                Err(refuse(StatusCode::SERVICE_UNAVAILABLE, error))
            }
        }
    }

    async fn document(&self, view: &NodeView, asked: Asked) -> Answer {
        match asked {
            Asked::Pods => json(StatusCode::OK, &node_document(view)),
            Asked::Pod(word) => found(self.story(view, &word).await),
            Asked::Status => json(StatusCode::OK, &status_document(view, &self.agent.view(view.now))),
            Asked::Top => match self.usage(false).await {
                Ok(usage) => json(StatusCode::OK, &top_document(&usage, &self.agent.insight.limits)),
                Err(why) => refuse(StatusCode::SERVICE_UNAVAILABLE, &why),
            },
            Asked::Node => self.with_figures(|figures| json(StatusCode::OK, &node_story(view, figures))).await,
            Asked::Page => {
                let agent = self.agent.view(view.now);
                self.with_figures(|figures| json(StatusCode::OK, &page_document(view, &agent, figures))).await
            }
            Asked::Log(ask) => found(pod_log(view, &ask)),
        }
    }

    /// The story of a pod; of one that is gone, if it ended in the last hour.
    async fn story(&self, view: &NodeView, word: &str) -> Result<PodStory, Miss> {
        let insight = &self.agent.insight;
        let extras = insight.extras(uid_of(view, word)).await;
        match (pod_story(view, word, &extras), &insight.ended) {
            (Err(miss @ Miss::Unknown { .. }), Some(ended)) => ended_story(view, &ended.pods().await, word).ok_or(miss),
            (result, _) => result,
        }
    }

    async fn with_figures(&self, show: impl FnOnce(&NodeFigures<'_>) -> Answer) -> Answer {
        let (usage, disks) = tokio::join!(self.usage(false), self.usage(true));
        let allocatable = self.agent.now.borrow().allocatable.clone();
        let eviction = self.agent.insight.eviction.as_ref().and_then(|eviction| eviction.view());
        show(&NodeFigures {
            node: &self.agent.node_name,
            version: &self.agent.version,
            limits: &self.agent.insight.limits,
            allocatable: &allocatable,
            usage: usage.as_deref().map_err(String::as_str),
            disks: disks.as_deref().ok(),
            eviction: eviction.as_deref(),
        })
    }

    /// What the node and its pods use, or why that is not known.
    async fn usage(&self, disks: bool) -> Result<Arc<NodeUsage>, String> {
        let Some(reader) = &self.agent.insight.usage else { return Err("this node does not measure usage".to_owned()) };
        let max_age = if disks { DISK_AGE } else { USAGE_AGE };
        let fresh = Wanted { detail: Detail::Usage, networks: false, disks, max_age };
        match tokio::time::timeout(USAGE_WITHIN, reader.usage(fresh)).await {
            Ok(Ok(usage)) => Ok(usage),
            Ok(Err(err)) => Err(format!("usage cannot be measured: {err}")),
            Err(_elapsed) => Err("measuring usage takes too long: a file system may hang".to_owned()),
        }
    }

    /// The events after a number; with `wait`, not before there is one.
    async fn events(&self, query: Option<&str>) -> Answer {
        let events = &self.agent.insight.events;
        let after = query_values(query, "after").first().and_then(|word| word.parse().ok()).unwrap_or(0);
        if !query_values(query, "wait").is_empty() {
            let mut news = events.news();
            let _quiet = tokio::time::timeout(NEWS_WITHIN, news.wait_for(|newest| *newest > after)).await;
        }
        json(StatusCode::OK, &events.since(after))
    }

    /// The log of a container once it has ended, or after a while. A look follows each change that the sync loop announces.
    async fn end_of(&self, id: &str, ask: &LogAsk) -> Answer {
        let mut news = self.node.news();
        let ended = async {
            loop {
                news.borrow_and_update();
                let view = self.view().await?;
                let log = match pod_log(&view, ask) {
                    Ok(log) => log,
                    Err(miss) => return Ok(missing(miss)),
                };
                if !log.running.iter().any(|running| running == id) {
                    return Ok(json(StatusCode::OK, &log));
                }
                if news.changed().await.is_err() {
                    return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "rubelet is stopping"));
                }
                tokio::time::sleep(SETTLE).await;
            }
        };
        match tokio::time::timeout(NEWS_WITHIN, ended).await {
            Ok(Ok(answer) | Err(answer)) => answer,
            Err(_elapsed) => match self.view().await {
                Ok(view) => found(pod_log(&view, ask)),
                Err(refusal) => refusal,
            },
        }
    }
}

/// Pause between a change on the node and the look at a container: on a busy node not every change leads to one.
const SETTLE: Duration = Duration::from_millis(300);

/// What is asked for, if the path is known in this scope.
fn asked(path: &str, query: Option<&str>, scope: Scope) -> Option<Asked> {
    if let Some(rest) = path.strip_prefix(PODS) {
        return match rest.strip_prefix('/') {
            Some(word) => Some(Asked::Pod(decode(word.trim_start_matches('/')))),
            None if rest.is_empty() => Some(Asked::Pods),
            None => None,
        };
    }
    match path {
        PAGE => Some(Asked::Page),
        NODE => Some(Asked::Node),
        TOP => Some(Asked::Top),
        STATUS if scope == Scope::Root => Some(Asked::Status),
        _ if scope == Scope::Root => {
            let word = path.strip_prefix(LOGS)?.strip_prefix('/')?;
            let first = |key| query_values(query, key).into_iter().next().filter(|word: &String| !word.is_empty());
            Some(Asked::Log(LogAsk {
                pod: decode(word),
                container: first("container"),
                previous: !query_values(query, "previous").is_empty(),
                until_end_of: first("until-end-of"),
            }))
        }
        _ => None,
    }
}

fn found(document: Result<impl Serialize, Miss>) -> Answer {
    match document {
        Ok(document) => json(StatusCode::OK, &document),
        Err(miss) => missing(miss),
    }
}

fn missing(miss: Miss) -> Answer {
    json(StatusCode::NOT_FOUND, &Refusal { error: miss.to_string(), miss: Some(miss) })
}

pub(super) fn refuse(status: StatusCode, error: &str) -> Answer {
    json(status, &Refusal { error: error.to_owned(), miss: None })
}

fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    match serde_json::to_vec(document) {
        Ok(body) => answer(status, "application/json", body.into()),
        // Plain structs with string keys always serialize.
        Err(err) => {
            debug!(%err, "A document cannot be shown");
            answer(StatusCode::INTERNAL_SERVER_ERROR, "application/json", "{}".into())
        }
    }
}
