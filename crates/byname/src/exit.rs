//! Exit codes, so that scripts can tell what happened.

use crate::client::management::ManagementError;
use crate::client::{ConnectError, ExchangeError};
use crate::fetch::pipeline::PipelineError;

/// All went well.
pub const OK: u8 = 0;
/// Failed for a reason that has no code of its own.
pub const FAILED: u8 = 1;
/// The command line makes no sense.
pub const USAGE: u8 = 2;
/// Nobody answered in time.
pub const TIMEOUT: u8 = 3;
/// There is no forwarder to talk to.
pub const NO_FORWARDER: u8 = 4;
/// The network refused (Nack).
pub const REFUSED: u8 = 5;
/// No such face, route or strategy.
pub const NOT_FOUND: u8 = 6;
/// Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// The codes, as `--help` shows them.
pub const HELP: &str = "\
Exit codes:
  0 done   1 failed   2 wrong usage   3 no answer in time   4 no forwarder
  5 refused by a Nack   6 no such face, route or strategy   130 interrupted";

/// An error with the exit code that it deserves.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// An error of this code.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }
}

/// An error with its causes in one line. Causes that an error's own words repeat are left out.
pub fn message_of(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |message, cause| {
        let cause = cause.to_string();
        if message.ends_with(&cause) { message } else { format!("{message}: {cause}") }
    })
}

/// The exit code of an error.
pub fn code_of(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return failure.code;
        }
        if cause.is::<ConnectError>() {
            return NO_FORWARDER;
        }
        let exchange = match cause.downcast_ref::<ManagementError>() {
            Some(ManagementError::Unanswered { error, .. }) => Some(error),
            _ => cause.downcast_ref::<ExchangeError>(),
        };
        match exchange {
            Some(ExchangeError::Timeout { .. }) => return TIMEOUT,
            Some(ExchangeError::Nack { .. }) => return REFUSED,
            Some(ExchangeError::Interrupted) => return INTERRUPTED,
            _ => {}
        }
        match cause.downcast_ref::<PipelineError>() {
            Some(PipelineError::Lost { .. }) => return TIMEOUT,
            Some(PipelineError::Refused { .. }) => return REFUSED,
            None => {}
        }
    }
    FAILED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::nack_words;
    use byname_wire::{NackReason, Name};

    fn error(error: ExchangeError) -> anyhow::Error {
        anyhow::Error::new(error).context("cannot find /a")
    }

    #[test]
    fn codes_of_wrapped_errors() {
        let name = Name::default;
        let timeout = || ExchangeError::Timeout { name: name(), waited: Default::default(), tries: 1 };
        assert_eq!(code_of(&error(timeout())), TIMEOUT);
        assert_eq!(code_of(&error(ExchangeError::Interrupted)), INTERRUPTED);
        let refused = ExchangeError::Nack { name: name(), reason: NackReason::NoRoute };
        assert_eq!(code_of(&error(refused)), REFUSED);
        let unanswered = ManagementError::Unanswered { command: "cs/erase".into(), error: timeout(), local: true };
        assert_eq!(code_of(&anyhow::Error::new(unanswered)), TIMEOUT);
        assert_eq!(code_of(&Failure::new(NOT_FOUND, "no face").into()), NOT_FOUND);
        assert_eq!(code_of(&anyhow::anyhow!("other")), FAILED);
    }

    #[test]
    fn messages_do_not_repeat_themselves() {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let message = message_of(&error(ExchangeError::Io(refused())));
        assert_eq!(message.matches(&refused().to_string()).count(), 1, "{message}");
        assert!(message.starts_with("cannot find /a: "), "{message}");
        let nack = ExchangeError::Nack { name: Name::default(), reason: NackReason::NoRoute };
        assert!(message_of(&error(nack)).ends_with(nack_words(NackReason::NoRoute)));
    }
}
