//! Events before they are sent: their content, and which of many similar ones are sent (EVT-01).
//!
//! Three filters, in this order. *Similar* events (same object, kind and reason, other words) are combined into one once
//! there are many in a short time. *Equal* events are counted on the one that is there. And too many
//! events about one object are dropped for a while. All three remember a bounded number of keys; the least recently used
//! is forgotten first, which costs at most an event more than needed.
//!
//! upstream: client-go tools/record/events_cache.go (v1.36)

mod lru;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use crate::manifest::is_dns_subdomain;
use crate::status::cut;
use crate::time::{Instant, Now};
use lru::Lru;

/// How many keys each filter remembers.
#[doc(alias = "maxLruCacheEntries")]
const REMEMBERED: usize = 4096;
/// So many different messages of similar events are combined …
#[doc(alias = "defaultAggregateMaxEvents")]
const SIMILAR: usize = 10;
/// … if none of them is further than this from the one before.
#[doc(alias = "defaultAggregateIntervalInSeconds")]
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// So many events about one object are sent at once …
#[doc(alias = "defaultSpamBurst")]
const BURST: f64 = 25.0;
/// … and then one in this time.
#[doc(alias = "defaultSpamQPS")]
const REFILL: Duration = Duration::from_secs(300);
/// Namespace of events about the node, which has none.
/// The longest message of an event, in bytes: room for the output of a probe (10 KiB) and a few words around it. Runtimes
/// and registries may answer with pages.
const LONGEST_MESSAGE: usize = 12 << 10;

const DEFAULT_NAMESPACE: &str = "default";
/// The component that emits events.
#[doc(alias = "ComponentKubelet")]
const COMPONENT: &str = "kubelet";

/// The content of an event.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// `Normal` or `Warning`.
    pub kind: &'a str,
    /// Upstream's reason, such as `BackOff`.
    pub reason: &'a str,
    /// The message.
    pub message: &'a str,
}

/// The reference of a pod, or of a part of it. A static pod has its own UID here, not that of its mirror:
/// `kubectl describe` looks for it.
#[doc(alias = "GenerateContainerRef")]
pub fn pod_reference(pod: &Pod, field_path: Option<String>) -> ObjectReference {
    let meta = &pod.metadata;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path,
    }
}

/// The reference of the node, by name alone: the events of a node outlive its object.
///
/// upstream: kubelet.go NewMainKubelet, nodeRef without a UID (v1.36)
#[doc(alias = "nodeRef")]
pub fn node_reference(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

/// The event that `node` emits about `subject`. `chance` names it if the name of the subject cannot.
#[doc(alias = "makeEvent")]
pub fn new_event(node: &str, subject: ObjectReference, words: &Words<'_>, at: Timestamp, chance: [u64; 2]) -> Event {
    let namespace = subject.namespace.clone().filter(|n| !n.is_empty());
    let name = event_name(subject.name.as_deref().unwrap_or_default(), at);
    let name = if is_dns_subdomain(&name) { name } else { uuid(chance) };
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())),
            ..ObjectMeta::default()
        },
        involved_object: subject,
        reason: Some(words.reason.to_owned()),
        message: Some(cut(words.message, LONGEST_MESSAGE).to_owned()),
        type_: Some(words.kind.to_owned()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: Some(node.to_owned()) }),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: Some(node.to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        ..Event::default()
    }
}

fn event_name(subject: &str, at: Timestamp) -> String {
    format!("{subject}.{:x}", at.as_nanosecond())
}

/// A random UUID, version 4.
fn uuid([high, low]: [u64; 2]) -> String {
    let (high, low) = ((high & !0xf000) | 0x4000, (low & !(0b11 << 62)) | (0b10 << 62));
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// What to do about an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Drop it: there were too many about its object.
    Skip,
    /// Send it.
    Create(Box<Event>),
    /// Count it on the event of that name. If that event is gone, send this one with the count.
    Count {
        /// The event with the new count.
        event: Box<Event>,
        /// The change, as a strategic merge patch.
        patch: String,
    },
}

/// Remembers events and decides which are sent.
#[doc(alias = "EventCorrelator")]
#[derive(Debug)]
pub struct Correlator {
    similar: Lru<Similar>,
    equal: Lru<Counted>,
    talkative: Lru<Bucket>,
}

/// Events that differ by their message alone.
#[doc(alias = "aggregateRecord")]
#[derive(Debug)]
struct Similar {
    messages: BTreeSet<String>,
    last: Instant,
}

