//! The service manager's descriptor store: it keeps sockets while the service is restarted, or after it has crashed.
//!
//! systemd offers this to units with `FileDescriptorStoreMax=`. It tells in the variable `FDSTORE` how many descriptors
//! it keeps, and returns them to the next process with the variables `LISTEN_FDS` and `LISTEN_FDNAMES`. When the service
//! is stopped for good, systemd closes them.

use std::env;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use byname_face::system::passed_descriptors;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use sd_notify::NotifyState;

/// The name of all descriptors in the store.
const NAME: &str = "byname";
/// Most descriptors of one message.
const DESCRIPTORS_PER_MESSAGE: usize = 64;
/// Time to wait until the service manager has read everything.
const BARRIER_TIME: Duration = Duration::from_secs(2);
/// Most descriptors that are taken back.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// The store of this service.
#[derive(Debug, Clone, Copy)]
pub struct DescriptorStore {
    /// Most descriptors.
    pub descriptors_max: usize,
}

impl DescriptorStore {
    /// The store that the service manager offers to this process. `None` if it offers none.
    pub fn of_process() -> Option<Self> {
        env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty())?;
        let descriptors_max = env::var("FDSTORE").ok()?.parse().ok().filter(|&max| max > 0)?;
        Some(DescriptorStore { descriptors_max })
    }

    /// Puts descriptors into the store, in place of those that are there.
    ///
    /// # Errors
    /// If the service manager does not take them.
    pub fn keep(self, descriptors: &[OwnedFd]) -> io::Result<()> {
        self.forget()?;
        for part in descriptors.chunks(DESCRIPTORS_PER_MESSAGE) {
            let part: Vec<_> = part.iter().map(AsFd::as_fd).collect();
            sd_notify::notify_with_fds(&[NotifyState::FdStore, NotifyState::FdName(NAME)], &part)?;
        }
        Ok(())
    }

    /// Empties the store.
    ///
    /// # Errors
    /// If the service manager is not there.
    pub fn forget(self) -> io::Result<()> {
        sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(NAME)])
    }

    /// Waits until the service manager has read all that it was told. Otherwise it might take the messages of a process
    /// that has ended for those of a stranger.
    ///
    /// # Errors
    /// If it does not read.
    pub fn await_reader(self) -> io::Result<()> {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
        sd_notify::notify_with_fds(&[NotifyState::Custom("BARRIER=1")], &[writing.as_fd()])?;
        drop(writing);
        let time = Timespec::try_from(BARRIER_TIME).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&reading, PollFlags::empty())], Some(&time))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

/// The descriptors that the service manager has kept for this process. Call this once, at the start.
pub fn returned() -> Vec<OwnedFd> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    // Variables may come from an ancestor, and then the descriptors are not for this process.
    if number("LISTEN_PID") != Some(std::process::id() as usize) {
        return Vec::new();
    }
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let passed = passed_descriptors(number("LISTEN_FDS").unwrap_or(0).min(DESCRIPTORS_MAX));
    let named = passed.into_iter().zip(names.split(':')).filter(|(_, name)| *name == NAME);
    named.filter_map(|(descriptor, _)| descriptor).collect()
}
