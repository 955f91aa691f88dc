use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rubelet_core::pod::PodExt as _;
use rubelet_engine::ports::ApiErrorKind;
use rubelet_testkit::{PodBuilder, pod};
use tokio::sync::{Mutex, watch};

use super::*;

/// A source that delivers what a test sends to it.
struct Scripted(Mutex<mpsc::Receiver<Delivery>>);

#[async_trait]
impl PodSource for Scripted {
    fn source(&self) -> Source {
        Source::Api
    }

    #[expect(clippy::await_holding_invalid_type, reason = "nobody else takes it")]
    async fn run(&self, out: mpsc::Sender<Delivery>, cancel: CancellationToken) {
        let mut deliveries = self.0.lock().await;
        while let Some(Some(delivery)) = cancel.run_until_cancelled(deliveries.recv()).await {
            if out.send(delivery).await.is_err() {
                return;
            }
        }
        cancel.cancelled().await;
    }
}

/// A cluster whose services are known or not.
struct Known(Option<Arc<Vec<Service>>>);

#[async_trait]
impl ClusterView for Known {
    fn services(&self) -> Option<Arc<Vec<Service>>> {
        self.0.clone()
    }

    fn node_changes(&self) -> watch::Receiver<Option<Arc<Node>>> {
        watch::channel(None).1
    }

    async fn runtime_handler(&self, class: &str) -> Result<String, ApiError> {
        Err(ApiError { kind: ApiErrorKind::Unavailable, detail: class.to_owned() })
    }
}

fn services(names: &[&str]) -> Arc<Vec<Service>> {
    let service = |name: &&str| {
        let mut service = Service::default();
        service.metadata.name = Some((*name).to_owned());
        service
    };
    Arc::new(names.iter().map(service).collect())
}

/// One run of rubelet.
struct Run {
    boot: String,
    view: Arc<CachedView>,
    deliver: mpsc::Sender<Delivery>,
    delivered: mpsc::Receiver<Delivery>,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
}

impl Run {
    fn start(dir: &Path, node: &str, boot: &str) -> Self {
        Self::start_with(dir, node, boot, None)
    }

    fn start_with(dir: &Path, node: &str, boot: &str, services: Option<Arc<Vec<Service>>>) -> Self {
        let (deliver, deliveries) = mpsc::channel(1);
        let (out, delivered) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let (inner, known) = (Arc::new(Scripted(Mutex::new(deliveries))), Arc::new(Known(services)));
        let source = CachedSource::new(inner, known, dir.join("api-pods"), node, boot);
        let view = source.view();
        let mut tasks = JoinSet::new();
        let token = cancel.clone();
        tasks.spawn(async move { source.run(out, token).await });
        Self { boot: boot.to_owned(), view, deliver, delivered, cancel, tasks }
    }

    async fn api_says(&mut self, pods: &[Arc<Pod>]) -> String {
        let delivery = Delivery { source: Source::Api, pods: pods.to_vec(), bad: Vec::new() };
        self.deliver.send(delivery).await.expect("the source runs");
        self.next().await
    }

    /// The names of the pods of the next delivery; nothing if none comes in a minute.
    async fn next(&mut self) -> String {
        let Ok(delivery) = tokio::time::timeout(Duration::from_secs(60), self.delivered.recv()).await else {
            return "nothing".into();
        };
        let delivery = delivery.expect("the source runs");
        let mut names: Vec<_> = delivery.pods.iter().map(|pod| pod.metadata.name.clone().unwrap_or_default()).collect();
        names.sort();
        format!("[{}]", names.join(" "))
    }

