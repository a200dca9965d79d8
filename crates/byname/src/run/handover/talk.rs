//! The old process's side of the conversation: with the new process itself, or with a parcel that the new process opens
//! later and that answers nothing.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use byname_face::handover::{Channel, ChannelError};

use super::parcel::Parcel;
use super::{ToNew, ToOld};

/// A time that a clock has room for.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// A conversation.
#[derive(Clone)]
pub(super) struct Talk {
    with: With,
    limit: Limit,
}

#[derive(Clone, Copy)]
enum Limit {
    /// The time of each message.
    Each(Duration),
    /// The end of the conversation.
    Until(Instant),
}

#[derive(Clone)]
enum With {
    Process(Arc<Channel>),
    Parcel(Arc<Mutex<Parcel>>),
}

impl Talk {
    /// With a process that may take this time for each message.
    pub fn with_process(channel: Arc<Channel>, within: Duration) -> Self {
        Talk { with: With::Process(channel), limit: Limit::Each(within) }
    }

    /// With a parcel.
    pub fn with_parcel(parcel: Arc<Mutex<Parcel>>) -> Self {
        Talk { with: With::Parcel(parcel), limit: Limit::Each(Duration::MAX) }
    }

    /// The same conversation, which must be over at this time.
    pub fn until(&self, until: Instant) -> Talk {
        Talk { limit: Limit::Until(until), ..self.clone() }
    }

    /// When the next message must be over.
    pub fn deadline(&self) -> Instant {
        match self.limit {
            Limit::Each(within) => Instant::now() + within.min(FAR),
            Limit::Until(until) => until,
        }
    }

    /// Whether nobody answers.
    pub fn is_one_way(&self) -> bool {
        matches!(self.with, With::Parcel(_))
    }

    /// How many more descriptors may be told.
    pub fn room(&self) -> usize {
        match &self.with {
            With::Process(_) => usize::MAX,
            With::Parcel(parcel) => parcel.lock().unwrap_or_else(PoisonError::into_inner).room(),
        }
    }

    pub fn tell(&self, message: &ToNew, descriptors: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        match &self.with {
            With::Process(channel) => channel.send(message, descriptors, self.deadline()),
            With::Parcel(parcel) => parcel
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .put(message, descriptors)
                .map_err(ChannelError::System),
        }
    }

    /// Waits until the new process says that it has come as far as `what`.
    pub fn hear(&self, what: fn(&ToOld) -> bool) -> anyhow::Result<()> {
        if self.is_one_way() {
            return Ok(());
        }
        match self.next()? {
            message if what(&message) => Ok(()),
            message => bail!("the new process says {message:?} at the wrong time"),
        }
    }

    /// What the new process says next.
    pub fn next(&self) -> anyhow::Result<ToOld> {
        let With::Process(channel) = &self.with else { bail!("a parcel does not answer") };
        match channel.receive::<ToOld>(self.deadline())?.0 {
            ToOld::Failed(why) => bail!("{why}"),
            message => Ok(message),
        }
    }
}
