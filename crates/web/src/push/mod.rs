//! Metrics for a collector of OpenTelemetry: what `/metrics` shows, sent at intervals.
//!
//! Implements OTLP 1 over HTTP with binary Protobuf, without compression and without TLS. The messages are made from the text
//! of a snapshot, so there is one source of both.
//!
//! Values are cumulative, so what does not arrive is part of what is sent next: nothing is kept, and nothing is sent again.
//! A message has at most the series of a scrape. The answer may have 64 KiB, and the whole request may take ten seconds. The
//! thread reports when sending begins to fail, and when it works again, and is silent in between.

mod otlp;

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use thiserror::Error;
use ureq::Agent;
use ureq::http::{StatusCode, Uri};

use crate::metrics::{NoSnapshot, Tell};

/// How long the control thread, and then the collector, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of a collector's answer.
const ANSWER_MAX: u64 = 64 * 1024;
/// Most characters that are shown of what a collector says.
const SAID_MAX: usize = 200;

/// Where metrics go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushConfig {
    /// The collector, without the path of a signal: `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Time from one message to the next.
    pub interval: Duration,
    /// The name of this router, unique among all that the collector knows (`service.instance.id`).
    pub instance: String,
}

/// Why pushing could not start.
#[derive(Debug, Error)]
pub enum PushError {
    /// The address of the collector is none.
    #[error("\"{endpoint}\" is not the address of a collector; write for example \"http://127.0.0.1:4318\"")]
    Endpoint {
        /// The text.
        endpoint: String,
    },
    /// The system provides no thread.
    #[error("no thread to push metrics: {0}")]
    Thread(#[source] io::Error),
}

/// Why one message did not arrive.
#[derive(Debug, Error)]
enum Failure {
    #[error("{0}")]
    Snapshot(#[from] NoSnapshot),
    #[error("{0}")]
    Http(#[from] ureq::Error),
    #[error("it answers {0}")]
    Status(StatusCode),
    #[error("its answer is no message of OTLP")]
    Answer,
    #[error("it has refused {points} values: {said:?}")]
    Refused { points: i64, said: String },
}

/// A thread that sends metrics until this is dropped. Dropping does not wait for a collector that does not answer.
pub struct Push {
    _end: Sender<()>,
}

impl Push {
    /// Sends a message now, and then at intervals. Snapshots come from `ask`, which must not wait. It returns false if no
    /// snapshot will come.
    ///
    /// # Errors
    /// If the endpoint is no address of HTTP, or the system provides no thread.
    pub fn start(config: PushConfig, ask: impl Fn(Tell) -> bool + Send + 'static) -> Result<Self, PushError> {
        let uri = format!("{}/v1/metrics", config.endpoint.trim_end_matches('/'));
        let is_good = |uri: &Uri| uri.scheme_str() == Some("http") && uri.host().is_some_and(|host| !host.is_empty());
        let uri: Uri = uri.parse().ok().filter(is_good).ok_or(PushError::Endpoint { endpoint: config.endpoint })?;
        let (end, ended) = mpsc::channel();
        let mut pusher = Pusher { agent: agent(), uri, instance: config.instance, ask, fails: false };
        let run = move || {
            let mut next = Instant::now();
            while ended.recv_timeout(next.saturating_duration_since(Instant::now())) == Err(RecvTimeoutError::Timeout) {
                // Not before the interval has passed again, however long this message takes.
                next = Instant::now() + config.interval;
                let outcome = pusher.push();
                pusher.report(outcome);
            }
        };
        std::thread::Builder::new().name("byname-push".into()).spawn(run).map_err(PushError::Thread)?;
        Ok(Push { _end: end })
    }
}

fn agent() -> Agent {
    // Neither a proxy from the environment nor another host that an answer names: only the configured one.
    let config = Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .user_agent(concat!("byname/", env!("CARGO_PKG_VERSION")));
    config.build().new_agent()
}

struct Pusher<A> {
    agent: Agent,
    uri: Uri,
    instance: String,
    ask: A,
    fails: bool,
}

impl<A: Fn(Tell) -> bool> Pusher<A> {
    fn push(&self) -> Result<(), Failure> {
        let (sender, told) = mpsc::sync_channel(1);
        // Sending fails if this thread has lost its patience.
        if !(self.ask)(Box::new(move |snapshot| drop(sender.send(snapshot)))) {
            return Err(NoSnapshot::Busy.into());
        }
        let snapshot = told.recv_timeout(PATIENCE).map_err(|_| NoSnapshot::Silent)?;
        let message = otlp::request(&snapshot.encode(), &self.instance, SystemTime::now());
        let request = self.agent.post(&self.uri).header("Content-Type", "application/x-protobuf");
        let mut answer = request.send(message.encode_to_vec().as_slice())?;
        if answer.status() != StatusCode::OK {
            return Err(Failure::Status(answer.status()));
        }
        let body = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec()?;
        let answer = ExportMetricsServiceResponse::decode(body.as_slice()).map_err(|_| Failure::Answer)?;
        match answer.partial_success {
            Some(partial) if partial.rejected_data_points > 0 => Err(Failure::Refused {
                points: partial.rejected_data_points,
                said: partial.error_message.chars().take(SAID_MAX).collect(),
            }),
            _ => Ok(()),
        }
    }

    /// Logs the first failure, and the end of failures.
    fn report(&mut self, outcome: Result<(), Failure>) {
        let Pusher { uri, fails, .. } = self;
        match &outcome {
            Err(error) if !*fails => tracing::warn!("metrics do not reach the collector at {uri}, trying on: {error}"),
            Ok(()) if *fails => tracing::info!("metrics reach the collector at {uri} again"),
            _ => {}
        }
        *fails = outcome.is_err();
    }
}

#[cfg(test)]
mod tests;
