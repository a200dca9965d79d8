//! The thread: its runtime, accepting connections, and the limit on them.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::connection::{self, Shared};
use crate::dashboard::DashboardConfig;
use crate::limits::Limits;
use crate::metrics::Tell;
use crate::probes::Probes;
use crate::router::Router;

/// How long to wait before accepting again when the system has no descriptor or memory left.
const PAUSE: Duration = Duration::from_millis(100);

/// Why the server could not start.
#[derive(Debug, Error)]
#[error("cannot serve HTTP on {address}: {error}")]
pub struct StartError {
    /// Address to listen on.
    pub address: SocketAddr,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

/// A thread that serves HTTP until this is dropped.
pub struct WebServer {
    address: SocketAddr,
    listener: std::net::TcpListener,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl WebServer {
    /// Listens on `address` (port 0: any free port), and serves snapshots from `ask`, and the answers of `probes`. `ask`
    /// must not wait. It returns false if no snapshot will come.
    ///
    /// # Errors
    /// If the address cannot be listened on, or the system provides no thread.
    pub fn start(
        address: SocketAddr,
        ask: impl Fn(Tell) -> bool + Send + Sync + 'static,
        probes: Probes,
    ) -> Result<Self, StartError> {
        Self::start_on(address, None, ask, probes, None)
    }

    /// Like [`WebServer::start`], on a listener for this address that another process had, if there is one, and with a
    /// dashboard, if it is wanted.
    ///
    /// # Errors
    /// As [`WebServer::start`].
    pub fn start_on(
        address: SocketAddr,
        listener: Option<std::net::TcpListener>,
        ask: impl Fn(Tell) -> bool + Send + Sync + 'static,
        probes: Probes,
        dashboard: Option<DashboardConfig>,
    ) -> Result<Self, StartError> {
        Self::start_with(address, listener, ask, (probes, dashboard), Limits::default())
    }

    pub(crate) fn start_with(
        address: SocketAddr,
        listener: Option<std::net::TcpListener>,
        ask: impl Fn(Tell) -> bool + Send + Sync + 'static,
        (probes, dashboard): (Probes, Option<DashboardConfig>),
        limits: Limits,
    ) -> Result<Self, StartError> {
        let fail = |error| StartError { address, error };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(fail)?;
        let listener = listener.map_or_else(|| std::net::TcpListener::bind(address), Ok).map_err(fail)?;
        let bound = listener.local_addr().map_err(fail)?;
        let kept = listener.try_clone().map_err(fail)?;
        let listener = listen(&runtime, listener).map_err(fail)?;
        let (end, ended) = watch::channel(false);
        let router = Arc::new(Router::new(Box::new(ask), limits.snapshot_time, probes, dashboard));
        let shared = Shared { router, limits, end: ended };
        let thread = std::thread::Builder::new()
            .name("byname-web".into())
            .spawn(move || runtime.block_on(serve(listener, shared)))
            .map_err(fail)?;
        Ok(WebServer { address: bound, listener: kept, end, thread: Some(thread) })
    }

    /// Address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A descriptor of its listener, for another process.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn listener(&self) -> io::Result<OwnedFd> {
        Ok(self.listener.try_clone()?.into())
    }

    /// The thread, for a caller that watches whether it ends by itself. After this call, dropping the server only tells
    /// the thread to end; the caller joins it.
    pub fn take_thread(&mut self) -> Option<JoinHandle<()>> {
        self.thread.take()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        let _ = self.end.send(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the web thread has panicked");
        }
    }
}

fn listen(runtime: &Runtime, listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    let _context = runtime.enter();
    TcpListener::from_std(listener)
}

/// The place of a connection.
struct Place {
    task: AbortHandle,
    answering: Arc<AtomicUsize>,
}

/// All connections, the oldest first.
#[derive(Default)]
struct Places {
    tasks: JoinSet<()>,
    places: VecDeque<Place>,
}

impl Places {
    /// Gives a connection a place. If all are taken, another connection loses its place.
    fn add(&mut self, stream: TcpStream, peer: SocketAddr, shared: &Shared) {
        self.places.retain(|place| !place.task.is_finished());
        if self.places.len() >= shared.limits.connections_max {
            self.close_one();
        }
        let answering = Arc::<AtomicUsize>::default();
        let task = self.tasks.spawn(connection::serve(stream, peer, shared.clone(), Arc::clone(&answering)));
        self.places.push_back(Place { task, answering });
    }

    /// Closes the oldest connection that waits for a request, or else the oldest of all.
    fn close_one(&mut self) {
        let idle = self.places.iter().position(|place| place.answering.load(Ordering::Relaxed) == 0);
        if let Some(place) = self.places.remove(idle.unwrap_or_default()) {
            place.task.abort();
        }
    }
}

/// Accepts and serves connections until the server ends.
async fn serve(listener: TcpListener, shared: Shared) {
    let mut places = Places::default();
    let mut end = shared.end.clone();
    let mut is_short = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Frees the memory of finished tasks.
            Some(_) = places.tasks.join_next() => continue,
            _ = end.changed() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                is_short = false;
                places.add(stream, peer, &shared);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // Out of descriptors or memory: closing a waiting connection frees some.
                if !is_short {
                    tracing::warn!("cannot accept connections for HTTP, trying again: {error}");
                }
                is_short = true;
                places.close_one();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    // Each connection ends by itself soon.
    while places.tasks.join_next().await.is_some() {}
}
