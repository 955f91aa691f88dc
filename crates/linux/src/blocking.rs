//! The way from async code to calls that block.

/// Runs `work` on the blocking pool.
///
/// A panic goes on in the caller, whose task knows what to do with it. If the runtime is shutting down the work never
/// ran, and there is no one left to tell.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(err) => match err.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_cancelled) => std::future::pending().await,
        },
    }
}
