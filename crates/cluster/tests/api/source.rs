//! The API source of pods.

use std::fmt::Write as _;
use std::sync::Arc;

use rubelet_cluster::api::ApiSource;
use rubelet_core::pod::{PodExt as _, SEEN_ANNOTATION, Source};
use rubelet_engine::ports::{Delivery, PodSource as _};
use rubelet_testkit::SeededRng;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::fake::{Fake, PATIENCE};

fn pod(name: &str, version: u64, spec: &str) -> String {
    format!(
        r#"{{"type":"ADDED","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"namespace":"d","name":"{name}","uid":"u-{name}","resourceVersion":"{version}","annotations":{{"kubernetes.io/config.seen":"forged"}}}},"spec":{spec}}}}}"#
    ) + "\n"
}

const SPEC: &str = r#"{"nodeName":"n","containers":[{"name":"app","image":"i"}]}"#;
const LISTED: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}
"#;

struct Running {
    fake: Fake,
    deliveries: mpsc::Receiver<Delivery>,
    ready: watch::Sender<bool>,
}

impl Running {
    async fn start() -> Self {
        let mut fake = Fake::start().await;
        let (ready, is_ready) = watch::channel(false);
        let source = ApiSource::new(fake.client(), "n", Arc::new(SeededRng::new(1)), is_ready);
        let (out, deliveries) = mpsc::channel(1);
        fake.group.start("source", async move { source.run(out, CancellationToken::new()).await });
        Self { fake, deliveries, ready }
    }

    async fn next(&mut self) -> Delivery {
        let delivery = tokio::time::timeout(PATIENCE, self.deliveries.recv()).await;
        delivery.expect("a delivery comes in time").expect("the source runs")
    }
}

#[tokio::test]
async fn src_04_the_nodes_pods_are_watched_once_the_node_is_known() {
    let mut running = Running::start().await;
    let pods = running.fake.stream();
    pods.send(pod("a", 5, SPEC) + LISTED).await.unwrap();
    tokio::task::yield_now().await;
    assert!(running.deliveries.is_empty());
    running.ready.send_replace(true);
    let first = running.next().await;
    assert!(running.fake.seen().await.path.ends_with("&fieldSelector=spec.nodeName%3Dn"));
    assert_eq!((first.source, first.pods.len(), first.bad.len()), (Source::Api, 1, 0));
    let a = &first.pods[0];
    assert_eq!(a.source(), Some(Source::Api));
    let seen = a.annotation(SEEN_ANNOTATION).unwrap().to_owned();
    assert_ne!(seen, "forged");
    // A changed pod keeps the time at which it was first seen; an unchanged pod keeps its Arc.
    pods.send(pod("a", 10, SPEC) + &pod("b", 11, SPEC)).await.unwrap();
    let second = running.next().await;
    assert_eq!(second.pods.len(), 2);
    assert_eq!(second.pods[0].annotation(SEEN_ANNOTATION), Some(seen.as_str()));
    pods.send(pod("c", 12, SPEC)).await.unwrap();
    let third = running.next().await;
    assert!(Arc::ptr_eq(&second.pods[0], &third.pods[0]));
}

#[tokio::test]
async fn a_burst_of_changes_leads_to_few_deliveries() {
    let mut running = Running::start().await;
    running.ready.send_replace(true);
    let pods = running.fake.stream();
    pods.send(LISTED.to_owned()).await.unwrap();
    assert_eq!(running.next().await.pods.len(), 0);
    for index in 0..100 {
        pods.send(pod(&format!("p{index}"), 10 + index, SPEC)).await.unwrap();
    }
    let mut deliveries = 0;
    while running.next().await.pods.len() < 100 {
        deliveries += 1;
        assert!(deliveries < 50, "nearly as many deliveries as pods");
    }
}

#[tokio::test]
async fn a_pod_with_500_containers_unknown_fields_and_an_undecodable_neighbour_is_delivered() {
    let mut running = Running::start().await;
    running.ready.send_replace(true);
    let pods = running.fake.stream();
    let mut containers = String::new();
    for index in 0..500 {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(containers, r#"{comma}{{"name":"c{index}","image":"i","fromTheFuture":{{"a":[1]}}}}"#);
    }
    let large = format!(r#"{{"nodeName":"n","alsoNew":true,"containers":[{containers}]}}"#);
    let bad = r#"{"nodeName":"n","containers":"many"}"#;
    pods.send(pod("bad", 5, bad) + &pod("large", 6, &large) + LISTED).await.unwrap();
    let delivery = running.next().await;
    assert_eq!(delivery.pods[0].regular().len(), 500);
    assert_eq!(delivery.bad[0].origin, "d/bad");
    assert!(delivery.bad[0].problem.starts_with("the pod cannot be read: invalid type"), "{:?}", delivery.bad);
}
