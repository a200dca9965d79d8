//! Where `byname top` gets its samples: a thread that asks the router, again and again, and connects again if it must.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use anyhow::Context;
use byname_client::management::{ManagementError, dataset_in_time};
use byname_client::{ExchangeError, Link};
use byname_control::mgmt::tlv::Element;
use byname_control::mgmt::tlv::traffic::Traffic;
use byname_wire::Name;

use super::report::Sample;
use crate::Connection;
use crate::manage::{cs, explain, face, status};

/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(1);
/// Asking takes at most one part in this many of the time, so that a router with very many faces is not kept busy.
const SHARE: u32 = 5;
/// How long the router may take to tell of traffic. Others than byname do not answer this question.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the screen wants from the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Time between two samples.
    pub interval: Duration,
    /// A name to explain with each sample.
    pub explain: Option<Name>,
}

/// What the source tells.
#[derive(Debug)]
pub enum News {
    /// A sample, and the explanation of the name that was wanted.
    Sample(Box<Sample>, Option<(Name, String)>),
    /// The router does not answer.
    Down(String),
}

/// A connection to a router that is asked for samples.
pub struct Source {
    client: Link,
    /// Whether the router tells of its traffic.
    tells_traffic: bool,
}

impl Source {
    /// Connects.
    pub fn connect(connection: &Connection) -> anyhow::Result<Source> {
        Ok(Source { client: connection.connect()?, tells_traffic: true })
    }

    /// The router's address.
    pub fn address(&self) -> String {
        self.client.transport().to_string()
    }

    /// Asks for a sample.
    pub fn sample(&mut self) -> anyhow::Result<Sample> {
        let client = &mut self.client;
        let general = status::general(client)?;
        let (faces, cs) = (face::list(client)?, cs::info(client)?);
        let traffic = self.traffic()?;
        Ok(Sample { at: Instant::now(), general, faces, cs, traffic })
    }

    fn traffic(&mut self) -> anyhow::Result<Option<Traffic>> {
        if !self.tells_traffic {
            return Ok(None);
        }
        match dataset_in_time(&mut self.client, "traffic", "prefixes", None, (PATIENCE, 1)) {
            Ok(content) => Ok(Some(Traffic::decode_value(&content).context("the traffic dataset is malformed")?)),
            Err(
                ManagementError::Refused { .. }
                | ManagementError::Unanswered {
                    error: ExchangeError::Timeout { .. } | ExchangeError::Nack { .. }, ..
                },
            ) => {
                self.tells_traffic = false;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn explain(&mut self, name: Name) -> anyhow::Result<Option<(Name, String)>> {
        match explain::text(&mut self.client, &name) {
            Ok(text) => Ok(Some((name, text))),
            Err(error) if matches!(error.downcast_ref(), Some(ManagementError::Refused { .. })) => {
                Ok(Some((name, crate::exit::message_of(&error))))
            }
            Err(error) => Err(error),
        }
    }
}

/// Asks for samples until the screen ends, that is, until one of the channels is closed.
pub fn run(
    first: Source,
    connection: &Connection,
    mut wanted: Wanted,
    orders: &Receiver<Wanted>,
    news: &SyncSender<News>,
) {
    let mut source = Some(first);
    loop {
        let began = Instant::now();
        let told = match ask(&mut source, connection, wanted.explain.as_ref()) {
            Ok((sample, explanation)) => News::Sample(Box::new(sample), explanation),
            Err(error) => {
                source = None;
                News::Down(crate::exit::message_of(&error))
            }
        };
        let pause = if source.is_none() { PAUSE } else { wanted.interval.max(began.elapsed() * SHARE) };
        if news.send(told).is_err() {
            return;
        }
        match orders.recv_timeout(pause) {
            Ok(new) => wanted = new,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

type Answer = (Sample, Option<(Name, String)>);

fn ask(source: &mut Option<Source>, connection: &Connection, name: Option<&Name>) -> anyhow::Result<Answer> {
    let source = match source {
        Some(source) => source,
        none => none.insert(Source::connect(connection)?),
    };
    let sample = source.sample()?;
    let explanation = name.map(|name| source.explain(name.clone())).transpose()?.flatten();
    Ok((sample, explanation))
}

/// Tells the source what is wanted. A source that has ended needs no orders.
pub fn order(orders: &Sender<Wanted>, wanted: Wanted) {
    let _ = orders.send(wanted);
}
