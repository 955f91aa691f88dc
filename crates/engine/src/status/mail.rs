//! The mailbox of the status writer: the newest status of each pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rubelet_core::id::{PodRef, PodUid};
use tokio::sync::watch;

use crate::ports::{StatusObserver, StatusReport};

/// Where pod statuses go. It never waits: a later status of a pod replaces an earlier one.
#[derive(Clone)]
pub struct StatusMail {
    /// `None` on a node without an API server: nobody writes statuses there, the sync loop's own view shows them.
    inbox: Option<Inbox>,
    observer: Option<Arc<dyn StatusObserver>>,
}

impl std::fmt::Debug for StatusMail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusMail").field("unwritten", &self.unwritten()).finish_non_exhaustive()
    }
}

/// The writer's end. It holds at most one status of each pod, so it needs no bound of its own.
#[derive(Clone)]
pub(super) struct Inbox {
    mail: Arc<watch::Sender<Mail>>,
    /// How many requests the writer has yet to make or waits for.
    unwritten: Arc<watch::Sender<usize>>,
}

/// What has come in since the writer last looked.
#[derive(Default)]
pub(super) struct Mail {
    /// Pods of which nothing is left. A status of the same UID that came later is of its next life.
    pub(super) forgotten: BTreeSet<PodUid>,
    pub(super) reports: BTreeMap<PodUid, StatusReport>,
}

impl StatusMail {
    /// A mailbox that no writer reads.
    pub fn unread(observer: Option<Arc<dyn StatusObserver>>) -> Self {
        Self { inbox: None, observer }
    }

    /// A mailbox and its writer's end.
    pub(super) fn new(observer: Option<Arc<dyn StatusObserver>>) -> (Self, Inbox) {
        let inbox = Inbox { mail: Arc::new(watch::Sender::new(Mail::default())), unwritten: Arc::default() };
        (Self { inbox: Some(inbox.clone()), observer }, inbox)
    }

    /// Takes the newest status of a pod.
    pub fn report(&self, report: StatusReport) {
        if let Some(observer) = &self.observer {
            observer.observe(&report);
        }
        if let Some(Inbox { mail, .. }) = &self.inbox {
            mail.send_modify(|mail| {
                mail.reports.insert(PodRef::of(&report.pod).uid, report);
            });
        }
    }

    /// The pod is known no more: no source has it, and nothing of it is left.
    #[doc(alias = "RemoveOrphanedStatuses")]
    pub fn forget(&self, uid: &PodUid) {
        if let Some(Inbox { mail, .. }) = &self.inbox {
            mail.send_modify(|mail| {
                mail.reports.remove(uid);
                mail.forgotten.insert(uid.clone());
            });
        }
    }

    /// How many writes are yet to be made or answered; `None` on a node without an API server.
    pub fn unwritten(&self) -> Option<usize> {
        let Inbox { mail, unwritten } = self.inbox.as_ref()?;
        let waiting = mail.borrow().reports.len();
        Some(waiting + *unwritten.borrow())
    }

    /// Waits until the API shows every status that has come in so far. While the API server is away that takes as long as
    /// it is away: the caller has to bound it. Cancel-safe.
    pub async fn flushed(&self) {
        let Some(Inbox { mail, unwritten }) = &self.inbox else { return };
        let mut count = unwritten.subscribe();
        loop {
            if mail.borrow().reports.is_empty() && *count.borrow_and_update() == 0 {
                return;
            }
            // The writer publishes the count after each event, so also after it has taken the mail.
            if count.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Inbox {
    /// Publishes how many requests are yet to be made or answered.
    pub(super) fn set_unwritten(&self, count: usize) {
        self.unwritten.send_replace(count);
    }

    /// Wakes when something has come in.
    pub(super) fn subscribe(&self) -> watch::Receiver<Mail> {
        self.mail.subscribe()
    }

    /// Takes out all that has come in.
    pub(super) fn take(&self) -> Mail {
        let mut taken = Mail::default();
        self.mail.send_if_modified(|mail| {
            taken = std::mem::take(mail);
            false
        });
        taken
    }
}
