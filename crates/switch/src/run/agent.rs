//! The thread that connects a switch to its controller.
//!
//! The agent connects, and reconnects when a session ends. It passes the controller's orders to the switch and the
//! switch's reports to the controller. Without a controller, the switch keeps forwarding with the tables that it has.

use std::io::{ErrorKind, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::control::message::{ToController, ToSwitch};
use crate::control::session::{Greeting, Hello, Seals, Secret, Session, SessionError, Welcome, read_frame};
use crate::control::{Agent, ControllerAddress, SwitchConfig, Told};
use crate::key::KeyKind;
use crate::ports::{SwitchEvent, SwitchHandle};

use super::stream::Stream;

/// Interval between two `Alive` messages.
const BEAT: Duration = Duration::from_secs(1);
/// Delays before the agent tries the controller again: the first one, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// State of the agent's session with the controller.
#[derive(Clone, Default)]
pub struct AgentState(Arc<Mutex<(bool, String)>>);

impl AgentState {
    /// Sets whether the agent is connected, and the reason if it is not.
    fn set(&self, connected: bool, trouble: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (connected, trouble);
    }

    /// Whether the agent is connected, and the reason if it is not.
    pub fn get(&self) -> (bool, String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Input of the agent's thread.
pub enum AgentEvent {
    /// From the switch.
    Switch(SwitchEvent),
    /// From the controller, in the session with this number.
    Message(u64, ToSwitch),
    /// The session with this number has ended.
    Ended(u64, SessionError),
}

/// An open session.
struct Live {
    number: u64,
    stream: Stream,
    seals: Seals,
    agent: Agent,
}

/// State of the agent's thread.
pub struct AgentTask {
    key: KeyKind,
    name: String,
    ports: Vec<String>,
    controller: ControllerAddress,
    secret: Secret,
    handle: SwitchHandle,
    state: AgentState,
    events: SyncSender<AgentEvent>,
    up: Vec<bool>,
    live: Option<Live>,
    sessions: u64,
    retry: Duration,
    connect_at: Instant,
    beat_at: Instant,
    /// The last logged reason why there is no session.
    trouble: String,
}

impl AgentTask {
    /// The agent of the switch behind `handle`. `events` leads to [`AgentTask::run`].
    pub fn new(
        config: &SwitchConfig,
        secret: Secret,
        handle: SwitchHandle,
        state: AgentState,
        events: SyncSender<AgentEvent>,
    ) -> Self {
        AgentTask {
            key: config.key,
            name: config.name.clone(),
            ports: config.ports.clone(),
            controller: config.controller.clone(),
            secret,
            handle,
            state,
            events,
            up: vec![false; config.ports.len()],
            live: None,
            sessions: 0,
            retry: RETRY_MIN,
            connect_at: Instant::now(),
            beat_at: Instant::now(),
            trouble: String::new(),
        }
    }

    /// Runs until the process ends.
    pub fn run(mut self, events: &Receiver<AgentEvent>) {
        loop {
            let now = Instant::now();
            if self.live.is_none() && now >= self.connect_at {
                match self.connect() {
                    Ok(live) => self.live = Some(live),
                    Err(error) => self.fail(&error),
                }
                self.tell_links();
            }
            if now >= self.beat_at {
                self.tell(&ToController::Alive);
                self.beat_at = now + BEAT;
            }
            let next = if self.live.is_none() { self.connect_at.min(self.beat_at) } else { self.beat_at };
            match events.recv_timeout(next.saturating_duration_since(now)) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn connect(&mut self) -> Result<Live, SessionError> {
        let mut stream = Stream::connect(&self.controller)?;
        let hello = Hello { key: self.key, name: self.name.clone(), ports: self.ports.clone() };
        let (greeting, framed) = Greeting::new(&self.secret, &hello)?;
        stream.write_all(&framed)?;
        let message = read_frame(&mut stream).map_err(|error| match error {
            SessionError::Connection(error) if is_end(&error) => SessionError::Unanswered,
            error => error,
        })?;
        let (session, welcome) = greeting.welcomed(&message)?;
        let agent = Agent::new(Instant::now(), &self.secret, &session, &welcome);
        self.sessions += 1;
        let Session { to_switch, to_controller, .. } = session;
        self.read(stream.clone(), to_switch)?;
        self.note_session(&welcome);
        Ok(Live { number: self.sessions, stream, seals: to_controller, agent })
    }

    fn note_session(&mut self, welcome: &Welcome) {
        tracing::info!(controller = %self.controller, engine = ?welcome.engine, "connected to the controller");
        self.state.set(true, String::new());
        self.trouble.clear();
    }

    /// Starts a thread that reads the controller's messages.
    fn read(&self, mut stream: Stream, mut seals: Seals) -> Result<(), SessionError> {
        let (number, events) = (self.sessions, self.events.clone());
        let mut next = move || {
            let sealed = read_frame(&mut stream)?;
            ToSwitch::decode(&seals.open(&sealed)?).ok_or(SessionError::Protocol)
        };
        let read = move || {
            loop {
                let event = match next() {
                    Ok(message) => AgentEvent::Message(number, message),
                    Err(error) => AgentEvent::Ended(number, error),
                };
                let is_end = matches!(event, AgentEvent::Ended(..));
                if events.send(event).is_err() || is_end {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("byname-updates".into()).spawn(read)?;
        Ok(())
    }

    /// Ends the session if there is one, and schedules the next attempt.
    fn fail(&mut self, error: &SessionError) {
        if let Some(live) = self.live.take() {
            live.stream.close();
        }
        let trouble = error.to_string();
        // Log each reason once: the agent tries again and again.
        if trouble != self.trouble {
            tracing::warn!(controller = %self.controller, "no controller; the switch keeps forwarding: {trouble}");
        }
        self.state.set(false, trouble.clone());
        self.trouble = trouble;
        self.connect_at = Instant::now() + self.retry;
        self.retry = (self.retry * 2).min(RETRY_MAX);
    }

    fn take(&mut self, event: AgentEvent) {
        let current = self.live.as_ref().map(|live| live.number);
        match event {
            AgentEvent::Switch(SwitchEvent::Link { port, up }) => {
                self.up[port] = up;
                self.tell_links();
            }
            AgentEvent::Switch(SwitchEvent::Heard(report)) => {
                self.tell(&ToController::Heard { port: report.port as u8, source: report.source });
            }
            AgentEvent::Message(number, message) if current == Some(number) => self.obey(message),
            AgentEvent::Ended(number, error) if current == Some(number) => self.fail(&error),
            // From a session that is over.
            AgentEvent::Message(..) | AgentEvent::Ended(..) => {}
        }
    }

    fn obey(&mut self, message: ToSwitch) {
        let Some(live) = &mut self.live else { return };
        match live.agent.receive(Instant::now(), message) {
            Told::Nothing => {}
            Told::Plan(plan) => self.handle.set_plan(plan),
            Told::Changed => self.handle.table_changed(),
            Told::Table(key, fib) => {
                // Reset the delay only here: a controller that sends no tables may refuse this switch each time.
                self.retry = RETRY_MIN;
                self.handle.set_table(*key, fib);
            }
            Told::Ask => self.tell(&ToController::TableNeeded),
            Told::Refused(why) => self.fail(&SessionError::Refused(why)),
        }
    }

    fn tell_links(&mut self) {
        let links = ToController::Links(self.up.clone());
        self.tell(&links);
    }

    fn tell(&mut self, message: &ToController) {
        let Some(live) = &mut self.live else { return };
        if let Err(error) = live.stream.write_all(&live.seals.seal(&message.encode())) {
            self.fail(&error.into());
        }
    }
}

/// Whether the peer ended the connection, rather than a failure of the network.
fn is_end(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}
