//! The file of a listening Unix socket: checks whether it is in use, creates it, and removes it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use thiserror::Error;

use crate::uri::FaceUri;

/// Attempts to get the lock of a socket's folder, which keeps two starts apart.
const FOLDER_LOCK_ATTEMPTS: u32 = 100;

/// Reason why a listener cannot be set up.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Another process listens there.
    #[error("{uri} is held by {holder}")]
    InUse {
        /// The address or path.
        uri: FaceUri,
        /// The process, as far as the system tells.
        holder: String,
    },
    /// The path holds something that is not a socket, which is left alone.
    #[error("{} exists and is no socket", .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("cannot listen on {uri}: {error}")]
    System {
        /// The address or path.
        uri: FaceUri,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
}

/// A socket file. It is removed when this is dropped, unless another file has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Another process has taken it over.
    is_kept: bool,
}

/// Lets `bind` create a socket file of this kind at `path`. Creates the folder first, and removes a file that nobody
/// answers on.
pub(crate) fn claim<T>(
    path: &Path,
    kind: SocketType,
    mode: u32,
    bind: impl FnOnce() -> io::Result<T>,
) -> Result<(T, SocketFile), ListenError> {
    let uri = FaceUri::Unix(path.to_owned());
    let fail = |error| ListenError::System { uri: uri.clone(), error };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(fail)?;
    let _lock = lock_folder(folder);
    remove_stale(path, kind, &uri)?;
    let bound = bind().map_err(fail)?;
    let file = SocketFile::of(path).map_err(fail)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(fail)?;
    Ok((bound, file))
}

/// Listens at `path` for streams, with these permissions. Creates the folder first, and removes a file that nobody
/// answers on.
///
/// # Errors
/// If another process listens there, something else is at the path, or the system refuses.
pub fn listen(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), ListenError> {
    claim(path, SocketType::STREAM, mode, || UnixListener::bind(path))
}

impl SocketFile {
    /// The file at this path.
    pub(crate) fn of(path: &Path) -> io::Result<SocketFile> {
        let meta = std::fs::symlink_metadata(path)?;
        Ok(SocketFile { path: path.to_owned(), device: meta.dev(), inode: meta.ino(), is_kept: false })
    }

    /// Whether the file stays when this is dropped.
    pub(crate) fn keep(&mut self, keep: bool) {
        self.is_kept = keep;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = |meta: &std::fs::Metadata| (meta.dev(), meta.ino()) == (self.device, self.inode);
        if !self.is_kept && std::fs::symlink_metadata(&self.path).is_ok_and(|meta| ours(&meta)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Keeps two instances from taking each other's new socket for a stale one. Best effort: any process that may read the
/// folder could hold the lock forever.
fn lock_folder(folder: &Path) -> Option<OwnedFd> {
    let fd = rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    for _ in 0..FOLDER_LOCK_ATTEMPTS {
        if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Some(fd);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

fn remove_stale(path: &Path, kind: SocketType, uri: &FaceUri) -> Result<(), ListenError> {
    let fail = |error| ListenError::System { uri: uri.clone(), error };
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fail(error)),
    };
    if !meta.file_type().is_socket() {
        return Err(ListenError::NotASocket { path: path.to_owned() });
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).map_err(|errno| fail(errno.into()))?;
    let address = SocketAddrUnix::new(path).map_err(|errno| fail(errno.into()))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => Err(ListenError::InUse { uri: uri.clone(), holder: peer_process(&socket) }),
        // The listener's queue is full, or it is a socket of another kind.
        Err(Errno::AGAIN | Errno::PROTOTYPE) => {
            Err(ListenError::InUse { uri: uri.clone(), holder: "another process".into() })
        }
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(fail),
        Err(errno) => Err(fail(errno.into())),
    }
}

/// Process that listens at the other end, as far as the system tells.
fn peer_process(socket: impl AsFd) -> String {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(socket) else { return "another process".into() };
    let pid = peer.pid.as_raw_nonzero();
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{} (process {pid})", name.trim()),
        Err(_) => format!("process {pid}"),
    }
}
