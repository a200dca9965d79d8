//! A client: sessions of operations, lists and flushes.

use std::collections::VecDeque;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status, Streaming};

use crate::convert::{halves, number, params_message};
use crate::core::Params;
use crate::proto::gribi_client::GribiClient;
use crate::proto::{
    Empty, Entry, EntryKind, FlushRequest, GetRequest, ModifyRequest, ModifyResponse, Operation, Result as OfOperation,
    flush_request, operation,
};

/// Connecting may take so long.
const CONNECT: Duration = Duration::from_secs(5);

/// Where a server is, and how to prove who is there.
#[derive(Debug, Clone)]
pub struct Target {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoint: String,
    /// Certificates that an `https://` server is checked with, in PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// Certificate and private key of this client, in PEM.
    pub identity_pem: Option<(Vec<u8>, Vec<u8>)>,
}

/// The reason why something failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// There is no connection.
    #[error("cannot connect to {endpoint}: {reason}")]
    Connect {
        /// The server.
        endpoint: String,
        /// The reason.
        reason: String,
    },
    /// The server refuses, or is gone.
    #[error("{message}")]
    Refused {
        /// What kind of refusal.
        code: Code,
        /// The server's words.
        message: String,
    },
    /// The session has ended.
    #[error("the server has ended the session")]
    Ended,
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        ClientError::Refused { code: status.code(), message: status.message().to_owned() }
    }
}

/// A connection to a server.
#[derive(Debug, Clone)]
pub struct Client {
    grpc: GribiClient<Channel>,
}

/// A session. When it is dropped, it ends.
#[derive(Debug)]
pub struct Session {
    requests: mpsc::Sender<ModifyRequest>,
    responses: Streaming<ModifyResponse>,
    results: VecDeque<OfOperation>,
    next_id: u64,
    election: u128,
    highest: u128,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// There is no server, or it is not who it should be.
    pub async fn connect(target: &Target) -> Result<Client, ClientError> {
        let endpoint = target.endpoint.clone();
        let bad = |error: &dyn std::error::Error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            ClientError::Connect { endpoint: endpoint.clone(), reason: format!("{error}{cause}") }
        };
        let mut transport = Endpoint::from_shared(endpoint.clone()).map_err(|error| bad(&error))?;
        if endpoint.starts_with("https://") {
            let mut tls = ClientTlsConfig::new();
            if let Some(pem) = &target.ca_pem {
                tls = tls.ca_certificate(Certificate::from_pem(pem));
            }
            if let Some((certificate, key)) = &target.identity_pem {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            transport = transport.tls_config(tls).map_err(|error| bad(&error))?;
        }
        let transport = transport.connect_timeout(CONNECT).tcp_nodelay(true).initial_stream_window_size(1 << 20);
        let channel = transport.connect().await.map_err(|error| bad(&error))?;
        Ok(Client { grpc: GribiClient::new(channel) })
    }

    /// Begins a session, and waits until the server has accepted its parameters and told the highest election id: see
    /// [`Session::is_primary`].
    ///
    /// # Errors
    /// The server refuses.
    pub async fn modify(&self, params: Params, election: u128) -> Result<Session, ClientError> {
        let (requests, stream) = mpsc::channel(4);
        let first = ModifyRequest { params: Some(params_message(params)), ..ModifyRequest::default() };
        // There is room for both.
        let _ = requests.try_send(first);
        let _ = requests.try_send(ModifyRequest { election_id: Some(halves(election)), ..ModifyRequest::default() });
        let responses = self.grpc.clone().modify(ReceiverStream::new(stream)).await?.into_inner();
        let results = VecDeque::new();
        let mut session = Session { requests, responses, results, next_id: 1, election, highest: 0 };
        while session.highest == 0 {
            session.receive().await?;
        }
        Ok(session)
    }

