//! Writes pod statuses to the API server, and deletes the objects of pods that have fully terminated (section 12).
//!
//! One task is the sole writer of pod status. Other tasks leave reports in a mailbox, which keeps the newest report of each
//! pod and never blocks them. The writer compares a report with the object last seen in the API and patches the difference
//! at once: no GET before, no ticker. It must not patch what the API shows already, have two requests for one pod in
//! flight, write a terminal phase while a container may run (TRAP-01), or touch a pod of another UID.
//!
//! There is no rate limit. While the API server answers, up to `pace::MOST` requests are in flight. When it is overloaded
//! or cannot be reached, all writes pause, and a single request is tried first.

mod entry;
mod mail;
mod pace;
mod task;

pub use mail::StatusMail;
pub use task::StatusWriter;
