//! What an application wanted to send, and could not.

use std::collections::VecDeque;

use byname_trust::SignerError;
use byname_wire::Name;
use thiserror::Error;

use crate::link::ConnectionLost;
use crate::outbox::PacketTooLarge;
use crate::publish::PublishError;
use crate::signed::RequestDoubt;

/// Failures that nobody has taken. A new one replaces the oldest.
const FAILURES_MAX: usize = 100;

/// The reason why a message was not sent.
#[derive(Debug, Error)]
pub enum SendError {
    /// It is too large.
    #[error(transparent)]
    TooLarge(#[from] PacketTooLarge),
    /// The connection is gone, and the client was told not to connect again.
    #[error(transparent)]
    Lost(#[from] ConnectionLost),
}

/// The reason why an Interest could not be answered.
#[derive(Debug, Error)]
pub enum ReplyError {
    /// The key cannot sign.
    #[error(transparent)]
    Unsigned(#[from] SignerError),
    /// The answer is too large.
    #[error(transparent)]
    TooLarge(#[from] PacketTooLarge),
    /// The Interest is not signed by anybody whom the application trusts.
    #[error(transparent)]
    Untrusted(Box<RequestDoubt>),
    /// A published object cannot be read.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

/// An Interest that a client wanted to answer, and could not. For its consumer, this is as if the producer was gone.
#[derive(Debug, Error)]
#[error("no answer to {name}: {error}")]
pub struct Failure {
    /// The Interest's name.
    pub name: Name,
    /// The reason.
    pub error: ReplyError,
}

/// The newest failures.
#[derive(Debug, Default)]
pub(crate) struct Failures(VecDeque<Failure>);

impl Failures {
    pub fn push(&mut self, failure: Failure) {
        if self.0.len() == FAILURES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(failure);
    }

    pub fn take(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.0).into()
    }
}

/// What a client could not do, and what nobody took from it in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Interests that could not be answered.
    pub failures: u64,
    /// Interests for which a producer had no room. They are refused with the reason *congestion*.
    pub requests_dropped: u64,
    /// Messages by tags or to an address that nobody took.
    pub messages_dropped: u64,
    /// News of groups that nobody took. The group knows the newest publication of each member.
    pub updates_dropped: u64,
    /// Other events that nobody took: answers to what nobody waits for any more, and news of registrations.
    pub others_dropped: u64,
}
