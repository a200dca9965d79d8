//! A switch's side of a session: what it is told becomes tables and plans.

use std::sync::Arc;
use std::time::{Duration, Instant};

use byname_forward::switch::Plan;
use byname_lookup::FlatFib;
use byname_wire::NameHashKey;

use super::message::ToSwitch;
use super::session::{Secret, Session, Welcome};
use super::tables::Replica;

/// A table that was asked for and has not come whole is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// What is to be done about a message.
pub enum Told {
    /// Nothing.
    Nothing,
    /// The switch gets another plan.
    Plan(Plan),
    /// It gets another query half, for addresses hashed under this key, before the next message is
    /// taken.
    Table(Box<NameHashKey>, Arc<dyn FlatFib>),
    /// The query half that it has has changed.
    Changed,
    /// The controller is to be asked for the whole table.
    Ask,
}

/// One session's table. What a switch has from the session before it keeps, until this one brings another.
pub struct Agent {
    names_key: NameHashKey,
    replica: Replica,
    /// When the whole table was asked for, if it has not come.
    asked_at: Option<Instant>,
}

impl Agent {
    /// For a session that has begun.
    pub fn new(now: Instant, secret: &Secret, session: &Session, welcome: &Welcome) -> Self {
        Agent {
            names_key: secret.names_key(&welcome.network),
            replica: Replica::new(welcome.engine, session.table_key),
            // The controller sends it unasked.
            asked_at: Some(now),
        }
    }

    /// Whether the table may differ from the controller's.
    pub fn is_stale(&self) -> bool {
        self.replica.is_stale()
    }

    /// Takes a message.
    pub fn receive(&mut self, now: Instant, message: ToSwitch) -> Told {
        let message = match message {
            ToSwitch::Plan(plan) => return Told::Plan(plan),
            ToSwitch::Table(message) => message,
        };
        match self.replica.receive(&message) {
            Ok(update) => {
                self.asked_at = self.asked_at.filter(|_| self.replica.is_stale());
                match update {
                    Some(Some(fib)) => Told::Table(Box::new(self.names_key), fib),
                    Some(None) => Told::Changed,
                    None => Told::Nothing,
                }
            }
            Err(error) => {
                tracing::warn!(%error, "an update of the table cannot be used");
                let is_asked = self.asked_at.is_some_and(|at| now.saturating_duration_since(at) < ASK_AGAIN);
                if !self.replica.is_stale() || is_asked {
                    return Told::Nothing;
                }
                self.asked_at = Some(now);
                Told::Ask
            }
        }
    }
}
