//! Exit codes, for scripts, and the signals that end a command.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use byname_client::fetch::FetchError;
use byname_client::fetch::pipeline::PipelineError;
use byname_client::management::ManagementError;
use byname_client::{ConnectError, ConnectionLost, ExchangeError, SendError};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Success.
pub const OK: u8 = 0;
/// A failure without a code of its own.
pub const FAILED: u8 = 1;
/// Invalid command line.
pub const USAGE: u8 = 2;
/// No answer in time.
pub const TIMEOUT: u8 = 3;
/// No forwarder is running, or the connection to it ended.
pub const NO_FORWARDER: u8 = 4;
/// The network refused with a Nack.
pub const REFUSED: u8 = 5;
/// No such face, route or strategy.
pub const NOT_FOUND: u8 = 6;
/// A thread panicked: a bug in byname. Rust uses the same code.
pub const PANICKED: u8 = 101;
/// Interrupted by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// The codes, as `--help` shows them.
pub const HELP: &str = "\
Exit codes:
  0 done   1 failed   2 wrong usage   3 no answer in time   4 no forwarder, or it ended
  5 refused by a Nack   6 no such face, route or strategy
  101 a bug in byname   130 interrupted";

/// Makes SIGINT and SIGTERM set this flag instead of ending the process. The second signal ends the process.
///
/// # Errors
/// The system refuses.
pub fn on_signals(flag: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), flag.clone())?;
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(())
}

/// An error with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// Returns an error with this code.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }
}

/// An error and its causes in one line. A cause that the message already ends with is left out.
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
        let is_lost = matches!(cause.downcast_ref(), Some(SendError::Lost(_)));
        if is_lost || cause.is::<ConnectError>() || cause.is::<ConnectionLost>() {
            return NO_FORWARDER;
        }
        if let Some(fetch) = cause.downcast_ref::<FetchError>() {
            match fetch {
                FetchError::Pipeline(PipelineError::Lost { .. }) => return TIMEOUT,
                FetchError::Pipeline(PipelineError::Refused { .. }) => return REFUSED,
                FetchError::NoSuchData(_) => return NOT_FOUND,
                FetchError::Lost(_) | FetchError::Offline { .. } => return NO_FORWARDER,
                FetchError::Interrupted => return INTERRUPTED,
                _ => {}
            }
        }
        let exchange = match cause.downcast_ref::<ManagementError>() {
            Some(ManagementError::Unanswered { error, .. }) => Some(error),
            // As in HTTP: not found, and gone.
            Some(ManagementError::Refused { code: 404 | 410, .. }) => return NOT_FOUND,
            _ => cause.downcast_ref::<ExchangeError>(),
        };
        match exchange {
            Some(ExchangeError::Timeout { .. }) => return TIMEOUT,
            Some(ExchangeError::Nack { .. }) => return REFUSED,
            Some(ExchangeError::Interrupted) => return INTERRUPTED,
            Some(ExchangeError::Lost(_) | ExchangeError::Offline { .. }) => return NO_FORWARDER,
            _ => {}
        }
    }
    FAILED
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_client::nack_words;
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
        let lost = FetchError::Pipeline(PipelineError::Lost { segment: 1, tries: 15 });
        assert_eq!(code_of(&lost.into()), TIMEOUT);
        assert_eq!(code_of(&FetchError::NoSuchData(name()).into()), NOT_FOUND);
        let refused = |code| ManagementError::Refused {
            command: "rib/register".into(),
            code,
            text: "Face not found".into(),
            body: None,
        };
        assert_eq!(code_of(&anyhow::Error::new(refused(410))), NOT_FOUND);
        assert_eq!(code_of(&anyhow::Error::new(refused(406))), FAILED);
        assert_eq!(code_of(&Failure::new(NOT_FOUND, "no face").into()), NOT_FOUND);
        assert_eq!(code_of(&anyhow::anyhow!("other")), FAILED);
    }

    #[test]
    fn messages_do_not_repeat_themselves() {
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let message = message_of(&anyhow::Error::new(refused()).context(format!("cannot do it: {}", refused())));
        assert_eq!(message.matches(&refused().to_string()).count(), 1, "{message}");
        let nack = ExchangeError::Nack { name: Name::default(), reason: NackReason::NoRoute };
        assert!(message_of(&error(nack)).ends_with(nack_words(NackReason::NoRoute)));
    }
}
