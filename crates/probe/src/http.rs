//! HTTP GET, on a separate connection for each request, following the redirects that `core::probe` allows. HTTP/1.1, or
//! HTTP/2 if a TLS server chooses it.

use std::io;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, LOCATION};
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rubelet_core::probe::{Hop, MAX_OUTPUT, Scheme, next_hop};
use rubelet_engine::ports::{HttpReply, HttpTarget, NetError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::Error as TlsError;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::dial::{dial, error_text};
use crate::drive::drive;
use crate::limits::{HEADER_BYTES, HEADERS, http2};
use crate::names::Names;
use crate::tls::{Connector, H2};

/// The progress of a request: decides the error when time runs out.
#[derive(Default)]
pub(crate) struct Progress {
    answering: bool,
}

impl Progress {
    /// A server that does not begin to answer fails the probe; one that does not finish gives no result (PRB-06).
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

pub(crate) async fn get(
    tls: &Connector,
    names: &Names,
    first: &HttpTarget,
    progress: &mut Progress,
) -> Result<HttpReply, NetError> {
    let mut at = first.clone();
    let mut hops = 0;
    loop {
        progress.answering = false;
        let reply = get_one(tls, names, &at, progress).await?;
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

async fn get_one(
    tls: &Connector,
    names: &Names,
    target: &HttpTarget,
    progress: &mut Progress,
) -> Result<OneReply, NetError> {
    let socket = dial(names, &target.host, target.port).await?;
    match target.scheme {
        Scheme::Http => exchange(socket, target, progress).await,
        Scheme::Https => {
            let name = ServerName::try_from(target.host.clone()).map_err(|err| NetError::Broken(err.to_string()))?;
            let secure = tls.connect(name, socket).await.map_err(|err| handshake_error(&err))?;
            match secure.get_ref().1.alpn_protocol() {
                Some(H2) => exchange_http2(secure, target, progress).await,
                _ => exchange(secure, target, progress).await,
            }
        }
    }
}

/// The answer is not TLS: by far most often plain HTTP.
fn handshake_error(err: &io::Error) -> NetError {
    let cause = err.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    match cause {
        Some(TlsError::InvalidMessage(_)) => NetError::PlainHttp,
        Some(cause) => NetError::Broken(format!("remote error: tls: {cause}")),
        None => NetError::Broken(error_text(err)),
    }
}

async fn exchange<S>(stream: S, target: &HttpTarget, progress: &mut Progress) -> Result<OneReply, NetError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = request(target)?;
    let mut http = http1::Builder::new();
    // Header names in upstream's spelling, for servers that compare them case-sensitively.
    http.title_case_headers(true).max_headers(HEADERS).max_buf_size(HEADER_BYTES);
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

/// [`exchange`] for a server that chose HTTP/2.
async fn exchange_http2<S>(stream: S, target: &HttpTarget, progress: &mut Progress) -> Result<OneReply, NetError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = request_http2(target)?;
    let broken = |err: h2::Error| NetError::Broken(reason_http2(&err));
    let (sender, connection) = http2(HEADER_BYTES).handshake::<_, Bytes>(stream).await.map_err(broken)?;
    let work = async {
        let mut sender = sender.ready().await.map_err(broken)?;
        let (response, _) = sender.send_request(request, true).map_err(broken)?;
        let response = response.await.map_err(broken)?;
        progress.answering = true;
        let (head, mut body) = response.into_parts();
        let location = head.headers.get(LOCATION).and_then(|l| l.to_str().ok()).map(str::to_owned);
        let mut read = Vec::new();
        while read.len() < MAX_OUTPUT
            && let Some(chunk) = body.data().await
        {
            let chunk = chunk.map_err(|err| NetError::Body(reason_http2(&err)))?;
            let _released = body.flow_control().release_capacity(chunk.len());
            let room = MAX_OUTPUT - read.len();
            read.extend(chunk.iter().take(room));
        }
        let body = String::from_utf8_lossy(&read).into_owned();
        Ok(OneReply { status: head.status.as_u16(), location, body })
    };
    drive(connection, work).await
}

fn reason_http2(err: &h2::Error) -> String {
    err.get_io().map_or_else(|| err.to_string(), error_text)
}

/// Headers that HTTP/2 forbids.
const NOT_IN_HTTP2: [HeaderName; 5] =
    [HOST, CONNECTION, http::header::UPGRADE, http::header::TRANSFER_ENCODING, http::header::TE];

fn request_http2(target: &HttpTarget) -> Result<Request<()>, NetError> {
    let (mut head, _) = request(target)?.into_parts();
    let host = target.host_header.clone().unwrap_or_else(|| target.address());
    let uri = Uri::builder().scheme("https").authority(host).path_and_query(target.path.as_str()).build();
    head.uri = uri.map_err(|err| NetError::Broken(err.to_string()))?;
    head.version = Version::HTTP_2;
    for name in NOT_IN_HTTP2 {
        head.headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection"] {
        head.headers.remove(name);
    }
    Ok(Request::from_parts(head, ()))
}

fn reason(err: &hyper::Error) -> String {
    if err.is_incomplete_message() {
        return "EOF".to_owned();
    }
    let cause = std::error::Error::source(err);
    match cause.and_then(|cause| cause.downcast_ref::<io::Error>()) {
        Some(io) => error_text(io),
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

/// The beginning of the body; the rest is not fetched.
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
