//! The thread: its runtime, its listeners, and what the other threads ask of it.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use byname_face::stream::{Call, CallThread, Door};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::acme::{self, AcmeConfig};
use crate::certificate::{CertificateError, Current, Files, Summary};
use crate::limits::Limits;
use crate::peers::{Known, Trusted};
use crate::quic::Quic;
use crate::shared::Shared;
use crate::tls::Tls;

/// Calls that may wait for the thread.
const CALLS_MAX: usize = 256;
/// Connections that the thread has made at most, for each protocol.
const OUTGOING_MAX: usize = 1024;
/// How long peers over QUIC have for hearing of the end.
const CLOSING_TIME: Duration = Duration::from_millis(50);
/// How long a process that ends at once waits for that.
const FAREWELL_TIME: Duration = Duration::from_millis(300);
/// How often the age of the certificate, and its files, are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(20);

/// Calls of the ports of one protocol.
pub struct Calls(mpsc::Receiver<Call>);

/// A way from ports to the thread, for `StreamPort::behind_door`, and the thread's end of it.
pub fn calls() -> (CallThread, Calls) {
    let (sender, receiver) = mpsc::channel(CALLS_MAX);
    let call = move |call: Call| {
        sender.try_send(call).map_err(|_| io::Error::other("too many connections are being made already"))
    };
    (Arc::new(call), Calls(receiver))
}

/// One protocol.
pub struct Service<L> {
    /// Its listeners, which may be none.
    pub listeners: Vec<L>,
    /// The way to its ports.
    pub door: Door,
    /// The way back.
    pub calls: Calls,
}

/// What the thread does.
pub struct SecureConfig {
    /// The certificate. `None`: it is made here, and replaced in time.
    pub files: Option<Files>,
    /// Names and addresses for a certificate that is made here.
    pub names: Vec<String>,
    /// An authority that gives certificates. It has no part if `files` are given.
    pub acme: Option<AcmeConfig>,
    /// Routers that faces may connect to.
    pub trusted: Trusted,
    /// Whether those that are not of the network may connect over QUIC.
    pub quic_strangers: bool,
    /// WebSocket over TLS.
    pub tls: Service<TcpListener>,
    /// WebTransport over HTTP/3.
    pub quic: Service<UdpSocket>,
    /// Limits on peers.
    pub limits: Limits,
}

/// Why the thread could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// There is no certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS refuses its settings.
    #[error("TLS cannot be used: {0}")]
    Tls(#[from] rustls::Error),
    /// The system refuses something.
    #[error("encrypted faces cannot be served: {0}")]
    System(#[from] io::Error),
}

/// What the thread is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing: another process may have the sockets still.
    Waits,
    /// To serve.
    Serves,
    /// To end.
    Ends,
}

/// A thread that serves encrypted faces until this is dropped.
pub struct Secure {
    current: Arc<Current>,
    known: Arc<Known>,
    phase: watch::Sender<Phase>,
    thread: Option<JoinHandle<()>>,
}

