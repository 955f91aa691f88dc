//! GET, on a connection of its own, with the redirects that `core::probe` allows.

use std::io;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, LOCATION};
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rubelet_core::probe::{Hop, MAX_OUTPUT, Scheme, next_hop};
use rubelet_engine::ports::{HttpReply, HttpTarget, NetError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::Error as TlsError;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::dial::{dial, words};
use crate::drive::drive;
use crate::tls::Connector;

/// How far a question has come: decides what running out of time means.
#[derive(Default)]
pub(crate) struct Progress {
    answering: bool,
}

impl Progress {
    /// A server that does not begin to answer fails; one that does not end has taught us nothing (PRB-06).
    pub(crate) fn out_of_time(&self) -> NetError {
        if self.answering {
            let what = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
            NetError::Body(what.to_owned())
        } else {
            NetError::Timeout
        }
    }
}

struct OneReply {
    status: u16,
    location: Option<String>,
    body: String,
}

pub(crate) async fn get(tls: &Connector, first: &HttpTarget, progress: &mut Progress) -> Result<HttpReply, NetError> {
    let mut at = first.clone();
    let mut hops = 0;
    loop {
        progress.answering = false;
        let reply = get_one(tls, &at, progress).await?;
        match next_hop(first, &at, reply.status, reply.location.as_deref(), hops) {
            Hop::Take => return Ok(HttpReply { status: reply.status, body: reply.body }),
            Hop::TooMany => return Err(NetError::TooManyRedirects),
            Hop::Follow(to) => {
                at = to;
                hops += 1;
            }
        }
    }
}

async fn get_one(tls: &Connector, target: &HttpTarget, progress: &mut Progress) -> Result<OneReply, NetError> {
    let socket = dial(&target.host, target.port).await?;
    match target.scheme {
        Scheme::Http => exchange(socket, target, progress).await,
        Scheme::Https => {
            let name = ServerName::try_from(target.host.clone()).map_err(|err| NetError::Broken(err.to_string()))?;
            let secure = tls.connect(name, socket).await.map_err(|err| handshake_error(&err))?;
            exchange(secure, target, progress).await
        }
    }
}

/// What came back is no TLS at all: by far most often plain HTTP.
fn handshake_error(err: &io::Error) -> NetError {
    let cause = err.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    match cause {
        Some(TlsError::InvalidMessage(_)) => NetError::PlainHttp,
        Some(cause) => NetError::Broken(format!("remote error: tls: {cause}")),
        None => NetError::Broken(words(err)),
    }
}

async fn exchange<S>(stream: S, target: &HttpTarget, progress: &mut Progress) -> Result<OneReply, NetError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = request(target)?;
    let mut http = http1::Builder::new();
    // As upstream's library writes them, for servers that care though they should not.
    http.title_case_headers(true);
    let broken = |err: hyper::Error| NetError::Broken(reason(&err));
    let (mut sender, connection) = http.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let work = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        progress.answering = true;
        let status = response.status().as_u16();
        let location = response.headers().get(LOCATION).and_then(|l| l.to_str().ok()).map(str::to_owned);
        let body = read_some(response.into_body()).await?;
        Ok(OneReply { status, location, body })
    };
    drive(connection, work).await
}

fn reason(err: &hyper::Error) -> String {
    if err.is_incomplete_message() {
        return "EOF".to_owned();
    }
    let cause = std::error::Error::source(err);
    match cause.and_then(|cause| cause.downcast_ref::<io::Error>()) {
        Some(io) => words(io),
        None => err.to_string(),
    }
}

fn request(target: &HttpTarget) -> Result<Request<Empty<Bytes>>, NetError> {
    let bad = |what: &str, name: &str| NetError::Broken(format!("net/http: invalid header field {what} {name:?}"));
    let mut builder = Request::builder().method(Method::GET).uri(&target.path);
    let host = target.host_header.clone().unwrap_or_else(|| target.address());
    builder = builder.header(HOST, HeaderValue::from_str(&host).map_err(|_| bad("value for", "Host"))?);
    for (name, value) in &target.headers {
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("name", name))?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad("value for", name))?;
        builder = builder.header(key, value);
    }
    let request = builder.header(CONNECTION, "close").body(Empty::new());
    request.map_err(|err| NetError::Broken(err.to_string()))
}

/// The beginning of the body; the rest is not even fetched.
async fn read_some(mut body: hyper::body::Incoming) -> Result<String, NetError> {
    let mut read = Vec::new();
    while read.len() < MAX_OUTPUT
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|err| NetError::Body(reason(&err)))?;
        if let Some(data) = frame.data_ref() {
            let room = MAX_OUTPUT - read.len();
            read.extend(data.iter().take(room));
        }
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}
