//! The events of a watch.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::set::Key;
use crate::api::status;
use crate::api::strip::without_managed_fields;

/// Annotation of the bookmark that ends the initial objects of a WatchList.
///
/// upstream: apimachinery meta/v1 InitialEventsAnnotationKey (v1.36).
const END_OF_LIST: &str = "k8s.io/initial-events-end";

/// An event of a watch.
#[derive(Debug)]
pub(super) enum Event<T> {
    /// An object was added or changed.
    Put(Item<T>),
    /// An object was deleted; the version is that of the deletion.
    Gone(Key, String),
    /// There are no further events up to this version.
    Bookmark {
        version: String,
        /// All objects that existed when the watch began have been sent.
        listed: bool,
    },
}

/// An object, or the error of its decoder.
#[derive(Debug)]
pub(super) struct Item<T> {
    pub(super) key: Key,
    pub(super) version: String,
    /// Size of its JSON without managed fields.
    pub(super) size: usize,
    pub(super) object: Result<T, String>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    metadata: Meta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    namespace: String,
    name: String,
    resource_version: String,
    annotations: Option<BTreeMap<String, String>>,
}

/// One page of a list; its items are not decoded yet.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: PageMeta,
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PageMeta {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

/// Decodes a line of a watch.
///
/// # Errors
/// The error of an ERROR event; `Garbage` if the line is not a watch event.
pub(super) fn read<T>(line: &[u8]) -> Result<Option<Event<T>>, ApiError>
where
    T: DeserializeOwned + Metadata<Ty = ObjectMeta>,
{
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| garbage(&error))?;
    let object = line.object.get();
    match &*line.kind {
        "ADDED" | "MODIFIED" => item(object).map(Event::Put).map(Some),
        "DELETED" => {
            let meta = head(object)?;
            Ok(Some(Event::Gone(Key { namespace: meta.namespace, name: meta.name }, meta.resource_version)))
        }
        "BOOKMARK" => {
            let meta = head(object)?;
            let listed = meta.annotations.unwrap_or_default().get(END_OF_LIST).is_some_and(|value| value == "true");
            Ok(Some(Event::Bookmark { version: meta.resource_version, listed }))
        }
        "ERROR" => {
            let status = serde_json::from_str(object).map_err(|error| garbage(&error))?;
            Err(status::event_error(&status))
        }
        // An event type that is newer than this client.
        _ => Ok(None),
    }
}

/// Decodes an object. An object that cannot be decoded is identified by its metadata, so that it does not block the others.
pub(super) fn item<T>(text: &str) -> Result<Item<T>, ApiError>
where
    T: DeserializeOwned + Metadata<Ty = ObjectMeta>,
{
    let text = without_managed_fields(text);
    let size = text.len();
    match serde_json::from_str::<T>(&text) {
        Ok(object) => {
            let meta = object.metadata();
            let key = Key {
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: meta.name.clone().unwrap_or_default(),
            };
            let version = meta.resource_version.clone().unwrap_or_default();
            Ok(Item { key, version, size, object: Ok(object) })
        }
        Err(error) => {
            let meta = head(&text)?;
            let key = Key { namespace: meta.namespace, name: meta.name };
            Ok(Item { key, version: meta.resource_version, size, object: Err(error.to_string()) })
        }
    }
}

fn head(object: &str) -> Result<Meta, ApiError> {
    serde_json::from_str::<Head>(object).map(|head| head.metadata).map_err(|error| garbage(&error))
}

fn garbage(error: &serde_json::Error) -> ApiError {
    ApiError { kind: ApiErrorKind::Garbage, detail: format!("an event of the watch cannot be decoded: {error}") }
}
