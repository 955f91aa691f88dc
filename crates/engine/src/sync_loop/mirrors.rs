//! What there is to mirror (SRC-11).

use std::sync::Arc;

use rubelet_core::id::PodRef;
use rubelet_core::pod::{PodExt, Source};

use super::SyncLoop;
use crate::mirror::{Mirrored, Mirrors};

impl SyncLoop {
    /// Tells which static pods and mirrors there are, if that changed.
    pub(super) fn tell_mirrors(&mut self) {
        let Some(tell) = &self.mirrors else { return };
        let mut now = Mirrors { api_seen: self.desired.has_delivered(Source::Api), ..Mirrors::default() };
        for pod in self.desired.pods().filter(|pod| pod.is_static()) {
            let mirrored = now.by_name.entry(PodRef::of(pod).full_name()).or_default();
            // Of two sources that ask for one name, the first has it.
            mirrored.pod.get_or_insert_with(|| Arc::clone(pod));
        }
        let all_seen = self.desired.all_sources_seen();
        for mirror in self.desired.mirrors() {
            let name = PodRef::of(mirror).full_name();
            let wanted = now.by_name.contains_key(&name);
            // Until all sources are read its pod may yet come, and until its pod has ended it is still shown.
            if wanted || (all_seen && !self.workers.has_static_named(&name)) {
                let mirrored: &mut Mirrored = now.by_name.entry(name).or_default();
                mirrored.mirror = Some(Arc::clone(mirror));
            }
        }
        let now = Arc::new(now);
        self.workers.set_mirrors(&now);
        tell.send_if_modified(|told| {
            let changed = **told != *now;
            if changed {
                *told = now;
            }
            changed
        });
    }
}
