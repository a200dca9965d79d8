//! The thread: its runtime, its listeners, and what the other threads ask of it.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use byname_face::stream::{Call, CallThread, Door};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::certificate::{Certificate, CertificateError, Current, Files, Fingerprint, Summary};
use crate::peers::Known;
use crate::quic::Quic;
use crate::tls::Tls;

/// Calls that may wait for the thread.
const CALLS_MAX: usize = 256;
/// Connections that the thread has made at most, for each protocol.
const OUTGOING_MAX: usize = 1024;
/// How often the age of the certificate is looked at.
const AGE_INTERVAL: Duration = Duration::from_secs(3600);

/// Limits on peers.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most handshakes at a time on one listener. The oldest makes room for the next.
    pub handshakes_max: usize,
    /// How long a handshake may take.
    pub handshake_time: Duration,
    /// How long a peer may take nothing of what waits for it.
    pub stall_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            handshakes_max: 256,
            handshake_time: Duration::from_secs(8),
            stall_time: Duration::from_secs(10),
        }
    }
}

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
    /// Certificates of routers that faces may connect to.
    pub trusted: Vec<Fingerprint>,
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

/// A thread that serves encrypted faces until this is dropped.
pub struct Secure {
    current: Arc<Current>,
    known: Arc<Known>,
    names: Vec<String>,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Secure {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there is no certificate, or the system does not let the thread serve these sockets.
    pub fn start(config: SecureConfig) -> Result<Self, StartError> {
        let SecureConfig { files, names, trusted, tls, quic, limits } = config;
        let certificate = match &files {
            Some(files) => Certificate::read(files)?,
            None => Certificate::make(&names, SystemTime::now())?,
        };
        let current = Arc::new(Current::new(certificate));
        let known = Arc::new(Known::new(trusted));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let mut tasks = JoinSet::new();
        let context = runtime.enter();
        let of_tls = Arc::new(Tls::new(&current, &known, tls.door, limits)?);
        for listener in tls.listeners {
            listener.set_nonblocking(true)?;
            let local = listener.local_addr()?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tasks.spawn_on(Arc::clone(&of_tls).listen(listener, local), runtime.handle());
        }
        let of_quic = Arc::new(Quic::new(&known, quic.door, limits));
        let mut endpoints = Vec::new();
        for socket in quic.listeners {
            let (endpoint, local) = of_quic.endpoint(socket, &current)?;
            endpoints.push(Arc::clone(&endpoint));
            tasks.spawn_on(Arc::clone(&of_quic).listen(endpoint, local), runtime.handle());
        }
        drop(context);
        let connect = move |call| Arc::clone(&of_tls).connect(call);
        tasks.spawn_on(make_calls(tls.calls, connect), runtime.handle());
        let connect = move |call| Arc::clone(&of_quic).connect(call);
        tasks.spawn_on(make_calls(quic.calls, connect), runtime.handle());
        tasks.spawn_on(renew(Arc::clone(&current), names.clone()), runtime.handle());

        let (end, mut ended) = watch::channel(false);
        let serve = async move {
            // An error means that this side is gone, too.
            let _ = ended.changed().await;
            drop(tasks);
            for endpoint in endpoints {
                endpoint.close(0u32.into(), b"the router ends");
                // Peers hear of the end at once, or else after some time.
                let _ = tokio::time::timeout(Duration::from_millis(100), endpoint.wait_idle()).await;
            }
        };
        let thread =
            std::thread::Builder::new().name("byname-secure".into()).spawn(move || runtime.block_on(serve))?;
        Ok(Secure { current, known, names, end, thread: Some(thread) })
    }

    /// Changes the certificate for connections to come, and the routers that faces may connect to. Others stay.
    ///
    /// # Errors
    /// If there is no such certificate. Then nothing has changed.
    pub fn reload(&self, files: Option<&Files>, trusted: Vec<Fingerprint>) -> Result<(), CertificateError> {
        match files {
            Some(files) => self.current.set(Certificate::read(files)?),
            None if self.current.is_made_here() => {}
            None => self.current.set(Certificate::make(&self.names, SystemTime::now())?),
        }
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

    /// The thread, for a caller that watches whether it ends by itself. After this call, dropping this only tells the
    /// thread to end; the caller joins it.
    pub fn take_thread(&mut self) -> Option<JoinHandle<()>> {
        self.thread.take()
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = self.end.send(true);
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

/// Replaces a certificate that was made here, in time.
async fn renew(current: Arc<Current>, names: Vec<String>) {
    loop {
        tokio::time::sleep(AGE_INTERVAL).await;
        let now = SystemTime::now();
        if !current.is_old(now) {
            continue;
        }
        match Certificate::make(&names, now) {
            Ok(certificate) => {
                current.set(certificate);
                let fingerprint = current.summary().fingerprint;
                tracing::info!(%fingerprint, base64 = fingerprint.base64(), "a new certificate was made");
            }
            Err(error) => tracing::error!("the certificate will end soon: {error}"),
        }
    }
}
