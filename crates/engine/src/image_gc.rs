//! Removes images that nothing uses: when the disk gets full, when they are old, and on request (section 8.2).
//!
//! A job that is about to use an image takes a lease on it, before it asks whether the image is there, and keeps it until
//! the container is created. An image with a lease is not removed, and a lease on an image that is being removed is granted
//! once that is over: then the job finds the image missing, and pulls it.
//!
//! The task owns the leases. A pass runs beside it, asks the task before each removal, and stops once the disk is below the
//! low threshold. Leases that end during a pass count until the pass has ended: the pass's list of containers may be from
//! before the container was created.

mod pass;
mod task;

use std::sync::Arc;

use rubelet_core::image_gc::UnusedImage;
use tokio::sync::{mpsc, oneshot};

use crate::ports::{FileError, RpcError};
pub use task::ImageGc;

/// How many requests may wait for the task, which answers them at once.
const INBOX: usize = 64;

/// Asks the collector.
#[derive(Clone, Debug)]
pub struct ImageGcHandle {
    ask: mpsc::Sender<Request>,
}

/// An image is about to be used. It is not removed while the lease exists.
#[derive(Debug)]
pub(crate) struct ImageLease {
    _held: Option<Arc<()>>,
}

/// Images could not be removed, or not enough of them. The texts are upstream's: people see them in events.
#[derive(Debug, thiserror::Error)]
pub enum ImageGcError {
    /// The runtime could not list images or containers, or tell where images are.
    #[error(transparent)]
    Runtime(#[from] RpcError),
    /// The file system of images could not be measured.
    #[error(transparent)]
    Disk(#[from] FileError),
    /// The runtime names no file system of images.
    #[error("failed to get imageFs stats: the runtime names no image filesystem")]
    NoFileSystem,
    /// The file system of images has no size.
    #[error("invalid capacity 0 on image filesystem")]
    NoCapacity,
    /// The runtime refused to remove images.
    #[error("wanted to free {wanted} bytes, but freed {freed} bytes space with errors in image deletion: {errors}")]
    Room {
        /// Bytes to free.
        wanted: u64,
        /// Bytes freed.
        freed: u64,
        /// What the runtime answered.
        errors: String,
    },
    /// The runtime refused to remove old images.
    #[error("wanted to free images older than {age}, encountered errors in image deletion: {errors}")]
    Age {
        /// `imageMaximumGCAge`.
        age: String,
        /// What the runtime answered.
        errors: String,
    },
    /// All that may go has gone, and the disk is still too full.
    #[error("{0}")]
    Insufficient(String),
    /// The agent is stopping.
    #[error("shutting down")]
    Gone,
}

/// What the task is asked.
#[derive(Debug)]
enum Request {
    Lease(String, oneshot::Sender<ImageLease>),
    FreeUnused(oneshot::Sender<Result<u64, ImageGcError>>),
    /// By a pass: whether the image has no lease. If so, it is being removed from now on.
    MayRemove(Box<UnusedImage>, oneshot::Sender<bool>),
    /// By a pass: the removal is over.
    RemovalOver,
}

impl ImageGcHandle {
    /// Takes a lease on the image called `image`, present or not.
    pub(crate) async fn lease(&self, image: &str) -> ImageLease {
        let (reply, answer) = oneshot::channel();
        // Without the task nothing is removed.
        let _ended = self.ask.send(Request::Lease(image.to_owned(), reply)).await;
        answer.await.unwrap_or(ImageLease { _held: None })
    }

    /// Removes every image that is unused and old enough, whatever room there is; answers with the sizes of what was
    /// removed. For an eviction, before pods are ended.
    #[doc(alias = "DeleteUnusedImages")]
    pub async fn free_unused(&self) -> Result<u64, ImageGcError> {
        let (reply, answer) = oneshot::channel();
        self.ask.send(Request::FreeUnused(reply)).await.map_err(|_| ImageGcError::Gone)?;
        answer.await.unwrap_or(Err(ImageGcError::Gone))
    }
}
