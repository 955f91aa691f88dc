//! How many images are pulled at once, and how often one may begin (IMG-05).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rubelet_core::launch::{ImageSpec, SandboxConfig};
use rubelet_engine::clock::Clock;
use rubelet_engine::images::{PullError, PullLimits, Puller, PullerHandle};
use rubelet_engine::task::TaskGroup;
use rubelet_testkit::{FakeRuntime, Pull, TestClock};
use tokio_util::sync::CancellationToken;

const TAKES: Duration = Duration::from_secs(10);

/// Pulls `count` images at the same moment; when each came, in seconds, or `None` if it was refused.
async fn pull_at_once(count: usize, limits: PullLimits) -> Vec<Option<u64>> {
    let time = TestClock::start();
    let runtime = FakeRuntime::new(time);
    let clock = Clock::virtual_from(time.now().wall);
    let (puller, handle) = Puller::new(Arc::new(runtime.clone()), clock.clone(), limits);
    let cancel = CancellationToken::new();
    let mut tasks = TaskGroup::new(&cancel);
    tasks.start("puller", puller.run(tasks.cancel_token()));
    let began = time.elapsed();
    let pulls = (0..count).map(|n| {
        runtime.script_pull(&format!("image:{n}"), Pull::Takes(TAKES));
        pull(handle.clone(), format!("image:{n}"), clock.clone(), time, began)
    });
    let came = join_all(pulls).await;
    tasks.stop().await;
    came
}

async fn pull(handle: PullerHandle, image: String, clock: Clock, time: TestClock, began: Duration) -> Option<u64> {
    let spec = ImageSpec { image, ..ImageSpec::default() };
    match handle.pull(spec, Vec::new(), SandboxConfig::default(), clock.mono()).await {
        Ok(_) => Some((time.elapsed() - began).as_secs()),
        Err(PullError::RateExceeded) => None,
        Err(err) => panic!("{err}"),
    }
}

#[tokio::test(start_paused = true)]
async fn img_05_pulls_come_one_by_one_or_so_many_at_once() {
    let free = PullLimits { parallel: None, per_second: 0.0, burst: 0.0 };
    for (parallel, came) in [(Some(1), [10, 20, 30, 40]), (Some(2), [10, 10, 20, 20]), (None, [10, 10, 10, 10])] {
        let times = pull_at_once(4, PullLimits { parallel, ..free }).await;
        assert_eq!(times, came.map(Some), "{parallel:?} at once");
    }
}

#[tokio::test(start_paused = true)]
async fn img_05_more_pulls_than_the_rate_allows_are_refused_at_once() {
    let limits = PullLimits { parallel: None, per_second: 5.0, burst: 3.0 };
    let times = pull_at_once(5, limits).await;
    assert_eq!(times, [Some(10), Some(10), Some(10), None, None]);
    assert_eq!(PullError::RateExceeded.to_string(), "pull QPS exceeded");
}
