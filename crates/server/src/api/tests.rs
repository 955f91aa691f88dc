//! The API over real sockets on loopback, with TLS and HTTP, and with a scripted node, runtime and reviews.

mod certificates;
mod limits;
mod node_pages;
mod own_thread;
mod rig;
mod serving;
mod sessions;
mod usage;
