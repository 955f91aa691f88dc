//! Tells the API server how pods are, and removes their objects when nothing is left of them (section 12).
//!
//! One task is the sole writer of pod status. Others drop reports into a mailbox that keeps the newest of each pod and
//! never makes anyone wait. The writer compares with what the API last showed and sends the difference at once: no GET
//! before, no tick. What it must not do: send what is there already, have two requests for one pod in flight, show a
//! terminal phase while a container may run (TRAP-01), touch a pod of another UID.
//!
//! There is no rate. While the API server answers, up to `pace::MOST` requests are in flight; when it says that it is
//! busy or cannot be reached, all wait, and it is asked by one at first.

mod mail;
mod pace;
mod task;

pub use mail::StatusMail;
pub use task::StatusWriter;
