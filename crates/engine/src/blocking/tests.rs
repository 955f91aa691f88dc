use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::Poll;

use super::*;

/// Calls that return only when this is dropped.
struct Hung {
    release: Vec<mpsc::Sender<()>>,
}

impl Hung {
    fn none() -> Self {
        Self { release: Vec::new() }
    }

    /// Begins `calls` of `key` and gives up waiting for them, as a deadline would.
    async fn hang(&mut self, pool: &'static Pool, key: &str, calls: usize) {
        for _ in 0..calls {
            let (release, released) = mpsc::channel();
            self.release.push(release);
            let mut call = pin!(pool.run(key, move || released.recv().is_err()));
            poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        }
    }
}

fn pool(total: usize, each: usize) -> &'static Pool {
    Box::leak(Box::new(Pool::new("test", total, each)))
}

/// Whether the call ends by itself.
async fn ends(call: impl Future) -> bool {
    tokio::time::timeout(Duration::from_secs(5), call).await.is_ok()
}

async fn waits(call: impl Future) -> bool {
    let mut call = pin!(call);
    poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn a_hung_mount_of_one_pod_leaves_the_mounts_of_others_alone() {
    let mut hung = Hung::none();
    hung.hang(&POD_FILES, "pod-a", 100).await;
    assert_eq!(
        POD_FILES.total - POD_FILES.places.available_permits(),
        POD_FILES.each,
        "the rest left the queue when it was dropped"
    );
    assert!(waits(POD_FILES.run("pod-a", || ())).await);
    assert!(ends(POD_FILES.run("pod-b", || ())).await);
}

#[test]
fn with_every_other_pool_full_of_hung_calls_a_pool_still_runs_its_own() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(threads()).build();
    let runtime = runtime.expect("tokio starts");
    let mut hung = Hung::none();
    runtime.block_on(async {
        for free in ALL {
            let full: Vec<_> = ALL.into_iter().filter(|pool| pool.name != free.name).collect();
            for pool in &full {
                for key in 0..=pool.total {
                    hung.hang(pool, &key.to_string(), pool.each).await;
                }
                assert_eq!(pool.places.available_permits(), 0, "{}", pool.name);
            }
            assert!(ends(free.run("mine", || ())).await, "{}", free.name);
            hung.release.clear();
            for pool in full {
                assert!(ends(pool.places.acquire_many(u32::try_from(pool.total).expect("few"))).await, "{}", pool.name);
            }
        }
    });
    assert!(threads() <= 512, "no more than tokio would have used");
}

#[tokio::test]
async fn waiters_get_their_places_in_order_and_one_that_is_dropped_leaves_the_queue() {
    let pool = pool(1, 1);
    let (release, released) = mpsc::channel::<()>();
    let mut first = pin!(pool.run("a", move || released.recv().is_err()));
    assert!(poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
    static ORDER: AtomicUsize = AtomicUsize::new(0);
    let call = || pool.run("a", || ORDER.fetch_add(1, Ordering::SeqCst));
    let (mut second, mut third) = (Box::pin(call()), Box::pin(call()));
    let mut fourth = pin!(call());
    for waiting in [&mut second, &mut third] {
        assert!(poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
    }
    assert!(poll_fn(|cx| Poll::Ready(fourth.as_mut().poll(cx).is_pending())).await);
    drop(second);
    drop(release);
    assert!(first.await);
    let (third, fourth) = tokio::join!(third, fourth);
    assert_eq!((third, fourth), (0, 1));
    // The last call drops its place on its own thread, a moment after its answer is here.
    drop(pool.places.acquire().await);
    assert!(
        ends(async {
            while !pool.shares().is_empty() {
                tokio::task::yield_now().await
            }
        })
        .await
    );
}

#[tokio::test]
async fn a_panic_reaches_the_caller_and_frees_the_place() {
    let pool = pool(1, 1);
    let panicked = pool.spawn("a", || panic!("on purpose")).await;
    assert!(panicked.is_err_and(|err: JoinError| err.is_panic()));
    assert!(ends(pool.run("a", || ())).await);
}

#[tokio::test]
async fn free_place_answers_at_once() {
    let pool = pool(1, 1);
    let mut hung = Hung::none();
    hung.hang(pool, "a", 1).await;
    assert!(pool.free_place("b").is_none());
    drop(hung);
    drop(pool.places.acquire().await);
    let place = pool.free_place("b").expect("it is free again");
    assert_eq!(place.begin(|| 7).await.expect("it ran"), 7);
}

#[tokio::test]
async fn one_call_per_name_is_in_flight_and_all_callers_get_its_answer() {
    let pool = pool(4, 1);
    let joined = Joined::new(pool, 8);
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let (release, released) = mpsc::channel::<()>();
    let mut first = Box::pin(joined.ask("name", move || {
        let _released = released.recv();
        ASKED.fetch_add(1, Ordering::SeqCst)
    }));
    assert!(poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
    let others = (0..50).map(|_| joined.ask("name", || ASKED.fetch_add(1, Ordering::SeqCst)));
    let mut others = pin!(futures_util::future::join_all(others));
    assert!(poll_fn(|cx| Poll::Ready(others.as_mut().poll(cx).is_pending())).await);
    // The first caller is dropped; the call goes on.
    drop(first);
    drop(release);
    assert!(others.await.into_iter().all(|answer| answer == Ok(0)));
    assert_eq!(joined.ask("name", || ASKED.fetch_add(1, Ordering::SeqCst)).await, Ok(1), "a new call afterwards");
}

#[tokio::test]
async fn too_many_names_are_refused_and_calls_without_callers_do_not_count() {
    let pool = pool(2, 1);
    let joined = Joined::new(pool, 3);
    let mut hung = Hung::none();
    hung.hang(pool, "x", 1).await;
    hung.hang(pool, "y", 1).await;
    let mut pending: Vec<_> = ["a", "b", "c"].map(|name| Box::pin(joined.ask(name, || ()))).into();
    for waiting in &mut pending {
        assert!(poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
    }
    assert_eq!(joined.ask("d", || ()).await, Err(TooMany(3)));
    pending.pop();
    assert!(waits(joined.ask("d", || ())).await, "one was dropped");
    drop(hung);
    for answer in pending {
        assert_eq!(answer.await, Ok(()));
    }
}
