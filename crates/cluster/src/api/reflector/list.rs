//! A paged list.

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rubelet_engine::ports::{ApiError, ApiErrorKind};
use serde::de::DeserializeOwned;

use super::event::{self, Page};
use super::set::{Changed, Set};
use super::{Reflector, query};

/// Objects per page. …
const PAGE: u32 = 500;
/// … It is divided by this if a page is larger than [`MAX_PAGE`].
const SMALLER: u32 = 8;
/// Largest page, in bytes.
const MAX_PAGE: usize = 16 << 20;
/// Most pages of a list: bounds a server that always announces another page.
const MOST_PAGES: u32 = 10_000;

impl<T> Reflector<T>
where
    T: DeserializeOwned + Metadata<Ty = ObjectMeta> + Send + Sync + 'static,
{
    /// Lists all objects, page by page.
    pub(super) async fn list(&mut self) -> Result<(), ApiError> {
        let mut all = Set::default();
        let mut next: Option<String> = None;
        let mut limit = PAGE;
        for _ in 0..MOST_PAGES {
            let path = self.page_path(limit, next.as_deref());
            let Some(body) = self.client.page(&path, MAX_PAGE).await? else {
                if limit == 1 {
                    let detail = format!("{} has an object of more than {MAX_PAGE} bytes", self.watched.path);
                    return Err(ApiError { kind: ApiErrorKind::Garbage, detail });
                }
                limit = (limit / SMALLER).max(1);
                continue;
            };
            let page: Page<'_> = serde_json::from_slice(&body).map_err(|error| ApiError {
                kind: ApiErrorKind::Garbage,
                detail: format!("the list cannot be decoded: {error}"),
            })?;
            for text in page.items.unwrap_or_default() {
                all.put(self.prepared_item(event::item(text.get())?));
            }
            self.check_size(&all)?;
            match page.metadata.next.filter(|next| !next.is_empty()) {
                Some(more) => next = Some(more),
                None => {
                    self.dirty |= self.replace_all(all) == Changed::Yes;
                    self.version = None;
                    self.advance_to(page.metadata.resource_version);
                    return Ok(());
                }
            }
        }
        let detail = format!("the list of {} does not end: {MOST_PAGES} pages were read", self.watched.path);
        Err(ApiError { kind: ApiErrorKind::Garbage, detail })
    }

    fn page_path(&self, limit: u32, next: Option<&str>) -> String {
        let min_version = self.min_version.as_deref().filter(|_| next.is_none());
        query::with(
            &self.watched.path,
            &[
                ("limit", Some(&limit.to_string())),
                ("resourceVersion", min_version),
                ("resourceVersionMatch", min_version.map(|_| "NotOlderThan")),
                ("continue", next),
                ("fieldSelector", self.watched.field_selector.as_deref()),
                ("labelSelector", self.watched.label_selector.as_deref()),
            ],
        )
    }
}