    /// Waits until all is written, then ends at once.
    async fn end(mut self, dir: &Path) {
        for _ in 0..100 {
            if fs::read_to_string(dir.join("api-pods/settled")).is_ok_and(|boot| boot == self.boot) {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.cancel.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Does something bad to a file.
type Spoil = fn(&Path);

fn web() -> PodBuilder {
    pod("web").uid("u-web")
}

fn db() -> PodBuilder {
    pod("db").uid("u-db")
}

fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("api-pods")).expect("the directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// A copy of `web` and `db`, written in boot `b1`.
async fn copied() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let mut run = Run::start(dir.path(), "n1", "b1");
    assert_eq!(run.api_says(&[web().build(), db().build()]).await, "[db web]");
    run.end(dir.path()).await;
    dir
}

#[tokio::test(start_paused = true)]
async fn after_a_reboot_without_an_api_server_its_pods_come_from_the_copy() {
    let dir = copied().await;
    assert_eq!(files(dir.path()), ["index", "settled", "u-db.json", "u-web.json"]);
    let mode = |name: &str| fs::metadata(dir.path().join(name)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("api-pods"), mode("api-pods/index"), mode("api-pods/u-web.json")), (0o700, 0o600, 0o600));

    let mut run = Run::start(dir.path(), "n1", "b2");
    assert_eq!(run.next().await, "[db web]");
    // It is back: what was deleted meanwhile is gone, and stays gone.
    assert_eq!(run.api_says(&[web().build()]).await, "[web]");
    run.end(dir.path()).await;
    assert_eq!(files(dir.path()), ["index", "settled", "u-web.json"]);
    assert_eq!(Run::start(dir.path(), "n1", "b3").next().await, "[web]");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_answers_is_all_that_counts() {
    let dir = copied().await;
    let mut run = Run::start(dir.path(), "n1", "b2");
    assert_eq!(run.api_says(&[]).await, "[]");
    assert_eq!(run.next().await, "nothing");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_not_whole_never_ends_a_pod_that_runs() {
    // The same boot: pods may run. A whole copy is used, one that was being written is not.
    let dir = copied().await;
    assert_eq!(Run::start(dir.path(), "n1", "b1").next().await, "[db web]");
    fs::remove_file(dir.path().join("api-pods/settled")).expect("removed");
    assert_eq!(Run::start(dir.path(), "n1", "b1").next().await, "nothing");
    // Another boot: nothing runs.
    assert_eq!(Run::start(dir.path(), "n1", "b2").next().await, "[db web]");
}

#[tokio::test(start_paused = true)]
async fn entries_that_are_not_as_they_were_written_are_dropped() {
    let spoil: [(&str, Spoil); 4] = [
        ("a bit", |path| {
            let mut bytes = fs::read(path).expect("read");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).expect("written");
        }),
        ("cut short", |path| {
            let bytes = fs::read(path).expect("read");
            fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
        }),
        ("empty", |path| fs::write(path, "").expect("written")),
        ("gone", |path| fs::remove_file(path).expect("removed")),
    ];
    for (how, spoil) in spoil {
        let dir = copied().await;
        spoil(&dir.path().join("api-pods/u-db.json"));
        assert_eq!(Run::start(dir.path(), "n1", "b1").next().await, "nothing", "{how}: db may run");
        let mut run = Run::start(dir.path(), "n1", "b2");
        assert_eq!(run.next().await, "[web]", "{how}");
        // The API server is back: it is written anew.
        assert_eq!(run.api_says(&[web().build(), db().build()]).await, "[db web]");
        run.end(dir.path()).await;
        assert_eq!(Run::start(dir.path(), "n1", "b3").next().await, "[db web]", "{how}");

        let dir = copied().await;
        spoil(&dir.path().join("api-pods/index"));
        assert_eq!(Run::start(dir.path(), "n1", "b2").next().await, "nothing", "{how}: the index");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_from_the_copy_is_not_refused_for_labels_that_only_the_api_server_knows() {
    let dir = tempfile::tempdir().expect("a directory");
    let picky = web().edit_spec(|spec| spec.node_selector = Some([("disk".into(), "ssd".into())].into()));
    let mut run = Run::start(dir.path(), "n1", "b1");
    run.api_says(&[picky.build()]).await;
    run.end(dir.path()).await;
    let mut run = Run::start(dir.path(), "n1", "b2");
    let delivery = run.delivered.recv().await.expect("the copy");
    assert!(delivery.pods[0].pod_spec().expect("a spec").node_selector.is_none());
}

#[tokio::test(start_paused = true)]
async fn services_come_from_the_copy_until_the_api_server_tells_of_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let names = |run: &Run| {
        let services = run.view.services()?;
        Some(services.iter().filter_map(|service| service.metadata.name.clone()).collect::<Vec<_>>().join(" "))
    };
    let mut run = Run::start_with(dir.path(), "n1", "b1", Some(services(&["db", "kubernetes"])));
    run.api_says(&[web().build()]).await;
    run.end(dir.path()).await;

    let mut run = Run::start(dir.path(), "n1", "b2");
    assert_eq!(names(&run), None, "not before the copy is used");
    assert_eq!(run.next().await, "[web]");
    assert_eq!(names(&run).as_deref(), Some("db kubernetes"));
    let mut run = Run::start_with(dir.path(), "n1", "b2", Some(services(&["new"])));
    assert_eq!(run.next().await, "[web]");
    assert_eq!(names(&run).as_deref(), Some("new"), "what the API server says counts");
}

#[tokio::test(start_paused = true)]
async fn another_nodes_copy_is_not_used() {
    let dir = copied().await;
    assert_eq!(Run::start(dir.path(), "n2", "b2").next().await, "nothing");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_written_again_only_when_a_restart_would_need_it() {
    let dir = copied().await;
    let stamp = |dir: &Path| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(dir.join("api-pods/u-web.json")).expect("it is there").ino()
    };
    let written = async |pods: &[Arc<Pod>]| {
        let before = stamp(dir.path());
        let mut run = Run::start(dir.path(), "n1", "b1");
        run.api_says(pods).await;
        run.end(dir.path()).await;
        stamp(dir.path()) != before
    };
    assert!(!written(&[web().build(), db().build()]).await, "the same");
    assert!(!written(&[web().phase("Running").build(), db().build()]).await, "a status");
    assert!(written(&[web().label("a", "b").build(), db().build()]).await, "a label");
    assert!(written(&[web().image("other").build(), db().build()]).await, "a spec");
    assert!(written(&[web().image("other").phase("Succeeded").build(), db().build()]).await, "that it has ended");
    assert!(written(&[web().image("other").phase("Succeeded").deleted(1, 30).build(), db().build()]).await, "its end");
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_logged_once_and_tried_again() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("api-pods"), "in the way").expect("written");
    let mut run = Run::start(dir.path(), "n1", "b1");
    assert_eq!(run.api_says(&[web().build()]).await, "[web]");
    tokio::time::sleep(Duration::from_secs(100)).await;
    fs::remove_file(dir.path().join("api-pods")).expect("removed");
    run.end(dir.path()).await;
    assert_eq!(Run::start(dir.path(), "n1", "b2").next().await, "[web]");
}
