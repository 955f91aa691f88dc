//! The pods that have ended are known after a restart of the agent.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use rubelet_testkit::FakeCheckpoints;

use rubelet_core::ended::EndedPod;
use rubelet_engine::clock::Clock;
use rubelet_engine::ended::Remembering;
use rubelet_engine::task::TaskGroup;
use tokio_util::sync::CancellationToken;

fn ended(name: &str, at: Timestamp) -> EndedPod {
    EndedPod {
        ended: at,
        arrived: at,
        namespace: "default".into(),
        name: name.into(),
        uid: name.into(),
        status: PodStatus::default(),
        timeline: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn ended_pods_are_known_after_a_restart() {
    let disk = Arc::new(FakeCheckpoints::default());
    let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
    for (end, known) in [("a", vec!["a"]), ("b", vec!["b", "a"])] {
        let (task, handle) = Remembering::new(Arc::clone(&disk) as _, clock.clone());
        let mut tasks = TaskGroup::new(&CancellationToken::new());
        tasks.start("ended", task.run(tasks.cancel_token()));
        handle.note(ended(end, clock.wall()));
        let names: Vec<String> = handle.pods().await.into_iter().map(|pod| pod.name).collect();
        assert_eq!(names, known);
        tasks.stop().await;
    }
}