    /// All entries of a kind.
    ///
    /// # Errors
    /// The server refuses, or is gone.
    pub async fn get(&self, kind: EntryKind) -> Result<Streaming<crate::proto::GetResponse>, ClientError> {
        Ok(self.grpc.clone().get(GetRequest { kind: kind.into() }).await?.into_inner())
    }

    /// All entries of a kind, in one list.
    ///
    /// # Errors
    /// The server refuses, or is gone.
    pub async fn get_all(&self, kind: EntryKind) -> Result<Vec<Entry>, ClientError> {
        let mut pages = self.get(kind).await?;
        let mut all = Vec::new();
        while let Some(page) = pages.message().await? {
            all.extend(page.entry);
        }
        Ok(all)
    }

    /// Removes everything, and waits until the router has none of it. `None`: whoever is primary.
    ///
    /// # Errors
    /// A higher election id is known, or the server is gone.
    pub async fn flush(&self, election: Option<u128>) -> Result<(), ClientError> {
        let election = match election {
            Some(id) => flush_request::Election::Id(halves(id)),
            None => flush_request::Election::Override(Empty {}),
        };
        self.grpc.clone().flush(FlushRequest { election: Some(election) }).await?;
        Ok(())
    }
}

impl Session {
    /// Whether this client was primary when the server told the election id last.
    pub fn is_primary(&self) -> bool {
        self.election >= self.highest
    }

    /// The highest election id that the server has told.
    pub fn highest(&self) -> u128 {
        self.highest
    }

    /// Tells another election id, and waits for the highest one.
    ///
    /// # Errors
    /// The server refuses, or is gone.
    pub async fn elect(&mut self, election: u128) -> Result<u128, ClientError> {
        self.election = election;
        self.highest = 0;
        self.request(ModifyRequest { election_id: Some(halves(election)), ..ModifyRequest::default() }).await?;
        while self.highest == 0 {
            self.receive().await?;
        }
        Ok(self.highest)
    }

    /// An operation with the next id.
    pub fn operation(&mut self, kind: operation::Kind, entry: operation::Entry) -> Operation {
        let id = self.next_id;
        self.next_id += 1;
        Operation { id, kind: kind.into(), entry: Some(entry), election_id: Some(halves(self.election)) }
    }

    /// Sends operations, at most [`OPERATIONS_MAX`](crate::server::OPERATIONS_MAX) at a time. Results that come meanwhile wait
    /// for [`Session::result`].
    ///
    /// # Errors
    /// The session has ended.
    pub async fn send(&mut self, operations: Vec<Operation>) -> Result<(), ClientError> {
        self.request(ModifyRequest { operation: operations, ..ModifyRequest::default() }).await
    }

    /// Sends a request. Takes results meanwhile: a server that cannot send them does not read on.
    async fn request(&mut self, request: ModifyRequest) -> Result<(), ClientError> {
        let requests = self.requests.clone();
        loop {
            tokio::select! {
                biased;
                permit = requests.reserve() => {
                    if let Ok(permit) = permit {
                        permit.send(request);
                        return Ok(());
                    }
                    // The reason comes as the last response.
                    loop {
                        self.receive().await?;
                    }
                }
                received = self.receive() => received?,
            }
        }
    }

    /// The next result.
    ///
    /// # Errors
    /// The session has ended, for this reason.
    pub async fn result(&mut self) -> Result<OfOperation, ClientError> {
        loop {
            if let Some(result) = self.results.pop_front() {
                return Ok(result);
            }
            self.receive().await?;
        }
    }

    /// A result that has come already.
    pub fn ready(&mut self) -> Option<OfOperation> {
        self.results.pop_front()
    }

    async fn receive(&mut self) -> Result<(), ClientError> {
        let response = self.responses.message().await?.ok_or(ClientError::Ended)?;
        if let Some(election) = response.election_id {
            self.highest = number(election);
        }
        self.results.extend(response.result);
        Ok(())
    }
}
