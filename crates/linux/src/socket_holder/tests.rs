use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use super::{hold, pair, send};

/// Longer than any test lasts.
const LONG: u32 = 3600;
/// How long a read waits for expected data.
const PATIENCE: Duration = Duration::from_secs(30);

/// A holder on a separate thread, and the agent's end of the socket pair.
fn holder() -> (OwnedFd, JoinHandle<rustix::io::Result<()>>) {
    let (ours, theirs) = pair().expect("a pair of sockets");
    (ours, std::thread::spawn(move || hold(theirs.as_fd())))
}

/// A connection: the agent's side and the runtime's.
fn connection() -> (UnixStream, UnixStream) {
    let (agent, runtime) = UnixStream::pair().expect("a pair of sockets");
    runtime.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    (agent, runtime)
}

fn reads_end(runtime: &mut UnixStream) {
    assert_eq!(runtime.read(&mut [0; 8]).expect("the end comes in time"), 0);
}

#[test]
fn a_socket_stays_open_after_its_agent_for_the_time_asked_for() {
    let (control, holder) = holder();
    let (agent, mut runtime) = connection();
    send(control.as_fd(), 1, Some(agent.as_fd())).expect("the holder takes it");
    drop((agent, control));
    // An answer without a reader is consumed all the same, however long it is: more than a socket's buffer holds.
    runtime.set_write_timeout(Some(PATIENCE)).expect("a timeout can be set");
    runtime.write_all(&vec![0; 1 << 20]).expect("the connection is open, and read from");
    reads_end(&mut runtime);
    assert_eq!(holder.join().expect("no panic"), Ok(()));
}

#[test]
fn with_nothing_in_flight_the_holder_ends_with_its_agent() {
    let (control, holder) = holder();
    let (agent, mut runtime) = connection();
    send(control.as_fd(), LONG, Some(agent.as_fd())).expect("the holder takes it");
    send(control.as_fd(), 0, None).expect("the holder takes it");
    drop((agent, control));
    reads_end(&mut runtime);
    assert_eq!(holder.join().expect("no panic"), Ok(()));
}

#[test]
fn a_connection_that_the_agent_shut_down_is_dropped_while_the_agent_lives() {
    let (control, holder) = holder();
    let (agent, mut runtime) = connection();
    send(control.as_fd(), LONG, Some(agent.as_fd())).expect("the holder takes it");
    agent.shutdown(Shutdown::Both).expect("it is open");
    drop(agent);
    reads_end(&mut runtime);
    // With no socket left the holder does not wait for the time to pass.
    drop(control);
    assert_eq!(holder.join().expect("no panic"), Ok(()));
}

#[test]
fn data_for_the_agent_is_not_read_while_the_agent_lives() {
    let (control, holder) = holder();
    let (mut agent, mut runtime) = connection();
    send(control.as_fd(), LONG, Some(agent.as_fd())).expect("the holder takes it");
    runtime.write_all(b"answer").expect("it is open");
    // The holder has read the second message, and so has polled the socket at least once.
    let (other, mut seen) = connection();
    send(control.as_fd(), LONG, Some(other.as_fd())).expect("the holder takes it");
    other.shutdown(Shutdown::Both).expect("it is open");
    reads_end(&mut seen);
    let mut answer = [0; 6];
    agent.read_exact(&mut answer).expect("the answer is there");
    assert_eq!(&answer, b"answer");
    // The runtime closes the connection, so there is nothing left to hold.
    drop((runtime, control));
    assert_eq!(holder.join().expect("no panic"), Ok(()));
}

#[test]
fn of_too_many_sockets_the_oldest_are_dropped() {
    let (control, holder) = holder();
    let mut runtimes: Vec<UnixStream> = Vec::new();
    for _ in 0..40 {
        let (agent, runtime) = connection();
        send(control.as_fd(), LONG, Some(agent.as_fd())).expect("the holder takes it");
        runtimes.push(runtime);
    }
    let (mut old, mut young) = (runtimes.remove(0), runtimes.pop().expect("there are more"));
    reads_end(&mut old);
    drop(control);
    young.set_nonblocking(true).expect("it can be set");
    assert!(young.read(&mut [0; 8]).is_err(), "the newest is still open");
    drop((runtimes, young));
    assert_eq!(holder.join().expect("no panic"), Ok(()));
}
