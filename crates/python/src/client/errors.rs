//! Errors of clients as exceptions.

use byname_client::fetch::FetchError;
use byname_client::fetch::pipeline::PipelineError;
use byname_client::link::{ExchangeError, nack_words};
use byname_client::management::ManagementError;
use byname_client::{CallError, ConnectError, Ended};
use pyo3::prelude::*;

use crate::errors::{Value, exception};

/// The exception for an Interest without Data.
pub fn exchange_error(error: &ExchangeError) -> PyErr {
    let message = error.to_string();
    let name = |name: &byname_wire::Name| ("name", Value::Text(name.to_string()));
    match error {
        ExchangeError::Timeout { name: of, waited, tries } => {
            let (waited, tries) = (Value::Seconds(waited.as_secs_f64()), Value::Number(u64::from(*tries)));
            exception("NoAnswer", message, vec![name(of), ("waited", waited), ("tries", tries)])
        }
        ExchangeError::Nack { name: of, reason } => {
            let reason = Value::Text(nack_words(*reason).to_owned());
            exception("Nack", message, vec![name(of), ("reason", reason)])
        }
        ExchangeError::Untrusted { name: of, doubt } => {
            exception("Untrusted", message, vec![name(of), ("reason", Value::Text(doubt.to_string()))])
        }
        ExchangeError::Malformed { name: of, .. }
        | ExchangeError::BadInterest { name: of, .. }
        | ExchangeError::Unsigned { name: of, .. }
        | ExchangeError::TooLarge { name: of, .. } => exception("ClientError", message, vec![name(of)]),
        ExchangeError::Lost(_) | ExchangeError::Offline { .. } | ExchangeError::Interrupted => {
            exception("ConnectionLost", message, Vec::new())
        }
    }
}

fn fetch_error(error: &FetchError) -> PyErr {
    match error {
        FetchError::NotFound { error, .. } => exchange_error(error),
        FetchError::Lost(_) | FetchError::Offline { .. } | FetchError::Interrupted => {
            exception("ConnectionLost", error.to_string(), Vec::new())
        }
        FetchError::Untrusted { name, doubt } => {
            let values = vec![("name", Value::Text(name.to_string())), ("reason", Value::Text(doubt.to_string()))];
            exception("Untrusted", error.to_string(), values)
        }
        FetchError::TooLarge { bytes_max, .. } => {
            exception("TooLarge", error.to_string(), vec![("bytes_max", Value::Number(*bytes_max))])
        }
        FetchError::NoSuchData(name) => {
            exception("NoSuchData", error.to_string(), vec![("name", Value::Text(name.to_string()))])
        }
        FetchError::Pipeline(PipelineError::Lost { segment, tries }) => {
            fetch_failed(error, *segment, vec![("tries", Value::Number(u64::from(*tries)))])
        }
        FetchError::Pipeline(PipelineError::Refused { segment, reason }) => {
            fetch_failed(error, *segment, vec![("reason", Value::Text(nack_words(*reason).to_owned()))])
        }
        FetchError::Shrunk { segment, last, before } => {
            fetch_failed(error, *segment, vec![("last", Value::Number(*last)), ("before", Value::Number(*before))])
        }
        FetchError::Malformed { segment, error: defect } => {
            fetch_failed(error, *segment, vec![("reason", Value::Text(defect.to_string()))])
        }
        _ => exception("FetchFailed", error.to_string(), Vec::new()),
    }
}

/// The exception for a segment that ended a transfer.
fn fetch_failed(error: &FetchError, segment: u64, mut values: Vec<(&str, Value)>) -> PyErr {
    values.push(("segment", Value::Number(segment)));
    exception("FetchFailed", error.to_string(), values)
}

fn management_error(error: &ManagementError) -> PyErr {
    let message = error.to_string();
    match error {
        ManagementError::Refused { command, code, text, .. } => {
            let (command, text) = (Value::Text(command.clone()), Value::Text(text.clone()));
            let values = vec![("command", command), ("code", Value::Number(*code)), ("text", text)];
            exception("CommandRefused", message, values)
        }
        ManagementError::Unanswered { error: ExchangeError::Lost(_) | ExchangeError::Offline { .. }, .. } => {
            exception("ConnectionLost", message, Vec::new())
        }
        ManagementError::Unanswered { error: ExchangeError::Timeout { waited, tries, .. }, command, .. } => {
            let values = vec![
                ("name", Value::Text(command.clone())),
                ("waited", Value::Seconds(waited.as_secs_f64())),
                ("tries", Value::Number(u64::from(*tries))),
            ];
            exception("NoAnswer", message, values)
        }
        _ => exception("ClientError", message, Vec::new()),
    }
}

/// The exception for a call of a client.
pub fn call_error(error: &CallError) -> PyErr {
    match error {
        CallError::Ended(ended) => ended_error(*ended),
        CallError::Exchange(error) => exchange_error(error),
        CallError::Management(error) => management_error(error),
        CallError::Fetch(error) => fetch_error(error),
        CallError::File(_) | CallError::TooLarge(_) | CallError::Request(_) => {
            exception("ClientError", error.to_string(), Vec::new())
        }
    }
}

/// The exception for a part that a transfer did not bring.
pub fn part_error(error: &FetchError) -> PyErr {
    fetch_error(error)
}

/// The exception for a client whose connection is gone for good.
pub fn ended_error(ended: Ended) -> PyErr {
    exception("ConnectionLost", ended.to_string(), Vec::new())
}

/// The exception for a router that does not answer.
pub fn connect_error(error: &ConnectError) -> PyErr {
    exception("NotConnected", error.to_string(), Vec::new())
}
