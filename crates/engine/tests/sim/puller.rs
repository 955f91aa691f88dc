//! The puller: in turn or side by side, within its rate, and never for a caller that is gone.

use std::sync::Arc;
use std::time::Duration;

use rubelet_core::keyring::{Login, LoginOrigin};
use rubelet_core::launch::{ImageSpec, SandboxConfig};
use rubelet_core::time::Instant;
use rubelet_engine::clock::Clock;
use rubelet_engine::images::{PullError, PullLimits, Puller, PullerHandle};
use rubelet_testkit::{FakeRuntime, Pull, TestClock};
use tokio_util::sync::CancellationToken;

const NO_LIMIT: PullLimits = PullLimits { parallel: None, per_second: 0.0, burst: 0.0 };

struct Rig {
    clock: TestClock,
    registry: FakeRuntime,
    ask: PullerHandle,
    _tasks: tokio::task::JoinSet<()>,
}

fn rig(limits: PullLimits) -> Rig {
    let clock = TestClock::start();
    let registry = FakeRuntime::new(clock);
    registry.set_latency(Duration::ZERO);
    for image in ["a:1", "b:1", "c:1"] {
        registry.script_pull(image, Pull::Takes(Duration::from_secs(10)));
    }
    registry.script_pull("never:1", Pull::Hangs);
    let (puller, ask) = Puller::new(Arc::new(registry.clone()), Clock::virtual_from(clock.now().wall), limits);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(puller.run(CancellationToken::new()));
    Rig { clock, registry, ask, _tasks: tasks }
}

impl Rig {
    async fn pull(&self, image: &str) -> Result<(Duration, Duration), PullError> {
        let spec = ImageSpec { image: image.into(), ..ImageSpec::default() };
        let asked = Instant::from_duration(self.clock.elapsed());
        let pulled = self.ask.pull(spec, Vec::new(), SandboxConfig::default(), asked).await?;
        Ok((pulled.took, pulled.with_waiting))
    }
}

#[tokio::test(start_paused = true)]
async fn pulls_run_one_after_another_or_side_by_side_img_05() {
    for (parallel, waits) in [(Some(1), [10, 20, 30]), (Some(2), [10, 10, 20]), (None, [10, 10, 10])] {
        let rig = rig(PullLimits { parallel, ..NO_LIMIT });
        let (a, b, c) = tokio::join!(rig.pull("a:1"), rig.pull("b:1"), rig.pull("c:1"));
        let all = [a, b, c].map(|pulled| pulled.expect("it is pulled"));
        assert_eq!(all.map(|(took, _)| took.as_secs()), [10; 3]);
        assert_eq!(all.map(|(_, with_waiting)| with_waiting.as_secs()), waits, "{parallel:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_too_often_hears_so_at_once_img_05() {
    let rig = rig(PullLimits { parallel: None, per_second: 1.0, burst: 2.0 });
    let (a, b, c) = tokio::join!(rig.pull("a:1"), rig.pull("b:1"), rig.pull("c:1"));
    assert!(a.is_ok() && b.is_ok());
    assert!(matches!(c, Err(PullError::RateExceeded)), "{c:?}");
    assert_eq!(PullError::RateExceeded.to_string(), "pull QPS exceeded");
    assert!(rig.pull("c:1").await.is_ok(), "ten seconds later there is room");
}

#[tokio::test(start_paused = true)]
async fn a_pull_says_which_login_the_registry_accepted_img_06() {
    let rig = rig(NO_LIMIT);
    rig.registry.script_pull("private:1", Pull::NeedsLogin("ann".into()));
    let secret = |name: &str| LoginOrigin::Secret { namespace: "ns".into(), name: name.into(), uid: name.into() };
    let login = |user: &str, origin| Login { username: user.into(), password: "p".into(), origin };
    let (bob, ann) = (login("bob", secret("one")), login("ann", secret("two")));
    let eve = login("eve", LoginOrigin::Provider("helper".into()));
    let pull = async |image: &str, logins: &[&Login]| {
        let logins = logins.iter().copied().cloned().collect();
        let spec = ImageSpec { image: image.into(), ..ImageSpec::default() };
        rig.ask.pull(spec, logins, SandboxConfig::default(), Instant::START).await.map(|pulled| pulled.login)
    };
    let won = pull("private:1", &[&bob, &ann, &eve]).await.expect("one of the logins is good");
    assert_eq!(won, Some(secret("two")), "the first that is good, not the first that was tried");
    assert_eq!(pull("a:1", &[&eve]).await.expect("it is public"), Some(LoginOrigin::Provider("helper".into())));
    assert_eq!(pull("a:1", &[]).await.expect("it is public"), None, "nobody logged in");
    assert!(matches!(pull("private:1", &[&bob, &eve]).await, Err(PullError::Runtime(_))));
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_makes_room_for_the_next() {
    let rig = rig(PullLimits { parallel: Some(1), ..NO_LIMIT });
    // The first is given up while it is pulled, the second while it waits.
    let given_up = async {
        let both = async { tokio::join!(rig.pull("never:1"), rig.pull("b:1")) };
        assert!(tokio::time::timeout(Duration::from_secs(5), both).await.is_err());
    };
    let ((), c) = tokio::join!(given_up, rig.pull("c:1"));
    assert_eq!(c.expect("it is pulled").1.as_secs(), 15);
    let pulled: Vec<String> = rig.registry.log().into_iter().map(|call| call.line).collect();
    assert_eq!(pulled, ["pull c:1"], "nothing is pulled without a caller");
}

#[tokio::test(start_paused = true)]
async fn when_the_puller_has_gone_nobody_waits_for_it() {
    let mut rig = rig(NO_LIMIT);
    let waiting = async { rig.pull("never:1").await };
    assert!(tokio::time::timeout(Duration::from_secs(1), waiting).await.is_err());
    rig._tasks.shutdown().await;
    assert!(matches!(rig.pull("a:1").await, Err(PullError::Gone)));
}
