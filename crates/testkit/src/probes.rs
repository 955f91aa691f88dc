//! Servers in pods, as network probes see them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::probe::{Hop, next_hop};
use rubelet_engine::ports::{GrpcError, GrpcTarget, HttpReply, HttpTarget, NetError, Probes, Serving, TcpTarget};

use crate::clock::TestClock;

/// How a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Answers at once with this status; gRPC serves if it is 200.
    Answers(u16),
    /// Answers after this time.
    Slow(Duration, u16),
    /// Redirects to this location.
    Redirects(String),
    /// Accepts the connection and sends nothing.
    Hangs,
    /// Refuses the connection.
    Refuses,
    /// Speaks plain HTTP where TLS is expected.
    PlainOnly,
}

/// Servers, by port: a test gives each container its own. Clones share the world.
#[derive(Clone)]
pub struct FakeProbes {
    clock: TestClock,
    world: Arc<Mutex<World>>,
}

#[derive(Default)]
struct World {
    manners: BTreeMap<u16, Manner>,
    asked: Vec<(Duration, u16, String)>,
}

impl FakeProbes {
    /// A network without servers.
    pub fn new(clock: TestClock) -> Self {
        Self { clock, world: Arc::default() }
    }

    /// Sets how the server on `port` answers from now on.
    pub fn set(&self, port: u16, manner: Manner) {
        self.with(|world| world.manners.insert(port, manner));
    }

    /// The times of the requests to `port`.
    pub fn times(&self, port: u16) -> Vec<Duration> {
        self.with(|world| world.asked.iter().filter(|(_, p, _)| *p == port).map(|(at, _, _)| *at).collect())
    }

    /// The requests, in order.
    pub fn asked(&self) -> Vec<String> {
        self.with(|world| world.asked.iter().map(|(_, _, what)| what.clone()).collect())
    }

    fn with<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        act(&mut self.world.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn manner(&self, port: u16, what: String) -> Manner {
        let at = self.clock.elapsed();
        self.with(|world| {
            world.asked.push((at, port, what));
            world.manners.get(&port).cloned().unwrap_or(Manner::Refuses)
        })
    }

    async fn get(&self, first: &HttpTarget) -> Result<HttpReply, NetError> {
        let mut at = first.clone();
        let mut hops = 0;
        loop {
            let (status, location) = match self.manner(at.port, at.url()) {
                Manner::Answers(status) => (status, None),
                Manner::Slow(takes, status) => {
                    tokio::time::sleep(takes).await;
                    (status, None)
                }
                Manner::Redirects(to) => (302, Some(to)),
                Manner::Hangs => std::future::pending().await,
                Manner::Refuses => return Err(refused(&at.address())),
                Manner::PlainOnly if at.scheme == rubelet_core::probe::Scheme::Https => {
                    return Err(NetError::PlainHttp);
                }
                Manner::PlainOnly => (200, None),
            };
            match next_hop(first, &at, status, location.as_deref(), hops) {
                Hop::Take => return Ok(HttpReply { status, body: String::new() }),
                Hop::TooMany => return Err(NetError::TooManyRedirects),
                Hop::Follow(to) => {
                    at = to;
                    hops += 1;
                }
            }
        }
    }
}

fn refused(address: &str) -> NetError {
    NetError::Connect(format!("dial tcp {address}: connect: connection refused"))
}

#[async_trait]
impl Probes for FakeProbes {
    async fn http(&self, target: &HttpTarget, timeout: Option<Duration>) -> Result<HttpReply, NetError> {
        match timeout {
            Some(timeout) => tokio::time::timeout(timeout, self.get(target)).await.unwrap_or(Err(NetError::Timeout)),
            None => self.get(target).await,
        }
    }

    async fn tcp(&self, target: &TcpTarget, _timeout: Duration) -> Result<(), NetError> {
        match self.manner(target.port, target.address()) {
            Manner::Refuses => Err(refused(&target.address())),
            _ => Ok(()),
        }
    }

    async fn grpc(&self, target: &GrpcTarget, timeout: Duration) -> Result<Serving, GrpcError> {
        match self.manner(target.port, target.address()) {
            Manner::Refuses => Err(GrpcError::Connect(refused(&target.address()).to_string())),
            Manner::Hangs => {
                tokio::time::sleep(timeout).await;
                Err(GrpcError::Timeout)
            }
            Manner::Answers(200) | Manner::Slow(_, 200) => Ok(Serving::Serving),
            _ => Ok(Serving::Not(2)),
        }
    }
}
