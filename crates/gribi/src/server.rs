//! The server: gRPC on one side, and the router on the other.
//!
//! Both share the [core](crate::core). Each session has a task, which reads requests, and writes results. It does not read
//! while too many operations wait for the router, or while the client does not take its results: so memory is bounded, and the
//! client slows down.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use byname_client::transport::Transport;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};
use tracing::info;

use crate::connections;
use crate::convert;
use crate::core::{CloseReason, Core, Cursor, Key, Limits, SessionId};
use crate::proto::gribi_server::{Gribi, GribiServer};
use crate::proto::{
    EntryKind, FlushRequest, FlushResponse, GetRequest, GetResponse, ModifyRequest, ModifyResponse, Operation,
    flush_request,
};
use crate::router;
use crate::shared::{Outgoing, Shared, lock, now_ns};

/// Most operations in one request.
pub const OPERATIONS_MAX: usize = 16_384;
/// Most bytes of a request.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Entries in one response to `Get`.
const PAGE: usize = 1_000;
/// Calls that one connection may have at a time.
const CALLS_MAX: usize = 32;
/// After so long without a sign of life, the server asks a connection for one, and then waits so long for it.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));

/// A handshake of TLS may take so long.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// TLS of the server, in PEM.
#[derive(Clone)]
pub struct ServerTls {
    /// The server's certificate, and those that have signed it.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
    /// Clients must have a certificate that one of these has signed.
    pub client_ca: Option<Vec<u8>>,
}

/// Settings of a server.
#[derive(Clone)]
pub struct ServeOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// `None`: without TLS, which only loopback addresses may be.
    pub tls: Option<ServerTls>,
    /// Where the router is: addresses to try in turn.
    pub router: Vec<Transport>,
    /// How often the server compares the router with what it knows.
    pub compare: Duration,
    /// See [`Limits`].
    pub limits: Limits,
}

/// The server cannot begin.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Strangers could change routes.
    #[error(
        "{0} is not a loopback address: clients there need TLS with certificates of their own (a certificate, its key, and the \
         authority of clients)"
    )]
    Open(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    /// The certificates cannot be used, or serving has failed.
    #[error("cannot serve: {0}")]
    Serve(String),
}

/// Serves until `stop` is ready.
///
/// # Errors
/// The server cannot begin.
///
/// # Panics
/// Outside of a tokio runtime with I/O and time.
pub async fn serve(options: ServeOptions, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
    let (listen, tls) = (options.listen, options.tls.clone());
    let is_safe = listen.ip().is_loopback() || tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    if !is_safe {
        return Err(ServeError::Open(listen));
    }
    let listener = TcpListener::bind(listen).await.map_err(|error| ServeError::Listen(listen, error))?;
    let bound = listener.local_addr().map_err(|error| ServeError::Listen(listen, error))?;
    let waiting_max = options.limits.waiting_max;
    let shared = Arc::new(Shared::new(Core::new(options.limits, 0), options.router, options.compare));
    let refused = |error: tonic::transport::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        ServeError::Serve(format!("{error}{cause}"))
    };
    let mut builder = Server::builder()
        .concurrency_limit_per_connection(CALLS_MAX)
        .max_concurrent_streams(CALLS_MAX as u32)
        .http2_keepalive_interval(Some(PING.0))
        .http2_keepalive_timeout(Some(PING.1))
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .tcp_nodelay(true);
    if let Some(tls) = tls {
        let mut config =
            ServerTlsConfig::new().timeout(HANDSHAKE).identity(Identity::from_pem(tls.certificate, tls.key));
        if let Some(ca) = tls.client_ca {
            config = config.client_ca_root(Certificate::from_pem(ca));
        }
        builder = builder.tls_config(config).map_err(refused)?;
    }
    let service =
        GribiServer::new(Service { shared: shared.clone(), waiting_max }).max_decoding_message_size(REQUEST_BYTES_MAX);
    info!("clients are served on {bound}");
    let serving = builder.add_service(service).serve_with_incoming(connections::accepted(listener));
    tokio::select! {
        served = serving => served.map_err(refused),
        () = router::serve(&shared) => Ok(()),
        () = stop => Ok(()),
    }
}