/// The event that equal ones are counted on.
#[doc(alias = "eventLog")]
#[derive(Debug)]
struct Counted {
    name: String,
    count: i32,
    first: Timestamp,
}

/// How many events about an object may still be sent.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Default for Correlator {
    fn default() -> Self {
        Self::remembering(REMEMBERED)
    }
}

impl Correlator {
    fn remembering(most: usize) -> Self {
        Self { similar: Lru::new(most), equal: Lru::new(most), talkative: Lru::new(most) }
    }

    /// What to do about `event`, made now.
    #[doc(alias = "EventCorrelate")]
    pub fn correlate(&mut self, event: Event, now: Now) -> Verdict {
        let spam = spam_key(&event);
        let (event, key) = self.combine(event, now);
        let verdict = self.count(event, key, now);
        // Counted first and dropped afterwards: the next event that is sent has the whole count.
        if self.take_token(spam, now.mono) { verdict } else { Verdict::Skip }
    }

    /// The event itself, or the one that combines similar events; and the key of equal ones.
    #[doc(alias = "EventAggregate")]
    fn combine(&mut self, event: Event, now: Now) -> (Event, String) {
        let group = group_key(&event);
        let message = event.message.clone().unwrap_or_default();
        let fresh = || Similar { messages: BTreeSet::new(), last: now.mono };
        let similar = self.similar.get_or_insert(&group, fresh);
        if now.mono.since(similar.last) > SIMILAR_WITHIN {
            similar.messages.clear();
        }
        similar.last = now.mono;
        similar.messages.insert(message.clone());
        if similar.messages.len() < SIMILAR {
            let key = event_key(&event);
            return (event, key);
        }
        // Which message is dropped does not matter, only how many there are.
        similar.messages.pop_first();
        let name = event_name(event.involved_object.name.as_deref().unwrap_or_default(), now.wall);
        let combined = Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: event.metadata.namespace.clone(),
                ..ObjectMeta::default()
            },
            message: Some(format!("(combined from similar events): {message}")),
            count: Some(1),
            first_timestamp: Some(Time(now.wall)),
            last_timestamp: Some(Time(now.wall)),
            reporting_component: None,
            reporting_instance: None,
            ..event
        };
        (combined, group)
    }

    #[doc(alias = "eventObserve")]
    fn count(&mut self, mut event: Event, key: String, now: Now) -> Verdict {
        if let Some(known) = self.equal.get(&key) {
            known.count = known.count.saturating_add(1);
            event.metadata.name = Some(known.name.clone());
            event.first_timestamp = Some(Time(known.first));
            event.count = Some(known.count);
            let patch = json!({
                "count": event.count,
                "lastTimestamp": event.last_timestamp,
                "message": event.message,
            });
            return Verdict::Count { patch: patch.to_string(), event: Box::new(event) };
        }
        let first = event.first_timestamp.as_ref().map_or(now.wall, |t| t.0);
        let name = event.metadata.name.clone().unwrap_or_default();
        self.equal.get_or_insert(&key, || Counted { name, count: 1, first });
        Verdict::Create(Box::new(event))
    }

    #[doc(alias = "EventSourceObjectSpamFilter")]
    fn take_token(&mut self, key: String, now: Instant) -> bool {
        let bucket = self.talkative.get_or_insert(&key, || Bucket { tokens: BURST, at: now });
        let gained = now.since(bucket.at).as_secs_f64() / REFILL.as_secs_f64();
        bucket.tokens = (bucket.tokens + gained).min(BURST);
        bucket.at = now;
        let may = bucket.tokens >= 1.0;
        if may {
            bucket.tokens -= 1.0;
        }
        may
    }
}

fn text(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or_default()
}

/// Source and object of an event: the first parts of every key.
fn subject_key(event: &Event) -> String {
    let object = &event.involved_object;
    let source = event.source.clone().unwrap_or_default();
    let parts = [
        text(&source.component),
        text(&source.host),
        text(&object.kind),
        text(&object.namespace),
        text(&object.name),
        text(&object.uid),
        text(&object.api_version),
        text(&event.type_),
    ];
    parts.join("\n")
}

#[doc(alias = "getSpamKey")]
fn spam_key(event: &Event) -> String {
    subject_key(event)
}

#[doc(alias = "EventAggregatorByReasonFunc")]
fn group_key(event: &Event) -> String {
    format!("{}\n{}", subject_key(event), text(&event.reason))
}

#[doc(alias = "getEventKey")]
fn event_key(event: &Event) -> String {
    let place = text(&event.involved_object.field_path);
    format!("{}\n{place}\n{}", group_key(event), text(&event.message))
}
