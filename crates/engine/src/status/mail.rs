//! The mailbox: the newest report of each pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rubelet_core::id::{PodRef, PodUid};
use tokio::sync::watch;

use crate::ports::{StatusReport, StatusSink};

/// Takes reports for the writer. It holds at most one of each pod, so it needs no bound of its own.
#[derive(Clone)]
pub struct StatusMail {
    mail: Arc<watch::Sender<Mail>>,
    /// Who else is told.
    also: Arc<dyn StatusSink>,
}

/// What has come in since the writer last looked.
#[derive(Default)]
pub(super) struct Mail {
    /// Pods that are known no more. A report of the same UID that came later is of its next life.
    pub(super) forgotten: BTreeSet<PodUid>,
    pub(super) reports: BTreeMap<PodUid, StatusReport>,
}

impl StatusMail {
    pub(super) fn new(also: Arc<dyn StatusSink>) -> Self {
        Self { mail: Arc::new(watch::Sender::new(Mail::default())), also }
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

impl StatusSink for StatusMail {
    fn report(&self, report: StatusReport) {
        self.also.report(report.clone());
        self.mail.send_modify(|mail| {
            mail.reports.insert(PodRef::of(&report.pod).uid, report);
        });
    }

    fn forget(&self, uid: &PodUid) {
        self.also.forget(uid);
        self.mail.send_modify(|mail| {
            mail.reports.remove(uid);
            mail.forgotten.insert(uid.clone());
        });
    }
}
