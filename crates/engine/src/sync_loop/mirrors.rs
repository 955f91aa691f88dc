//! Publishes which static pods need a mirror pod, and which mirror pods exist (SRC-11).

use std::sync::Arc;

use rubelet_core::id::PodRef;
use rubelet_core::pod::{PodExt, Source};

use super::SyncLoop;
use crate::mirror::{Mirrored, Mirrors};

impl SyncLoop {
    /// Publishes the static pods and the mirror pods if they have changed.
    pub(super) fn publish_mirrors(&mut self) {
        let Some(publisher) = &self.mirrors else { return };
        let mut now = Mirrors { api_seen: self.desired.has_delivered(Source::Api), ..Mirrors::default() };
        for pod in self.desired.pods().filter(|pod| pod.is_static()) {
            let name = PodRef::of(pod).full_name();
            // Of an updated static pod the old version has its grace period, and its mirror pod shows that. The new version's
            // mirror pod comes when the new version may start.
            let holder = self.workers.static_pod_named(&name);
            let shown = holder.filter(|holder| PodRef::of(holder).uid != PodRef::of(pod).uid).unwrap_or(pod);
            // If two sources want a pod of this name, the source of higher rank comes first.
            now.by_name.entry(name).or_default().pod.get_or_insert_with(|| Arc::clone(shown));
        }
        let all_seen = self.desired.all_sources_seen();
        for mirror in self.desired.mirrors() {
            let name = PodRef::of(mirror).full_name();
            let wanted = now.by_name.contains_key(&name);
            // A mirror pod without a static pod is deleted by the mirror task. It stays until all sources have been read,
            // because its static pod may yet come, and until its static pod has ended, because it shows that pod's status.
            if wanted || (all_seen && !self.workers.has_static_named(&name)) {
                let mirrored: &mut Mirrored = now.by_name.entry(name).or_default();
                mirrored.mirror = Some(Arc::clone(mirror));
            }
        }
        let now = Arc::new(now);
        self.workers.set_mirrors(&now);
        publisher.send_if_modified(|published| {
            let changed = **published != *now;
            if changed {
                *published = now;
            }
            changed
        });
    }
}
