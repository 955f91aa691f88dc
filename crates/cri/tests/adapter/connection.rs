//! A runtime that is missing, goes away, comes back, or is another program.

use std::time::Duration;

use crate::fake::Setup;
use rubelet_cri::ListMode;
use rubelet_engine::ports::{Containers, RpcErrorKind, RuntimeInfo, RuntimeView};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::task::JoinSet;

fn down() -> Setup {
    Setup::down(Duration::from_secs(60), ListMode::Whole)
}

#[tokio::test]
async fn a_missing_socket_is_named() {
    let setup = down();
    let err = setup.runtime.version().await.expect_err("the runtime is not running");
    assert_eq!(err.kind, RpcErrorKind::Unavailable);
    assert_eq!(
        err.to_string(),
        format!(
            "version: cannot connect to {}: no such socket, is the container runtime running?",
            setup.path.display()
        )
    );
}

#[tokio::test]
async fn a_runtime_that_comes_late_is_found_once_the_pause_is_over() {
    let mut setup = down();
    setup.runtime.version().await.expect_err("the runtime is not running");
    setup.start();
    setup.pass(99);
    let err = setup.runtime.version().await.expect_err("still in the pause");
    assert_eq!(err.kind, RpcErrorKind::Unavailable);
    setup.pass(1);
    setup.runtime.version().await.expect("found");
}

#[tokio::test]
async fn a_restart_of_the_runtime_is_survived() {
    let mut setup = Setup::up();
    for _ in 0..3 {
        setup.runtime.list().await.expect("it is up");
        setup.kill();
        let err = setup.runtime.list().await.expect_err("it is down");
        assert_eq!(err.kind, RpcErrorKind::Unavailable, "{err}");
        setup.start();
        // Longer than any pause.
        setup.pass(3_000);
    }
    setup.runtime.list().await.expect("it is up again");
}

#[tokio::test]
async fn a_runtime_that_dies_in_the_middle_of_a_call_is_unavailable_at_once() {
    let mut setup = Setup::up();
    setup.change(|world| world.hanging.push("start_container"));
    let id = "c".into();
    let outcome = {
        let runtime = &setup.runtime;
        let mut call = std::pin::pin!(runtime.start_container(&id));
        // Let the call reach the fake before the fake is killed.
        for _ in 0..10_000 {
            tokio::select! {
                biased;
                _ = &mut call => panic!("it hangs"),
                () = tokio::task::yield_now() => {}
            }
            if !setup.fake.world.lock().expect("not poisoned").calls.is_empty() {
                break;
            }
        }
        setup.server = None;
        call.await
    };
    assert_eq!(outcome.expect_err("died").kind, RpcErrorKind::Unavailable);
}

/// Another program listens on the socket: it reads a little, sends `reply` and closes the connection.
async fn answer_with(reply: &'static [u8]) -> RpcErrorKind {
    let setup = Setup::down(Duration::from_secs(60), ListMode::Whole);
    let listener = UnixListener::bind(&setup.path).expect("bind");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut some = [0; 16];
            let _ = stream.read(&mut some).await;
            let _ = stream.write_all(reply).await;
        }
    });
    let err = setup.runtime.version().await.expect_err("that is no runtime");
    assert!(!err.detail.is_empty());
    err.kind
}

/// Another program listens on the socket, and sends `greeting` at once.
async fn greet_with(greeting: &'static [u8]) -> RpcErrorKind {
    let setup = Setup::down(Duration::from_secs(60), ListMode::Whole);
    let listener = std::os::unix::net::UnixListener::bind(&setup.path).expect("bind");
    // On a separate thread, so that the greeting is there as soon as the connection is.
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("one connection");
        let _ = std::io::Write::write_all(&mut stream, greeting);
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    });
    setup.runtime.version().await.expect_err("that is no runtime").kind
}

#[tokio::test]
async fn another_program_on_the_socket_is_garbage() {
    assert_eq!(answer_with(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await, RpcErrorKind::Garbage);
    assert_eq!(answer_with(&[0xff; 64]).await, RpcErrorKind::Garbage);
    // A greeting may be read before our call is sent: the connection is closed then.
    for _ in 0..20 {
        assert_eq!(
            greet_with(b"SSH-2.0-nonsense\r\n\0\xff this is not what you want to hear\r\n").await,
            RpcErrorKind::Garbage
        );
    }
    // Closing the connection without a byte is what a dying runtime does too.
    assert_eq!(answer_with(b"").await, RpcErrorKind::Unavailable);
}
