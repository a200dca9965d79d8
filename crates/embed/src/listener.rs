//! Applications that connect to a running forwarder over a Unix socket.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

use byname_forward::face_table::Scope;
use byname_wire::{PACKET_BYTES_MAX, tlv};

use crate::running::{Opener, Port, Running, SendError};

/// Connections at a time. Further ones are closed at once.
pub(crate) const CONNECTIONS_MAX: usize = 256;
/// Longest frame: a packet, an announcement and the fields of a link.
const FRAME_BYTES_MAX: usize = 4 * PACKET_BYTES_MAX;
/// How long the writing thread waits before it looks whether the connection is over.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// How long to wait for a forwarder that is behind.
const BEHIND: Duration = Duration::from_millis(1);
/// Time limit for an application that does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A Unix socket on which applications reach a [`Running`] forwarder. Dropping it closes all connections and removes the
/// socket.
pub struct Listener {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Each is alive as long as one of its threads.
    connections: Mutex<Vec<Weak<Connection>>>,
}

struct Connection {
    stream: UnixStream,
    is_over: AtomicBool,
}

impl Listener {
    /// Lets applications connect at this path, which must not exist. Each connection is a local face, as at a router's
    /// Unix socket, so that every NDN client works. A forwarder that was built with
    /// [`Builder::registrations`](crate::Builder::registrations) lets them produce.
    ///
    /// # Errors
    /// If the system refuses the socket or a thread.
    pub fn bind(path: &Path, running: &Running) -> io::Result<Listener> {
        let opener = running.opener();
        let socket = UnixListener::bind(path)?;
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let accept = move || of_thread.accept(&socket, &opener);
        let thread = Builder::new().name("byname-accept".into()).spawn(accept)?;
        Ok(Listener { path: path.to_owned(), shared, thread: Some(thread) })
    }

    /// The path of the socket. A client's address is `unix://` and this path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // The thread waits for a connection.
        let woken = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
        self.shared.alive().iter().for_each(|connection| connection.end());
    }
}

impl Shared {
    fn accept(&self, socket: &UnixListener, opener: &Opener) {
        for stream in socket.incoming() {
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            // Without threads, memory or descriptors for a connection, it is closed. Others may end meanwhile.
            if stream.and_then(|stream| self.serve(stream, opener)).is_err() {
                sleep(BEHIND);
            }
        }
    }

    /// The open connections.
    fn alive(&self) -> Vec<Arc<Connection>> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| connection.strong_count() > 0);
        connections.iter().filter_map(Weak::upgrade).collect()
    }

    fn serve(&self, stream: UnixStream, opener: &Opener) -> io::Result<()> {
        if self.alive().len() >= CONNECTIONS_MAX {
            return Ok(());
        }
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let connection = Arc::new(Connection { stream, is_over: AtomicBool::new(false) });
        let port = Arc::new(opener.open(Scope::Local).map_err(io::Error::other)?);
        let weak = Arc::downgrade(&connection);
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(weak);
        let (of_writer, to_write) = (connection.clone(), port.clone());
        Builder::new().name("byname-write".into()).spawn(move || {
            of_writer.write_frames(&to_write);
            of_writer.end();
        })?;
        Builder::new().name("byname-read".into()).spawn(move || {
            // The end of the connection, a frame that is none, or the end of the forwarder.
            let _ = connection.read_frames(&port);
            connection.end();
        })?;
        Ok(())
    }
}

impl Connection {
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Hands frames to the forwarder, and waits while that is behind.
    fn read_frames(&self, port: &Port) -> io::Result<()> {
        let (mut bytes, mut block) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            match (&self.stream).read(&mut block)? {
                0 => return Ok(()),
                n => bytes.extend_from_slice(&block[..n]),
            }
            let mut start = 0;
            while let Some(len) = tlv::element_len(&bytes[start..], FRAME_BYTES_MAX).map_err(io::Error::other)? {
                while let Err(error) = port.send(&bytes[start..start + len]) {
                    match error {
                        SendError::Full if !self.is_over.load(Ordering::Acquire) => sleep(BEHIND),
                        _ => return Err(io::Error::other(error)),
                    }
                }
                start += len;
            }
            bytes.drain(..start);
        }
    }

    fn write_frames(&self, port: &Port) {
        while !self.is_over.load(Ordering::Acquire) {
            match port.receive(LOOKS_EVERY) {
                Ok(None) => {}
                Ok(Some(frame)) if (&self.stream).write_all(&frame).is_ok() => {}
                _ => return,
            }
        }
    }
}
