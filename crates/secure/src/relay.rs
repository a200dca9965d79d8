//! Copies bytes between a stream and a port, with bounded memory.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Bytes on their way in each direction.
const PIECE_BYTES: usize = 16 << 10;
/// How long a peer's stream stays open after its face has ended.
const LINGER: Duration = Duration::from_secs(2);

/// Copies until both sides have ended, or the face has, or the peer has taken nothing for `stall_time`.
pub(crate) async fn streams<S: AsyncRead + AsyncWrite + Unpin>(peer: S, port: UnixStream, stall_time: Duration) {
    let (mut from_peer, mut to_peer) = tokio::io::split(peer);
    let (mut from_port, mut to_port) = port.into_split();
    let up = copy(&mut from_peer, &mut to_port, Duration::MAX);
    let down = copy(&mut from_port, &mut to_peer, stall_time);
    tokio::pin!(up, down);
    // Errors end a connection, and that is all that they do.
    tokio::select! {
        _ = &mut down => drop(timeout(LINGER, up).await),
        ended = &mut up => if ended.is_ok() {
            // The port notices, and ends the face soon.
            let _ = down.await;
        },
    }
}

/// Copies to the end of `from`, and ends `to`.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    stall_time: Duration,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let len = from.read(&mut buffer).await?;
        let mut left = &buffer[..len];
        while !left.is_empty() {
            let written = timeout(stall_time, to.write(left)).await??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            left = &left[written..];
        }
        if len == 0 {
            return timeout(stall_time, to.shutdown()).await?;
        }
        timeout(stall_time, to.flush()).await??;
    }
}
