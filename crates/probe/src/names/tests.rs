use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rubelet_core::probe::{NetError, TcpTarget};
use rubelet_engine::blocking::{CGROUPS, LOGS, POD_FILES};
use rubelet_engine::ports::Probes;

use super::*;
use crate::NetworkProbes;

const TIMEOUT: Duration = Duration::from_millis(50);

/// A name server that does not answer until this is dropped, and counts the lookups of each name.
#[derive(Default)]
struct Silent {
    asked: Mutex<BTreeMap<String, usize>>,
    held: Mutex<Vec<Sender<()>>>,
}

/// Answers all lookups when it is dropped, so that a failing test ends: its runtime waits for the lookup threads.
struct Release(Arc<Silent>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn silent() -> (Release, Arc<NetworkProbes>) {
    let server = Arc::new(Silent::default());
    let asked = Arc::clone(&server);
    let resolver: Resolver = Arc::new(move |name| {
        *asked.asked.lock().expect("unpoisoned").entry(name.to_owned()).or_default() += 1;
        let (hold, held) = channel::<()>();
        asked.held.lock().expect("unpoisoned").push(hold);
        let _released = held.recv();
        vec![Ipv4Addr::LOCALHOST.into()]
    });
    let probes = NetworkProbes { tls: crate::tls::connector().expect("TLS"), names: Names::new(resolver) };
    (Release(server), Arc::new(probes))
}

fn target(name: &str) -> TcpTarget {
    TcpTarget { host: name.to_owned(), port: 1 }
}

#[tokio::test]
async fn hostile_unanswered_names_block_only_their_own_lookup_threads() {
    let (server, probes) = silent();
    let names: Vec<_> = (0..30).map(|n| target(&format!("{n}.example"))).collect();
    // Three probes of each name, as of a container with all three kinds.
    let asked = names.iter().chain(&names).chain(&names).map(|name| probes.tcp(name, TIMEOUT));
    let answers = futures_util::future::join_all(asked).await;
    assert!(answers.iter().all(|answer| *answer == Err(NetError::Timeout)), "the timeout holds for the lookup, too");
    let others = async {
        POD_FILES.run("another-pod", || ()).await;
        CGROUPS.run("/kubepods", || ()).await;
        LOGS.run("another-pod", || ()).await;
    };
    assert!(tokio::time::timeout(Duration::from_secs(5), others).await.is_ok());
    // Each period asks again; a lookup in flight is not started twice.
    let again = names.iter().map(|name| probes.tcp(name, TIMEOUT));
    futures_util::future::join_all(again).await;
    let asked = server.0.asked.lock().expect("unpoisoned").clone();
    assert!(asked.len() <= 16 && asked.values().all(|times| *times == 1), "{asked:?}");
}

#[tokio::test]
async fn hostile_more_names_than_may_be_pending_are_refused_at_once() {
    // Waiting lookups start as others return; no probe waits for them any more.
    let (_server, probes) = silent();
    let names: Vec<_> = (0..PENDING + 10).map(|n| target(&format!("{n}.example"))).collect();
    let asked = names.iter().map(|name| probes.tcp(name, TIMEOUT));
    let answers = futures_util::future::join_all(asked).await;
    let refused = answers.iter().filter(|answer| matches!(answer, Err(NetError::Connect(_)))).count();
    assert_eq!(refused, 10);
    let expected = "dial tcp: lookup 64.example: too many names are being looked up: 64 others are pending";
    assert_eq!(answers[PENDING], Err(NetError::Connect(expected.to_owned())));
}
