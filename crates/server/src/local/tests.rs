use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use rubelet_engine::chain::Chain;
use rubelet_engine::sync_loop::NodeView;
use rubelet_engine::task::TaskGroup;
use rubelet_testkit::pod;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::{Client, LocalServer, OwnedSocket};
use crate::documents::PodState;
use crate::testing::{FakeNode, agent, node, running, status, worker};

struct Rig {
    dir: TempDir,
    tasks: TaskGroup,
}

impl Rig {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), tasks: TaskGroup::new(&CancellationToken::new()) }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("rubelet.sock")
    }

    /// The user that runs the test.
    fn me(&self) -> u32 {
        self.dir.path().metadata().expect("it is there").uid()
    }

    fn start(&mut self, view: Option<NodeView>, user: u32) {
        let node = Arc::new(FakeNode { view, quiet_for: Duration::ZERO });
        let socket = OwnedSocket::bind(&self.path()).expect("it binds");
        let server = LocalServer::new(socket, node, agent(), user);
        self.tasks.start("local", server.run(self.tasks.cancel_token()));
    }

    /// Compares after replacing the temporary path.
    fn check(&self, text: &str, expected: Expect) {
        expected.assert_eq(&text.replace(self.dir.path().to_str().expect("text"), "ROOT"));
    }
}

fn web() -> NodeView {
    node(vec![worker(pod("web").build(), status("Running", vec![running("app", 500, true)]))])
}

fn bind_error(path: &Path) -> String {
    OwnedSocket::bind(path).err().map_or_else(|| "bound".to_owned(), |err| Chain(&err).to_string())
}

#[tokio::test]
async fn queries_are_answered() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me());
    let client = Client::new(&rig.path());
    let node = client.pods().await.expect("an answer");
    assert_eq!(node.pods.iter().map(|p| (p.name.as_str(), p.state)).collect::<Vec<_>>(), [("web", PodState::Running)]);
    let story = client.story("default/web").await.expect("an answer");
    assert_eq!(story.line.uid, "web-uid");
    let status = client.status().await.expect("an answer");
    assert_eq!((status.node.as_str(), status.pods.running, status.api_server), ("node-1", 1, None));
    let miss = client.story("a b%/ü").await.expect_err("no such pod");
    rig.check(&miss.to_string(), expect![[r#"no pod "a b%/ü" on this node; rubelet pods lists all"#]]);
    rig.tasks.stop().await;
}

#[tokio::test]
async fn the_socket_is_private_and_removed_with_its_server() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me());
    let file = rig.path().symlink_metadata().expect("it is there");
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let (path, tasks) = (rig.path(), rig.tasks);
    tasks.stop().await;
    assert!(!path.exists(), "the socket is left behind");
}

#[tokio::test]
async fn another_user_is_rejected() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me() + 1);
    let err = Client::new(&rig.path()).pods().await.expect_err("not allowed");
    rig.check(&err.to_string(), expect!["only root may ask the rubelet on ROOT/rubelet.sock: try sudo"]);
    rig.tasks.stop().await;
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let mut rig = Rig::new();
    drop(std::os::unix::net::UnixListener::bind(rig.path()).expect("it binds"));
    assert!(rig.path().exists(), "a dropped listener leaves its file, as a killed process does");
    rig.start(Some(web()), rig.me());
    Client::new(&rig.path()).pods().await.expect("the new one answers");
    rig.check(
        &bind_error(&rig.path()),
        expect!["another rubelet answers on ROOT/rubelet.sock: stop it, or give this one another --root-dir"],
    );
    Client::new(&rig.path()).pods().await.expect("it still answers");
    rig.tasks.stop().await;
}

