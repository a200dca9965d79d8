//! The switch's end of a session: turns the controller's messages into tables and plans.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::switch::Plan;
use byname_lookup::FlatFib;
use byname_wire::NameHashKey;

use super::message::ToSwitch;
use super::session::{Secret, Session, Welcome};
use super::tables::Replica;

/// Interval between requests for the whole table while it has not arrived completely.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// What the switch must do after a message.
pub enum Told {
    /// Nothing.
    Nothing,
    /// Install another plan.
    Plan(Plan),
    /// Install another query half before the next message. Addresses are hashed with this key.
    Table(Box<NameHashKey>, Arc<dyn FlatFib>),
    /// The current query half was changed in place.
    Changed,
    /// Request the whole table from the controller.
    Ask,
    /// The controller refuses this switch; the text says why.
    Refused(String),
}

/// The table of one session. Until it is complete, the switch keeps the table of the previous session.
pub struct Agent {
    names_key: NameHashKey,
    replica: Replica,
    /// When the whole table was requested. `None` if it has arrived.
    asked_at: Option<Instant>,
}

impl Agent {
    /// An agent for a session that has just begun.
    pub fn new(now: Instant, secret: &Secret, session: &Session, welcome: &Welcome) -> Self {
        Agent {
            names_key: secret.names_key(&welcome.network),
            replica: Replica::new(welcome.engine, session.table_key),
            // The controller sends the table without a request.
            asked_at: Some(now),
        }
    }

    /// Whether the table may differ from the controller's.
    pub fn is_stale(&self) -> bool {
        self.replica.is_stale()
    }

    /// Handles a message.
    pub fn receive(&mut self, now: Instant, message: ToSwitch) -> Told {
        let message = match message {
            ToSwitch::Plan(plan) => return Told::Plan(plan),
            ToSwitch::Table(message) => message,
            ToSwitch::Refused(why) => return Told::Refused(why),
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
