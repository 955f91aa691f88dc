//! Lets pods start when their names are free ([`Names`](rubelet_core::lifecycle::Names)).

use rubelet_core::id::{PodRef, PodUid};
use rubelet_core::lifecycle::{Event, Stage};
use rubelet_core::pod::PodExt;
use rubelet_core::timeline::Waiting;

use super::workers::PodWorkers;

impl PodWorkers {
    /// Replaces the unknown pods, and starts pods whose name is free now.
    pub fn set_unknown(&mut self, pods: impl IntoIterator<Item = PodRef>) {
        self.names.set_unknown(pods);
        let waiting = self.workers.iter().filter(|(_, w)| *w.life.stage() == Stage::Waiting);
        let waiting: Vec<PodUid> = waiting.map(|(uid, _)| uid.clone()).collect();
        for uid in waiting {
            self.offer_name(&uid);
        }
    }

    /// Starts a waiting pod if its name is free (WORK-08). Pods from the API do not wait: the API server keeps their names
    /// unique.
    pub(super) fn offer_name(&mut self, uid: &PodUid) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        let name = worker.life.subject().reference().full_name();
        let is_static = worker.life.subject().pod().is_some_and(|pod| pod.is_static());
        match self.names.blocks(&name, uid).filter(|_| is_static) {
            None => self.event(uid, Event::NameFree),
            Some(what) => {
                let since = self.node.clock.mono();
                worker.waiting.get_or_insert(Waiting { what: what.to_owned(), since, until: None });
            }
        }
    }

    /// Takes the pod out of the queue for its name, and starts the next pod of that name.
    pub(super) fn leave_name(&mut self, uid: &PodUid) {
        let Some(worker) = self.workers.get(uid) else { return };
        let name = worker.life.subject().reference().full_name();
        if let Some(next) = self.names.leave(&name, uid) {
            self.offer_name(&next);
        }
    }
}
