//! A client of etcd, as far as a fleet needs one: gRPC over HTTP/2, with TLS, and logins by name.
//!
//! A [`Connection`] is to one endpoint. Its user turns to the next one when it fails ([`Endpoints::connect`]): the pauses and
//! what must be read again are different for each user.

mod advice;
pub mod messages;

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use messages::{
    AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveResponse,
    LeaseRequest, LeaseRevokeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
    WatchCreateRequest, WatchRequest, WatchResponse,
};

/// Time to connect to an endpoint.
const CONNECT: Duration = Duration::from_secs(2);
/// Time for an answer. A new leader of etcd is elected meanwhile.
const ANSWER: Duration = Duration::from_secs(5);
/// Largest answer. etcd's own limit of a request is 1.5 MiB, and pages of a read are cut by the number of their keys.
const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Silence after which the connection is tested, and after which it counts as broken.
const PING: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(3));

/// Where etcd is, and how to log in.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// Endpoints, such as `http://127.0.0.1:2379` or `https://etcd.example:2379`.
    pub endpoints: Vec<String>,
    /// User and password.
    pub user: Option<(String, String)>,
    /// Certificates to trust, in PEM. They are needed for `https`.
    pub ca_pem: Option<Vec<u8>>,
    /// The client's certificate and key, in PEM.
    pub identity_pem: Option<(Vec<u8>, Vec<u8>)>,
}

/// The reason why etcd did not answer, or refused.
#[derive(Debug, Error)]
pub enum EtcdError {
    /// An endpoint is not a URL, or TLS cannot be set up.
    #[error("cannot use the etcd endpoint {endpoint}: {reason}")]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// The reason.
        reason: String,
    },
    /// There was no connection.
    #[error("cannot connect to etcd at {endpoint}: {reason}")]
    Connect {
        /// The endpoint.
        endpoint: String,
        /// The reason.
        reason: String,
    },
    /// etcd refused, or the connection broke.
    #[error("etcd at {endpoint}: {reason}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// The reason.
        reason: String,
        /// Kind of refusal.
        code: Code,
    },
    /// The revision exists no more.
    #[error("etcd at {endpoint} has compacted this revision")]
    Compacted {
        /// The endpoint.
        endpoint: String,
    },
}

/// The endpoints of etcd, in turn.
#[derive(Debug)]
pub struct Endpoints {
    login: Login,
    next: usize,
}

impl Endpoints {
    /// These endpoints.
    pub fn new(login: Login) -> Self {
        Endpoints::from_place(login, 0)
    }

    /// These endpoints, beginning at one of them: many clients with the same list should not all use the first one.
    pub fn from_place(login: Login, place: usize) -> Self {
        Endpoints { login, next: place }
    }

    /// Number of endpoints.
    pub fn count(&self) -> usize {
        self.login.endpoints.len()
    }

    /// Connects to the next endpoint, and logs in.
    ///
    /// # Errors
    /// This endpoint cannot be reached, or refuses the user.
    pub async fn connect(&mut self) -> Result<Connection, EtcdError> {
        let endpoint = self.login.endpoints.get(self.next % self.count().max(1)).cloned().unwrap_or_default();
        self.next = self.next.wrapping_add(1);
        Connection::open(&self.login, endpoint).await
    }

    /// Connects to the first endpoint that answers.
    ///
    /// # Errors
    /// None does. This is the last one's reason.
    pub async fn connect_any(&mut self) -> Result<Connection, EtcdError> {
        let mut result = self.connect().await;
        for _ in 1..self.count() {
            if result.is_ok() {
                break;
            }
            result = self.connect().await;
        }
        result
    }
}

/// A connection to one endpoint. Clones share it.
#[derive(Debug, Clone)]
pub struct Connection {
    endpoint: String,
    grpc: Grpc<Channel>,
    token: Option<AsciiMetadataValue>,
}

/// A watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    connection: Connection,
    /// Ends the stream when it is dropped.
    _requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

/// A lease that is kept alive while this exists and [`Lease::renew`] is called.
#[derive(Debug, Clone)]
pub struct Lease {
    connection: Connection,
    /// Its number.
    pub id: i64,
}

