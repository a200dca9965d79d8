//! HTTPS to the authority, a connection for each request.
//!
//! `instant-acme` speaks ACME and trusts the answers to be of a sensible size and form. So they are checked here: an answer
//! has bounds in bytes and in time, none redirects, and URLs begin with `https://`.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{AcmeConfig, AcmeError};
use crate::certificate::read_bounded;

/// Bytes of an answer's header, and of its body. The longest body is a chain of certificates.
const HEADER_BYTES_MAX: usize = 16 << 10;
const BODY_BYTES_MAX: usize = 128 << 10;
/// Longest time for which the authority may ask to wait, in seconds.
const RETRY_AFTER_MAX_S: u64 = 3600;

/// Sends requests.
#[derive(Clone)]
pub(super) struct Client {
    connector: TlsConnector,
    request_time: Duration,
}

impl Client {
    pub(super) fn new(config: &AcmeConfig, request_time: Duration) -> Result<Client, AcmeError> {
        let fail = |reason: String| AcmeError::Roots { directory: config.directory.clone(), reason };
        let mut roots = RootCertStore::empty();
        match &config.roots {
            Some(path) => {
                let text = read_bounded(path)?;
                for root in CertificateDer::pem_slice_iter(&text) {
                    let added = root.map_err(|error| error.to_string()).map(|root| roots.add(root));
                    added.and_then(|added| added.map_err(|error| error.to_string())).map_err(fail)?;
                }
            }
            // Some of a system's roots may be odd; others do.
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        if roots.is_empty() {
            return Err(fail("there are none; name a file with `roots` under [tls.acme]".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| fail(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Client { connector: TlsConnector::from(Arc::new(config)), request_time })
    }

    async fn send(self, request: Request<BodyWrapper<Bytes>>) -> io::Result<BytesResponse> {
        let (mut parts, body) = request.into_parts();
        let is_directory = parts.method == Method::GET;
        let (host, port) = host_of(&parts.uri)?;
        let authority = HeaderValue::from_str(&format!("{host}:{port}")).map_err(io::Error::other)?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        let stream = TcpStream::connect((bare, port)).await?;
        let stream = self.connector.connect(name, stream).await?;
        parts.uri = parts.uri.path_and_query().map_or("/", |path| path.as_str()).parse().map_err(io::Error::other)?;
        parts.headers.insert(HOST, authority);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEADER_BYTES_MAX);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let exchange = async {
            let response = sender.send_request(Request::from_parts(parts, body)).await.map_err(io::Error::other)?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(io::Error::other)?;
            Ok((parts, body.to_bytes()))
        };
        // The connection goes with this; an answer may arrive though it has failed.
        let run = async { drop(connection.await) };
        let (mut parts, body) = {
            tokio::pin!(exchange, run);
            tokio::select! {
                biased;
                answer = &mut exchange => answer,
                () = &mut run => exchange.await,
            }
        }
        .map_err(|error: io::Error| error)?;
        if parts.status.is_redirection() {
            return Err(io::Error::other("it redirects, which ACME does not"));
        }
        // What instant-acme adds to the time of day, or builds requests of, without a check.
        let wait = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
        if wait.is_none_or(|seconds| seconds > RETRY_AFTER_MAX_S) {
            parts.headers.remove(RETRY_AFTER);
        }
        if is_directory && parts.status.is_success() {
            let directory: serde_json::Value = serde_json::from_slice(&body)?;
            let nonces = directory["newNonce"].as_str().and_then(|url| url.parse().ok());
            host_of(&nonces.ok_or_else(|| io::Error::other("its directory has no URL for newNonce"))?)?;
        }
        Ok(BytesResponse::from(Response::from_parts(parts, Full::new(body))))
    }
}

/// The host and the port of a URL.
fn host_of(uri: &Uri) -> io::Result<(String, u16)> {
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(host)) if !host.is_empty() => Ok((host.to_owned(), uri.port_u16().unwrap_or(443))),
        _ => Err(io::Error::other(format!("\"{uri}\" does not begin with https:// and a host"))),
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let sent = timeout(self.request_time, self.clone().send(request));
        Box::pin(async move {
            let answer = sent.await.unwrap_or_else(|_| Err(io::Error::other("it does not answer in time")));
            answer.map_err(|error| Error::Other(error.into()))
        })
    }
}