impl Secure {
    /// Starts the thread, which does nothing before [`Secure::serve`].
    ///
    /// # Errors
    /// If there is no certificate, or the system does not let the thread serve these sockets.
    pub fn start(config: SecureConfig) -> Result<Self, StartError> {
        let SecureConfig { files, names, acme, trusted, quic_strangers, tls, quic, limits } = config;
        let current = Arc::new(Current::open(files, names, SystemTime::now())?);
        let kept = acme.as_ref().and_then(|acme| acme::kept(acme, SystemTime::now()));
        kept.into_iter().for_each(|certificate| current.adopt(certificate));
        let known = Arc::new(Known::new(trusted));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let shared = Shared { current: Arc::clone(&current), known: Arc::clone(&known), limits };
        let of_tls = Arc::new(Tls::new(shared.clone(), tls.door)?);
        let of_quic = Arc::new(Quic::new(shared, quic.door, quic_strangers)?);
        let (phase, mut told) = watch::channel(Phase::Waits);
        let watched = Arc::clone(&current);
        let serve = async move {
            // An error means that this side is gone, too.
            if !told.wait_for(|phase| *phase != Phase::Waits).await.is_ok_and(|phase| *phase == Phase::Serves) {
                return;
            }
            let mut tasks = JoinSet::new();
            for listener in tls.listeners {
                tasks.spawn(Arc::clone(&of_tls).listen(listener));
            }
            let mut endpoints = Vec::new();
            for socket in quic.listeners {
                match of_quic.endpoint(socket) {
                    Ok((endpoint, local)) => {
                        endpoints.push(Arc::clone(&endpoint));
                        tasks.spawn(Arc::clone(&of_quic).listen(endpoint, local));
                    }
                    Err(error) => tracing::error!("QUIC is not served: {error}"),
                }
            }
            tasks.spawn(make_calls(tls.calls, move |call| Arc::clone(&of_tls).connect(call)));
            tasks.spawn(make_calls(quic.calls, move |call| Arc::clone(&of_quic).connect(call)));
            tasks.spawn(keep_current(Arc::clone(&watched)));
            if let Some(acme) = acme {
                tasks.spawn(acme::keep(acme, acme::Bounds::default(), watched));
            }
            let _ = told.wait_for(|phase| *phase == Phase::Ends).await;
            drop(tasks);
            for endpoint in endpoints {
                endpoint.close(0u32.into(), b"the router ends");
                // Peers hear of the end at once, or else after some time.
                let _ = tokio::time::timeout(CLOSING_TIME, endpoint.wait_idle()).await;
            }
        };
        let thread = std::thread::Builder::new().name("byname-secure".into()).spawn(move || runtime.block_on(serve))?;
        Ok(Secure { current, known, phase, thread: Some(thread) })
    }

    /// Lets the thread serve its sockets. A process that takes over from another calls this when that does not serve them
    /// any more: a datagram reaches only one of the processes.
    pub fn serve(&self) {
        let _ = self.phase.send(Phase::Serves);
    }

    /// Changes the certificate for connections to come, and the routers that faces may connect to. Others stay.
    ///
    /// # Errors
    /// If there is no such certificate. Then nothing has changed.
    pub fn reload(&self, files: Option<Files>, trusted: Trusted) -> Result<(), CertificateError> {
        self.current.reload(files, SystemTime::now())?;
        self.known.set(trusted);
        Ok(())
    }

    /// The certificate of the moment.
    pub fn summary(&self) -> Summary {
        self.current.summary()
    }

    /// Tells of the certificate of the moment, for another thread.
    pub fn teller(&self) -> impl Fn() -> Summary + Send + Sync + 'static {
        let current = Arc::clone(&self.current);
        move || current.summary()
    }

    /// A way to end the thread from another one.
    pub fn farewell(&self) -> Farewell {
        Farewell(self.phase.clone())
    }

    /// The thread, for a caller that watches whether it ends by itself. After this call, dropping this only tells the
    /// thread to end; the caller joins it.
    pub fn take_thread(&mut self) -> Option<JoinHandle<()>> {
        self.thread.take()
    }
}

/// Ends the thread from another one.
#[derive(Clone)]
pub struct Farewell(watch::Sender<Phase>);

impl Farewell {
    /// Lets peers over QUIC know that their connections end, and waits a short time until they have been told. A process
    /// calls this before it ends without dropping [`Secure`]; otherwise they would wait for a sign of it.
    pub fn say(&self) {
        let _ = self.0.send(Phase::Ends);
        let until = Instant::now() + FAREWELL_TIME;
        while !self.0.is_closed() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = self.phase.send(Phase::Ends);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread for encrypted faces has panicked");
        }
    }
}

/// Serves the connections that ports ask for, each in a task of its own.
async fn make_calls<F>(Calls(mut calls): Calls, connect: impl Fn(Call) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            Some(call) = calls.recv() => {
                // Dropping a call tells its port that nobody connects.
                if tasks.len() < OUTGOING_MAX {
                    tasks.spawn(connect(call));
                }
            }
            Some(_) = tasks.join_next() => {}
            else => return,
        }
    }
}

/// Replaces the certificate when that is due.
async fn keep_current(current: Arc<Current>) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        match current.look(SystemTime::now()) {
            Ok(false) => {}
            Ok(true) => {
                let fingerprint = current.summary().fingerprint;
                tracing::info!(%fingerprint, base64 = fingerprint.base64(), "another certificate is in use");
            }
            Err(error) => {
                current.count_failure();
                tracing::error!("the former certificate stays in use: {error}");
            }
        }
    }
}
