//! The container runtime behind CRI v1: containerd, CRI-O.
//!
//! [`CriRuntime`] and [`CriImages`] implement the engine's ports over gRPC on a Unix socket. This crate converts
//! `core`'s configurations to messages (`to_wire`), answers to `core`'s observations (`from_wire`) and failures to
//! [`RpcError`](rubelet_engine::ports::RpcError)s. It decides nothing, retries nothing and logs no failure: every error
//! is returned to the caller. It owns the connection: every call has a deadline, and a lost connection is dialled again
//! with a growing pause.
//!
//! One verb of the protocol per file; `runtime.rs` and `images.rs` tie them to the ports.

mod cgroup_driver;
mod connection;
mod container_create;
mod container_remove;
mod container_resize;
mod container_start;
mod container_stop;
mod dial;
mod endpoint;
mod error;
mod exec_answer;
mod exec_sync;
mod from_wire;
mod hints;
mod image_fs_info;
mod image_list;
mod image_pull;
mod image_remove;
mod image_status;
mod images;
mod inspect;
mod kept;
mod list;
mod log_reopen;
mod metrics;
mod preface;
mod runtime;
mod runtime_config_update;
mod sandbox_remove;
mod sandbox_resize;
mod sandbox_run;
mod sandbox_stop;
mod status;
mod streams;
mod to_wire;
mod version;

pub use connection::{Connection, ConnectionOptions, ListMode, Monotonic};
pub use endpoint::{Endpoint, EndpointError};
pub use images::CriImages;
pub use kept::{HandOver, KeptCalls};
pub use metrics::{OperationCounts, OperationMetrics};
pub use runtime::CriRuntime;