#[tokio::test]
async fn bind_errors_name_the_path() {
    let rig = Rig::new();
    std::fs::write(rig.path(), "precious").expect("it writes");
    rig.check(&bind_error(&rig.path()), expect!["ROOT/rubelet.sock is there and is not a socket: move it away"]);
    assert_eq!(std::fs::read_to_string(rig.path()).expect("it reads"), "precious");
    rig.check(
        &bind_error(&rig.dir.path().join("none/rubelet.sock")),
        expect!["open the socket ROOT/none/rubelet.sock: No such file or directory (os error 2)"],
    );
    rig.check(
        &bind_error(&Path::new("/").join("a".repeat(107))).replace("aaaa", ""),
        expect!["/aaa is longer than the 107 bytes of a socket's path: choose a shorter --root-dir"],
    );
}

#[tokio::test]
async fn a_file_of_another_process_is_not_removed() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me());
    std::fs::remove_file(rig.path()).expect("it is there");
    std::fs::write(rig.path(), "new").expect("it writes");
    let (dir, tasks) = (rig.dir, rig.tasks);
    tasks.stop().await;
    assert!(dir.path().join("rubelet.sock").exists());
}

#[tokio::test(start_paused = true)]
async fn errors_tell_what_to_do() {
    let mut rig = Rig::new();
    let client = Client::new(&rig.path());
    let err = client.pods().await.expect_err("no server");
    rig.check(&Chain(&err).to_string(), expect!["no rubelet answers on ROOT/rubelet.sock: is it running, and with this --root-dir?: No such file or directory (os error 2)"]);
    rig.start(None, rig.me());
    let err = client.pods().await.expect_err("the loop hangs");
    rig.check(&err.to_string(), expect!["the sync loop does not answer: this is a bug, its log may tell more"]);
    rig.tasks.stop().await;
}

#[tokio::test]
async fn a_server_that_is_not_rubelet_is_recognized() {
    let rig = Rig::new();
    let listener = tokio::net::UnixListener::bind(rig.path()).expect("it binds");
    for (sent, expected) in [
        (
            &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"[..],
            expect!["what answers on ROOT/rubelet.sock is no rubelet of this version"],
        ),
        (
            b"SSH-2.0-OpenSSH_9.2\r\n",
            expect!["the rubelet on ROOT/rubelet.sock went away while it answered: ask again"],
        ),
        (b"", expect!["the rubelet on ROOT/rubelet.sock went away while it answered: ask again"]),
    ] {
        let other = async {
            let (mut stream, _) = listener.accept().await.expect("it comes");
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).await;
            stream.write_all(sent).await.expect("it is sent");
        };
        let client = Client::new(&rig.path());
        let ((), answer) = tokio::join!(other, client.pods());
        rig.check(&answer.expect_err("no sense").to_string(), expected);
    }
}

#[tokio::test]
async fn only_get_is_supported() {
    let mut rig = Rig::new();
    rig.start(Some(web()), rig.me());
    let mut answers = String::new();
    for request in
        ["DELETE /v1/pods/web", "POST /v1/pods", "GET /nothing", "GET /v1/podsx", "GET /v1/statusx", "GET /v1/pods/"]
    {
        let mut stream = UnixStream::connect(rig.path()).await.expect("it listens");
        stream.write_all(format!("{request} HTTP/1.1\r\nHost: rubelet\r\n\r\n").as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers");
        let (first, last) = (answer.lines().next().unwrap_or_default(), answer.lines().last().unwrap_or_default());
        answers.push_str(&format!("{request}: {first} {last}\n"));
    }
    rig.check(&answers, expect![[r#"
        DELETE /v1/pods/web: HTTP/1.1 405 Method Not Allowed {"error":"only GET is known"}
        POST /v1/pods: HTTP/1.1 405 Method Not Allowed {"error":"only GET is known"}
        GET /nothing: HTTP/1.1 404 Not Found {"error":"no such path"}
        GET /v1/podsx: HTTP/1.1 404 Not Found {"error":"no such path"}
        GET /v1/statusx: HTTP/1.1 404 Not Found {"error":"no such path"}
        GET /v1/pods/: HTTP/1.1 404 Not Found {"error":"no pod \"\" on this node; rubelet pods lists all","miss":{"miss":"unknown","word":"","nearest":[]}}
    "#]]);
    rig.tasks.stop().await;
}
