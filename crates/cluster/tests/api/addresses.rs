//! A server whose name has several addresses, some of them bad.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use rubelet_cluster::api::{Client, Credentials, Endpoint, Options, Resolver, Roots, User};
use rubelet_engine::clock::Clock;
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::fake::{Fake, PATIENCE, Reply};
use crate::pki::{Authority, Valid};

const BAD: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const GOOD: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A server at `api.test`, which resolves to a bad address first.
async fn rig() -> (Fake, Client, SocketAddr) {
    let authority = Authority::new();
    let server = authority.server("api.test", Valid::Now);
    let mut fake = Fake::with(authority, &server).await;
    let port = fake.address.port();
    let endpoint = Endpoint::new(&format!("https://api.test:{port}"), Roots::Pem(fake.authority.pem())).unwrap();
    let resolver = Resolver::new(|_| Ok(vec![BAD, GOOD]));
    let options = Options { resolver, ..Options::default() };
    let client = Client::new(endpoint, Credentials::new(User::default()), &options, Clock::real(), &mut fake.group);
    (fake, client, SocketAddr::new(BAD, port))
}

async fn get(client: &Client) -> Value {
    tokio::time::timeout(PATIENCE, client.get("/x")).await.expect("an answer comes in time").unwrap()
}

/// A listener that accepts no connection: its backlog is full, and a SYN gets no answer.
async fn black_hole(at: SocketAddr) -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(at).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut taken = Vec::new();
    while let Ok(tcp) = tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(at)).await {
        taken.push(tcp.unwrap());
    }
    (listener, taken)
}

#[tokio::test]
async fn an_address_that_does_not_answer_does_not_block_the_next() {
    let (fake, client, bad) = rig().await;
    let _hole = black_hole(bad).await;
    fake.reply(Reply::ok("{}"));
    get(&client).await;
}

#[tokio::test]
async fn an_address_that_accepts_and_stays_silent_does_not_block_the_next() {
    let (mut fake, client, bad) = rig().await;
    let listener = TcpListener::bind(bad).await.unwrap();
    fake.reply(Reply::ok("{}"));
    let (_, (silent, _)) = tokio::join!(get(&client), async { listener.accept().await.unwrap() });
    assert_eq!(fake.seen().await.connection, 1);
    // The next connection starts with the address that worked.
    fake.cut();
    fake.reply(Reply::ok("{}"));
    get(&client).await;
    let again = tokio::time::timeout(Duration::from_millis(10), listener.accept()).await;
    assert!(again.is_err(), "the bad address was tried again");
    drop(silent);
}

#[tokio::test]
async fn an_address_that_refuses_is_skipped() {
    let (fake, client, _) = rig().await;
    fake.reply(Reply::ok("{}"));
    get(&client).await;
}
