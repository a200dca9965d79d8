//! Connections of clients, of which there are not too many at a time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Most connections at a time. One more is closed at once.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// A connection, which has one of the places until it ends.
pub(crate) struct Connection {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

/// Connections that come to a listener.
pub(crate) fn accepted(listener: TcpListener) -> impl Stream<Item = io::Result<Connection>> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    TcpListenerStream::new(listener).filter_map(move |accepted| {
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => return Some(Err(error)),
        };
        let place = places.clone().try_acquire_owned().ok()?;
        // It only costs time if this fails.
        let _ = stream.set_nodelay(true);
        Some(Ok(Connection { stream, _place: place }))
    })
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