impl Connection {
    async fn open(login: &Login, endpoint: String) -> Result<Self, EtcdError> {
        let bad =
            |error: &dyn std::error::Error| EtcdError::Endpoint { endpoint: endpoint.clone(), reason: text(error) };
        let mut transport = Endpoint::from_shared(endpoint.clone()).map_err(|error| bad(&error))?;
        if endpoint.starts_with("https://") {
            let mut tls = ClientTlsConfig::new();
            if let Some(pem) = &login.ca_pem {
                tls = tls.ca_certificate(Certificate::from_pem(pem));
            }
            if let Some((certificate, key)) = &login.identity_pem {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            transport = transport.tls_config(tls).map_err(|error| bad(&error))?;
        }
        let transport = transport
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1)
            .keep_alive_while_idle(true);
        let connecting = tokio::time::timeout(CONNECT, transport.connect()).await;
        let unreachable =
            |reason: String| EtcdError::Connect { endpoint: endpoint.clone(), reason: advice::with_advice(reason) };
        let channel = match connecting {
            Ok(result) => result.map_err(|error| unreachable(text(&error)))?,
            Err(_) => return Err(unreachable(format!("no answer within {} s", CONNECT.as_secs()))),
        };
        let grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let mut connection = Connection { endpoint, grpc, token: None };
        if let Some((name, password)) = &login.user {
            let request = AuthenticateRequest { name: name.clone(), password: password.clone() };
            let answer: AuthenticateResponse = connection.call("/etcdserverpb.Auth/Authenticate", request).await?;
            connection.token = answer.token.parse().ok();
        }
        Ok(connection)
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Reads keys, with a linearized read.
    ///
    /// # Errors
    /// There is no answer, or a refusal.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        self.call("/etcdserverpb.KV/Range", request).await
    }

    /// Reads keys, with a linearized read that takes at most so long.
    ///
    /// # Errors
    /// There is no answer in this time, or a refusal.
    pub async fn range_within(&self, request: RangeRequest, time: Duration) -> Result<RangeResponse, EtcdError> {
        let range = tokio::time::timeout(time, self.range(request)).await;
        range.unwrap_or_else(|_| Err(self.silent(time)))
    }

    /// Reads all keys that begin with `prefix`, in pages, all as they were at one revision. Returns it.
    ///
    /// # Errors
    /// There is no answer, or a refusal; or the revision was compacted meanwhile.
    pub async fn read_all(&self, prefix: &[u8], keys_max: usize) -> Result<RangeResponse, EtcdError> {
        const PAGE: i64 = 1_000;
        let range_end = crate::key::range_end(prefix);
        let mut request = RangeRequest { key: prefix.to_vec(), range_end, limit: PAGE, revision: 0 };
        let mut all = RangeResponse::default();
        loop {
            let page = self.range(request.clone()).await?;
            if all.header.is_none() {
                request.revision = page.header.as_ref().map_or(0, |header| header.revision);
                all.header = page.header;
            }
            let last = page.kvs.last().map(|kv| kv.key.clone());
            all.kvs.extend(page.kvs);
            match last {
                // One more than there may be is enough to see that there are too many.
                Some(mut last) if page.more && all.kvs.len() <= keys_max => {
                    last.push(0);
                    request.key = last;
                }
                _ => return Ok(all),
            }
        }
    }

    /// Writes a key.
    ///
    /// # Errors
    /// There is no answer, or a refusal.
    pub async fn put(&self, key: Vec<u8>, value: Vec<u8>, lease: i64) -> Result<PutResponse, EtcdError> {
        self.call("/etcdserverpb.KV/Put", PutRequest { key, value, lease }).await
    }

    /// Carries out a transaction.
    ///
    /// # Errors
    /// There is no answer, or a refusal.
    pub async fn transaction(&self, request: TxnRequest) -> Result<TxnResponse, EtcdError> {
        self.call("/etcdserverpb.KV/Txn", request).await
    }

    /// Watches all keys that begin with `prefix`, from this revision.
    ///
    /// # Errors
    /// There is no answer, or a refusal.
    pub async fn watch(&self, prefix: &[u8], start_revision: i64) -> Result<Watch, EtcdError> {
        let (requests, stream) = mpsc::channel(1);
        let create =
            WatchCreateRequest { key: prefix.to_vec(), range_end: crate::key::range_end(prefix), start_revision };
        // There is room for one.
        let _ = requests.try_send(WatchRequest { create: Some(create) });
        let mut grpc = self.ready().await?;
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let request = self.request(ReceiverStream::new(stream));
        let responses = self.in_time(grpc.streaming(request, path, codec)).await?.into_inner();
        Ok(Watch { connection: self.clone(), _requests: requests, responses })
    }

