//! One connection: HTTP/1.1, with limits on a peer's time.
//!
//! hyper bounds the head of a request in bytes, fields and time. The time also runs between requests, so that an idle
//! connection ends. [`Paced`] bounds how long output may stall.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep, timeout};

use crate::limits::Limits;
use crate::router::Router;

/// Time for finishing an answer when the server ends.
const END_TIME: Duration = Duration::from_millis(300);

/// State that all connections share.
#[derive(Clone)]
pub struct Shared {
    pub router: Arc<Router>,
    pub limits: Limits,
    /// Changes when the server ends.
    pub end: watch::Receiver<bool>,
}

/// Serves one connection until it ends. `answering` is above zero while a request is being answered.
pub async fn serve(stream: TcpStream, peer: SocketAddr, shared: Shared, answering: Arc<AtomicUsize>) {
    let Shared { router, limits, mut end } = shared;
    let service = service_fn(move |request| {
        let (router, answering) = (Arc::clone(&router), Answering::new(&answering));
        async move {
            let answer = router.answer(request, peer).await;
            drop(answering);
            Ok::<_, Infallible>(answer)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_time);
    http.max_buf_size(limits.head_bytes_max).max_headers(limits.head_fields_max);
    let stream = TokioIo::new(Paced::new(stream, limits.write_time));
    let mut connection = pin!(http.serve_connection(stream, service));
    // Errors of a peer, such as bytes that are no HTTP, concern only its own connection.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = end.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(END_TIME, connection).await;
        }
    }
}

/// Counts a request as being answered while this exists, even if its connection ends first.
struct Answering(Arc<AtomicUsize>);

impl Answering {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(count))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that fails when its peer has read nothing for `patience`.
struct Paced {
    stream: TcpStream,
    patience: Duration,
    /// Timer that runs while the peer reads nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Paced { stream, patience, stalled: None }
    }

    fn paced<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        ready!(self.stalled.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Paced {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, bytes)
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.paced(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.paced(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.paced(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
