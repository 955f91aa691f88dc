//! The stream of hints. It has no task: reading it advances the world.

use futures_util::stream::{self, BoxStream};
use rubelet_core::observe::Hint;
use rubelet_engine::ports::RpcError;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};

use super::FakeRuntime;

/// An item of the stream.
#[derive(Clone, Debug)]
pub(super) enum Signal {
    Hint(Hint),
    /// The runtime went away, which ends the stream.
    Down,
}

struct Reader {
    runtime: FakeRuntime,
    signals: broadcast::Receiver<Signal>,
    changed: watch::Receiver<u64>,
}

pub(super) fn stream(runtime: FakeRuntime) -> BoxStream<'static, Result<Hint, RpcError>> {
    let (signals, changed) = runtime.subscribe();
    let reader = Reader { runtime, signals, changed };
    Box::pin(stream::unfold(reader, |mut reader| async move {
        let hint = reader.next().await?;
        Some((Ok(hint), reader))
    }))
}

impl Reader {
    async fn next(&mut self) -> Option<Hint> {
        loop {
            self.changed.borrow_and_update();
            let due = self.runtime.with(|world, _| world.next_due());
            match self.signals.try_recv() {
                Ok(Signal::Hint(hint)) => return Some(hint),
                Ok(Signal::Down) | Err(TryRecvError::Closed) => return None,
                // A reader that is too slow loses hints, as with a real runtime.
                Err(TryRecvError::Lagged(_)) => continue,
                Err(TryRecvError::Empty) => {}
            }
            let clock = self.runtime.clock();
            let woken = async {
                match due {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                signal = self.signals.recv() => match signal {
                    Ok(Signal::Hint(hint)) => return Some(hint),
                    Ok(Signal::Down) | Err(RecvError::Closed) => return None,
                    Err(RecvError::Lagged(_)) => {}
                },
                _ = self.changed.changed() => {}
                () = woken => {}
            }
        }
    }
}