    /// Gets a lease for so many seconds.
    ///
    /// # Errors
    /// There is no answer, or a refusal.
    pub async fn lease(&self, ttl: Duration) -> Result<Lease, EtcdError> {
        let request = LeaseGrantRequest { ttl: i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX) };
        let granted: LeaseGrantResponse = self.call("/etcdserverpb.Lease/LeaseGrant", request).await?;
        Ok(Lease { connection: self.clone(), id: granted.id })
    }

    /// Ends a lease, and deletes the keys that have it.
    ///
    /// # Errors
    /// There is no answer, or a refusal.
    pub async fn revoke(&self, lease: i64) -> Result<(), EtcdError> {
        self.call("/etcdserverpb.Lease/LeaseRevoke", LeaseRequest { id: lease }).await.map(|_: LeaseRevokeResponse| ())
    }

    /// A lease that another connection has got. It may have ended.
    pub fn resume_lease(&self, id: i64) -> Lease {
        Lease { connection: self.clone(), id }
    }

    async fn call<M, A>(&self, path: &'static str, message: M) -> Result<A, EtcdError>
    where
        M: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<M, A>::default();
        let call = grpc.unary(self.request(message), PathAndQuery::from_static(path), codec);
        Ok(self.in_time(call).await?.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, EtcdError> {
        let mut grpc = self.grpc.clone();
        match grpc.ready().await {
            Ok(()) => Ok(grpc),
            Err(error) => Err(self.refused(Status::unavailable(text(&error)))),
        }
    }

    fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    async fn in_time<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, EtcdError> {
        match tokio::time::timeout(ANSWER, call).await {
            Ok(result) => result.map_err(|status| self.refused(status)),
            Err(_) => Err(self.silent(ANSWER)),
        }
    }

    fn silent(&self, time: Duration) -> EtcdError {
        self.refused(Status::deadline_exceeded(format!("no answer within {} s", time.as_secs())))
    }

    fn refused(&self, status: Status) -> EtcdError {
        let endpoint = self.endpoint.clone();
        match status.code() {
            Code::OutOfRange if status.message().contains("compacted") => EtcdError::Compacted { endpoint },
            code => {
                // Without a message of etcd, there may be a cause.
                let reason = std::error::Error::source(&status).map_or_else(|| status.message().to_owned(), text);
                EtcdError::Refused { endpoint, reason: advice::with_advice(reason), code }
            }
        }
    }
}

impl Watch {
    /// Waits for the next changes. They come in the order in which they happened, and those of one revision together.
    ///
    /// # Errors
    /// The connection is gone, or the watch has ended: then all must be read again if the reason is
    /// [`EtcdError::Compacted`].
    pub async fn next(&mut self) -> Result<WatchResponse, EtcdError> {
        let refused = |status| self.connection.refused(status);
        let response = match self.responses.message().await.map_err(refused)? {
            Some(response) => response,
            None => return Err(self.connection.refused(Status::unavailable("it ended the watch"))),
        };
        if response.compact_revision != 0 {
            return Err(EtcdError::Compacted { endpoint: self.connection.endpoint.clone() });
        }
        if response.canceled {
            return Err(self.connection.refused(Status::aborted(response.cancel_reason)));
        }
        Ok(response)
    }
}

impl Lease {
    /// Renews the lease. Returns whether it still exists.
    ///
    /// # Errors
    /// There is no answer, or a refusal.
    pub async fn renew(&self) -> Result<bool, EtcdError> {
        let connection = &self.connection;
        let mut grpc = connection.ready().await?;
        let codec = ProstCodec::<LeaseRequest, LeaseKeepAliveResponse>::default();
        let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
        let request = connection.request(tokio_stream::once(LeaseRequest { id: self.id }));
        let answered = async {
            let mut answers = grpc.streaming(request, path, codec).await?.into_inner();
            answers.message().await
        };
        let answer = connection.in_time(answered).await?;
        Ok(answer.is_some_and(|answer| answer.ttl > 0))
    }

    /// Ends the lease, and deletes the keys that have it.
    ///
    /// # Errors
    /// There is no answer, or a refusal.
    pub async fn revoke(&self) -> Result<(), EtcdError> {
        self.connection.revoke(self.id).await
    }
}

/// An error with its causes, which tonic leaves out.
fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}