/// The methods of the service.
struct Service {
    shared: Arc<Shared>,
    /// See [`SessionTask`].
    waiting_max: usize,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Gribi for Service {
    type ModifyStream = Answers<ModifyResponse>;
    type GetStream = Answers<GetResponse>;

    async fn modify(&self, request: Request<Streaming<ModifyRequest>>) -> Result<Response<Self::ModifyStream>, Status> {
        let outgoing = Arc::new(Outgoing::default());
        let id = {
            let mut state = lock(&self.shared.state);
            let id = state.core.open().map_err(status)?;
            state.sessions.insert(id, outgoing.clone());
            id
        };
        // One response is on its way, and one waits.
        let (sender, responses) = mpsc::channel(1);
        let session = SessionTask { shared: self.shared.clone(), waiting_max: self.waiting_max, id, outgoing, sender };
        tokio::spawn(session.run(request.into_inner()));
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        let kind = EntryKind::try_from(request.get_ref().kind)
            .map_err(|_| Status::invalid_argument("this server knows no such kind of entries"))?;
        let (sender, responses) = mpsc::channel(1);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            let mut next = Some(first(kind));
            while let Some(cursor) = next {
                let is_asked = |key: &Key| match key {
                    Key::Prefix(_) => matches!(kind, EntryKind::All | EntryKind::Prefix),
                    Key::Flat(_) => matches!(kind, EntryKind::All | EntryKind::Flat),
                    Key::Tags(_) => matches!(kind, EntryKind::All | EntryKind::Tags),
                    Key::Label(_) => false,
                };
                let (listed, rest) = shared.ask(|core, _| core.list(cursor.clone(), is_asked, PAGE));
                next = rest.or_else(|| following(kind, &cursor));
                if listed.is_empty() {
                    continue;
                }
                let entry = listed.into_iter().map(convert::listed).collect();
                if sender.send(Ok(GetResponse { entry })).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }

    async fn flush(&self, request: Request<FlushRequest>) -> Result<Response<FlushResponse>, Status> {
        let election = match request.into_inner().election {
            Some(flush_request::Election::Id(id)) => Some(convert::number(id)),
            Some(flush_request::Election::Override(_)) => None,
            None => {
                return Err(Status::failed_precondition("a flush needs an election id, or must override the election"));
            }
        };
        let (sender, done) = oneshot::channel();
        {
            let mut state = lock(&self.shared.state);
            let number = state.core.flush(election).map_err(|highest| {
                Status::failed_precondition(format!("the highest election id is {highest}: only its client may flush"))
            })?;
            state.flushes.insert(number, sender);
            state.dispatch();
        }
        self.shared.work.notify_one();
        done.await.map_err(|_| Status::aborted("the server ends"))?;
        Ok(Response::new(FlushResponse { timestamp_ns: now_ns() }))
    }
}

fn first(kind: EntryKind) -> Cursor {
    match kind {
        EntryKind::All | EntryKind::NextHop => Cursor::NextHops(0),
        EntryKind::NextHopGroup => Cursor::Groups(0),
        EntryKind::Prefix | EntryKind::Flat | EntryKind::Tags => Cursor::Entries(None),
    }
}

/// What comes after the end of a table.
fn following(kind: EntryKind, done: &Cursor) -> Option<Cursor> {
    match (kind, done) {
        (EntryKind::All, Cursor::NextHops(_)) => Some(Cursor::Groups(0)),
        (EntryKind::All, Cursor::Groups(_)) => Some(Cursor::Entries(None)),
        _ => None,
    }
}

fn status(reason: CloseReason) -> Status {
    let words = reason.to_string();
    match reason {
        CloseReason::TooMany(_) => Status::resource_exhausted(words),
        CloseReason::ParamsTooLate | CloseReason::ParamsDiffer(_) => Status::failed_precondition(words),
        CloseReason::NoElectionId | CloseReason::ElectionBackwards { .. } => Status::invalid_argument(words),
    }
}

/// The task of a session.
struct SessionTask {
    shared: Arc<Shared>,
    /// Requests are not read while more operations wait.
    waiting_max: usize,
    id: SessionId,
    outgoing: Arc<Outgoing>,
    sender: mpsc::Sender<Result<ModifyResponse, Status>>,
}

impl SessionTask {
    async fn run(self, requests: Streaming<ModifyRequest>) {
        self.serve(requests).await;
        let mut state = lock(&self.shared.state);
        state.sessions.remove(&self.id);
        state.core.closed(self.id);
        state.dispatch();
        drop(state);
        self.shared.work.notify_one();
    }

    async fn serve(&self, mut requests: Streaming<ModifyRequest>) {
        let waiting_max = self.waiting_max;
        // Whether the client may have more to ask.
        let mut is_open = true;
        loop {
            loop {
                let (next, end) = {
                    let mut queue = lock(&self.outgoing.queue);
                    (queue.responses.pop_front(), queue.end)
                };
                match (next, end) {
                    // While the client does not take this, nothing is read.
                    (Some(response), _) => {
                        if self.sender.send(Ok(response)).await.is_err() {
                            return;
                        }
                    }
                    (None, Some(reason)) => return drop(self.sender.send(Err(status(reason))).await),
                    (None, None) => break,
                }
            }
            let waiting = self.shared.ask(|core, _| core.waiting(self.id));
            if !is_open && waiting == 0 && lock(&self.outgoing.queue).responses.is_empty() {
                return;
            }
            tokio::select! {
                () = self.outgoing.news.notified() => {}
                () = self.sender.closed() => return,
                request = requests.message(), if is_open && waiting < waiting_max => match request {
                    Ok(Some(request)) => {
                        if let Err(status) = self.take(request) {
                            return drop(self.sender.send(Err(status)).await);
                        }
                    }
                    Ok(None) => is_open = false,
                    Err(_) => return,
                },
            }
        }
    }

    /// Passes a request to the core.
    fn take(&self, request: ModifyRequest) -> Result<(), Status> {
        let id = self.id;
        if request.operation.len() > OPERATIONS_MAX {
            let words = format!("a request has at most {OPERATIONS_MAX} operations");
            return Err(Status::invalid_argument(words));
        }
        let params = request.params.as_ref().map(convert::params).transpose().map_err(Status::unimplemented)?;
        // Names are parsed before the lock is taken.
        let understood = |operation: Operation| {
            let of_client = operation.id;
            convert::operation(operation).map_err(|why| (of_client, why))
        };
        let operations: Vec<_> = request.operation.into_iter().map(understood).collect();
        self.shared.tell(|core, _| {
            if let Some(params) = params {
                core.params(id, params);
            }
            if let Some(election) = request.election_id {
                core.election(id, convert::number(election));
            }
            for operation in operations {
                match operation {
                    Ok(operation) => core.operation(id, operation),
                    Err((of_client, why)) => core.malformed(id, of_client, why),
                }
            }
        });
        Ok(())
    }
}
