//! The thread that keeps a switch in touch with its controller.
//!
//! It connects, and connects again; has the switch do as it is told; and tells what the switch hears.
//! Without a controller the switch goes on with what it has.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use byname_control::config::{ControllerAddress, SwitchConfig};
use byname_control::switch::message::{ToController, ToSwitch};
use byname_control::switch::session::{Hello, Seals, Secret, Session, SessionError, Welcome, hello_frame, read_frame};
use byname_control::switch::{Agent, Told};
use byname_face::switch::{SwitchEvent, SwitchHandle};

use super::status::AgentState;
use super::stream::Stream;

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// Before the controller is tried again: the first time, and at most.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// What the thread waits for.
pub enum Event {
    /// From the switch.
    Switch(SwitchEvent),
    /// From the controller, in the session of this number.
    Message(u64, ToSwitch),
    /// That session has ended.
    Ended(u64, SessionError),
}

/// A session, as long as it is on.
struct Live {
    number: u64,
    stream: Stream,
    seals: Seals,
    agent: Agent,
}

/// The thread's own.
pub struct Task {
    name: String,
    ports: Vec<String>,
    controller: ControllerAddress,
    secret: Secret,
    handle: SwitchHandle,
    state: AgentState,
    events: SyncSender<Event>,
    up: Vec<bool>,
    live: Option<Live>,
    sessions: u64,
    retry: Duration,
    connect_at: Instant,
    beat_at: Instant,
    /// What was logged last of why there is no session.
    trouble: String,
}

impl Task {
    pub fn new(
        config: &SwitchConfig,
        secret: Secret,
        handle: SwitchHandle,
        state: AgentState,
        events: SyncSender<Event>,
    ) -> Self {
        Task {
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
    pub fn run(mut self, events: &Receiver<Event>) {
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
        let hello = Hello::new(&self.name, self.ports.clone())?.encode();
        stream.write_all(&hello_frame(&hello))?;
        let sealed = read_frame(&mut stream)?;
        let (session, welcome) = Session::welcomed(&self.secret, &hello, &sealed)?;
        let agent = Agent::new(Instant::now(), &self.secret, &session, &welcome);
        self.sessions += 1;
        let Session { to_switch, to_controller, .. } = session;
        self.read(stream.try_clone()?, to_switch)?;
        self.note_session(&welcome);
        Ok(Live { number: self.sessions, stream, seals: to_controller, agent })
    }

    fn note_session(&mut self, welcome: &Welcome) {
        tracing::info!(controller = %self.controller, engine = ?welcome.engine, "the controller is there");
        self.state.set(true, String::new());
        self.trouble.clear();
    }

    /// Starts a thread that reads what the controller sends.
    fn read(&self, mut stream: Stream, mut seals: Seals) -> Result<(), SessionError> {
        let (number, events) = (self.sessions, self.events.clone());
        let mut next = move || {
            let sealed = read_frame(&mut stream)?;
            ToSwitch::decode(seals.open(&sealed)?).ok_or(SessionError::Protocol)
        };
        let read = move || {
            loop {
                let event = match next() {
                    Ok(message) => Event::Message(number, message),
                    Err(error) => Event::Ended(number, error),
                };
                let is_end = matches!(event, Event::Ended(..));
                if events.send(event).is_err() || is_end {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("byname-updates".into()).spawn(read)?;
        Ok(())
    }

    /// There is no session, or no more.
    fn fail(&mut self, error: &SessionError) {
        if let Some(live) = self.live.take() {
            live.stream.close();
        }
        let trouble = error.to_string();
        // Once: it is tried again and again.
        if trouble != self.trouble {
            tracing::warn!(controller = %self.controller, "no controller, the switch goes on with what it has: {trouble}");
        }
        self.state.set(false, trouble.clone());
        self.trouble = trouble;
        self.connect_at = Instant::now() + self.retry;
        self.retry = (self.retry * 2).min(RETRY_MAX);
    }

    fn take(&mut self, event: Event) {
        let current = self.live.as_ref().map(|live| live.number);
        match event {
            Event::Switch(SwitchEvent::Link { port, up }) => {
                self.up[port] = up;
                self.tell_links();
            }
            Event::Switch(SwitchEvent::Heard(report)) => {
                self.tell(&ToController::Heard { port: report.port as u8, source: report.source });
            }
            Event::Message(number, message) if current == Some(number) => self.obey(message),
            Event::Ended(number, error) if current == Some(number) => self.fail(&error),
            // Of a session that is over.
            Event::Message(..) | Event::Ended(..) => {}
        }
    }

    fn obey(&mut self, message: ToSwitch) {
        let Some(live) = &mut self.live else { return };
        match live.agent.receive(Instant::now(), message) {
            Told::Nothing => {}
            Told::Plan(plan) => self.handle.set_plan(plan),
            Told::Changed => self.handle.table_changed(),
            Told::Table(key, fib) => {
                // Only a controller that sends tables is worth coming back to at once.
                self.retry = RETRY_MIN;
                self.handle.set_table(*key, fib);
            }
            Told::Ask => self.tell(&ToController::TableNeeded),
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
