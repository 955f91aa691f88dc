//! The API over real sockets on loopback: TLS, HTTP and all, with a node, a runtime and reviews that are scripted.

mod certificates;
mod limits;
mod own_thread;
mod rig;
mod serving;
mod sessions;
