use std::sync::atomic::AtomicU64;

use super::*;

/// Counts up, in steps that spread over all bits.
#[derive(Default)]
struct Steps(AtomicU64);

impl Rng for Steps {
    fn next(&self) -> u64 {
        self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}

fn tracer(per_million: u32) -> (Tracer, EndedSpans) {
    Tracer::new(per_million, Arc::new(Steps::default()), Clock::virtual_from(Timestamp::UNIX_EPOCH))
}

async fn ended(spans: &mut EndedSpans) -> Vec<EndedSpan> {
    let mut batch = Vec::new();
    spans.next(&mut batch, QUEUE).await;
    batch
}

#[test]
fn trc_01_a_traceparent_is_read_and_written() {
    let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let context = SpanContext::parse(header).unwrap();
    assert_eq!((context.to_string().as_str(), context.sampled), (header, true));
    assert!(!SpanContext::parse(&header.replace("-01", "-00")).unwrap().sampled);
    assert!(SpanContext::parse(&header.replacen("00", "cc", 1)).is_some(), "a later version");
    assert!(SpanContext::parse(&format!("{}-more", header.replacen("00", "cc", 1))).is_some());
    for bad in [
        "",
        "00",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-+7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
    ] {
        assert_eq!(SpanContext::parse(bad), None, "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn trc_01_spans_of_one_task_are_one_trace() {
    let (tracer, mut spans) = tracer(1_000_000);
    let first = tracer.start("syncPod", SpanKind::Internal, current()).unwrap();
    within(Some(first.context()), async {
        let mut call = tracer.start("RunPodSandbox", SpanKind::Client, current()).unwrap();
        call.set("rpc.system.name", "grpc");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        call.fail(&"no sandbox");
    })
    .await;
    assert_eq!(current(), None, "beside no other task");
    drop(first);
    let all = ended(&mut spans).await;
    let [call, first] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((call.context.trace, call.parent), (first.context.trace, first.context.span));
    assert_eq!((first.parent, first.failure.as_deref(), call.failure.as_deref()), (0, None, Some("no sandbox")));
    assert_eq!(call.ended.duration_since(call.began).as_secs(), 1);
    assert_ne!(call.context.span, first.context.span);
}

#[tokio::test]
async fn trc_01_a_share_of_new_traces_is_sampled_and_a_parent_decides_for_its_parts() {
    for (per_million, least, most) in [(0, 0, 0), (100_000, 60, 140), (1_000_000, 1000, 1000)] {
        let (tracer, mut spans) = tracer(per_million);
        for _ in 0..1000 {
            let span = tracer.start("a", SpanKind::Internal, None).unwrap();
            let part = tracer.start("b", SpanKind::Internal, Some(span.context())).unwrap();
            assert_eq!(part.context().sampled, span.context().sampled);
        }
        drop(tracer);
        let found = if least == 0 { 0 } else { ended(&mut spans).await.len() / 2 };
        assert!((least..=most).contains(&found), "{found} of 1000 at {per_million}");
    }
    let (tracer, mut spans) = tracer(0);
    let elsewhere = SpanContext { trace: 1, span: 2, sampled: true };
    drop(tracer.start("c", SpanKind::Server, Some(elsewhere)));
    assert_eq!(ended(&mut spans).await[0].parent, 2);
}

#[test]
fn trc_01_nobody_waits_for_a_full_queue() {
    let (tracer, spans) = tracer(1_000_000);
    for _ in 0..QUEUE + 10 {
        drop(tracer.start("a", SpanKind::Internal, None));
    }
    assert_eq!((spans.dropped(), spans.dropped()), (10, 0));
}

#[tokio::test]
async fn trc_01_a_tracer_that_is_off_makes_nothing() {
    let tracer = Tracer::off();
    assert!(!tracer.is_on() && tracer.start("a", SpanKind::Internal, None).is_none());
    within(None, async { assert_eq!(current(), None) }).await;
}
