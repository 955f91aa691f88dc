//! Spans of calls, and the runtime that becomes part of the trace (TRC-01).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rubelet_core::launch::{ContainerConfig, SandboxConfig};
use rubelet_cri::ListMode;
use rubelet_engine::clock::Clock;
use rubelet_engine::ports::{Containers, Rng, RuntimeView, Sandboxes};
use rubelet_engine::trace::{SpanKind, Tracer, current, within};
use tonic::Status;

use crate::fake::Setup;

#[derive(Default)]
struct Counter(AtomicU64);

impl Rng for Counter {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[tokio::test]
async fn trc_01_the_calls_of_a_pods_start_are_one_trace_that_the_runtime_continues() {
    let clock = Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
    let (tracer, mut spans) = Tracer::new(1_000_000, Arc::new(Counter::default()), clock);
    let mut setup = Setup::traced(Duration::from_secs(60), ListMode::Whole, tracer.clone());
    setup.start();
    setup.change(|world| {
        world.failing.insert("start_container", Status::unknown("no such program"));
    });
    let job = tracer.start("syncPod", SpanKind::Internal, current()).expect("on");
    let start = async {
        let runtime = &setup.runtime;
        runtime.list().await.expect("listed");
        let sandbox = runtime.run_sandbox(&SandboxConfig::default()).await.expect("runs");
        let config = (ContainerConfig::default(), SandboxConfig::default());
        // The fake answers with no id, and starts what it never made.
        runtime.create_container(&sandbox, &config.0, &config.1).await.expect_err("no id");
        runtime.start_container(&"c1".into()).await.expect_err("it fails");
    };
    within(Some(job.context()), start).await;
    let trace = job.context();
    drop(job);
    let mut all = Vec::new();
    spans.next(&mut all, 100).await;
    let names: Vec<&str> = all.iter().map(|span| span.name.as_ref()).collect();
    let service = "runtime.v1.RuntimeService";
    for call in ["ListPodSandbox", "ListContainers", "RunPodSandbox", "CreateContainer", "StartContainer"] {
        assert!(names.contains(&format!("{service}/{call}").as_str()), "{call} in {names:?}");
    }
    let calls = all.iter().filter(|span| span.kind == SpanKind::Client);
    assert!(calls.clone().all(|call| call.context.trace == trace.trace && call.parent == trace.span));
    let failures: Vec<&str> = calls.clone().filter_map(|call| call.failure.as_deref()).collect();
    assert_eq!(failures, ["no such program"]);
    let seen = setup.fake.world.lock().expect("not poisoned").traceparents.clone();
    for (name, method) in [("run_pod_sandbox", "RunPodSandbox"), ("create_container", "CreateContainer")] {
        let span = calls.clone().find(|call| call.name.ends_with(method)).expect("a span");
        let (_, header) = seen.iter().find(|(call, _)| *call == name).expect("called");
        assert_eq!(header.as_deref(), Some(span.context.to_string().as_str()), "{name}");
    }
}

#[tokio::test]
async fn trc_01_without_traces_the_runtime_gets_no_header() {
    let setup = Setup::up();
    setup.runtime.run_sandbox(&SandboxConfig::default()).await.expect("runs");
    let seen = setup.fake.world.lock().expect("not poisoned").traceparents.clone();
    assert!(!seen.is_empty() && seen.iter().all(|(_, header)| header.is_none()), "{seen:?}");
}
