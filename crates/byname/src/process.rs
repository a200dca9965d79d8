//! How a long-running process ends: on a signal, or when one of its threads fails. And how it is asked to read its
//! configuration again: by SIGHUP, or by a command.
//!
//! A router with only some of its threads would forward without management, or the other way round. So a thread that
//! panics ends the process ([`end_on_panic`]). A thread that returns unasked ends it too ([`Process::wait`]). The
//! service manager then restarts byname.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, anyhow};
use byname_control::mgmt::reload::{ReloadRequest, Reloads};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::exit;

/// Makes a panic in any thread end the process with the code [`exit::PANICKED`], after a report on standard error.
pub fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        let thread = thread::current();
        // Standard error may be closed. The process must end all the same.
        let _ = writeln!(
            io::stderr(),
            "byname ends: its thread \"{}\" has failed, and the others cannot go on without it. \
             This is a bug in byname: please report it, with the lines above.",
            thread.name().unwrap_or("without a name")
        );
        std::process::exit(i32::from(exit::PANICKED));
    }));
}

/// Most commands that wait until they are carried out.
const REQUESTS_MAX: usize = 16;

/// Calls `end` on the first SIGTERM or SIGINT. The second one ends the process at once. Calls `hang_up` on SIGHUP.
pub fn on_signal(
    mut end: impl FnMut() + Send + 'static,
    mut hang_up: impl FnMut() + Send + 'static,
) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot watch for signals")?;
    let watch = move || {
        let mut asked = false;
        for signal in signals.forever() {
            match signal {
                SIGHUP => hang_up(),
                _ if asked => std::process::exit(i32::from(exit::INTERRUPTED)),
                _ => {
                    asked = true;
                    end();
                }
            }
        }
    };
    thread::Builder::new().name("byname-signals".into()).spawn(watch).context("cannot watch for signals")?;
    Ok(())
}

/// Logs that SIGHUP has no effect.
pub fn ignore_hang_up() {
    tracing::info!("SIGHUP has no effect here: a restart reads the configuration again");
}

/// What the process is asked to do.
#[derive(Debug)]
pub enum Wanted {
    /// End, by a signal.
    End,
    /// Read the configuration again, by SIGHUP.
    Reload,
    /// Hand over to a new process, by SIGUSR2.
    Restart,
    /// Carry out a command of the module `config`.
    Request(ReloadRequest),
    /// Nothing; the time has come.
    Nothing,
}

enum Event {
    Wanted(Wanted),
    /// The thread with this name has ended.
    Ended(&'static str),
}

/// The threads that the process cannot run without, and the signals that end it.
pub struct Process {
    events: Sender<Event>,
    happened: Receiver<Event>,
    running: Vec<&'static str>,
    /// Threads that may end.
    released: Vec<&'static str>,
    /// Number of commands that wait.
    waiting: Arc<AtomicUsize>,
}

impl Process {
    /// Starts to watch for signals. Signals that come before [`Process::wait`] are kept for it.
    pub fn begin() -> anyhow::Result<Self> {
        let (events, happened) = mpsc::channel();
        let (end, hang_up) = (events.clone(), events.clone());
        // The receiver is gone only when the process is ending.
        on_signal(
            move || drop(end.send(Event::Wanted(Wanted::End))),
            move || drop(hang_up.send(Event::Wanted(Wanted::Reload))),
        )?;
        Ok(Process { events, happened, running: Vec::new(), released: Vec::new(), waiting: Arc::default() })
    }

    /// Heeds SIGUSR2, too, which asks for a restart.
    pub fn heed_restarts(&self) -> anyhow::Result<()> {
        let (events, mut signals) = (self.events.clone(), Signals::new([SIGUSR2]).context("cannot watch for signals")?);
        let watch = move || {
            for _ in signals.forever() {
                let _ = events.send(Event::Wanted(Wanted::Restart));
            }
        };
        thread::Builder::new().name("byname-restarts".into()).spawn(watch).context("cannot watch for signals")?;
        Ok(())
    }

    /// Watches for the end of a thread. `what` names the thread in messages.
    pub fn watch(&mut self, what: &'static str, watched: JoinHandle<()>) -> anyhow::Result<()> {
        let events = self.events.clone();
        let watch = move || {
            // The panic hook ends the process before `join` could return an error.
            let _ = watched.join();
            let _ = events.send(Event::Ended(what));
        };
        thread::Builder::new().name("byname-watch".into()).spawn(watch).context("cannot watch a thread")?;
        self.running.push(what);
        Ok(())
    }

    /// Allows a watched thread to end.
    pub fn release(&mut self, what: &'static str) {
        if let Some(at) = self.running.iter().position(|running| *running == what) {
            self.released.push(self.running.swap_remove(at));
        }
    }

    /// Passes commands of the module `config` to [`Process::next`].
    pub fn requests(&self) -> Reloads {
        let (events, waiting) = (self.events.clone(), Arc::clone(&self.waiting));
        Box::new(move |request| {
            let has_place = waiting.fetch_add(1, Ordering::Relaxed) < REQUESTS_MAX;
            if !has_place {
                waiting.fetch_sub(1, Ordering::Relaxed);
            }
            has_place && events.send(Event::Wanted(Wanted::Request(request))).is_ok()
        })
    }

    /// Waits for a signal that ends the process. SIGHUP has no effect.
    ///
    /// # Errors
    /// A watched thread has ended by itself.
    pub fn wait(&mut self) -> anyhow::Result<()> {
        loop {
            match self.next(None)? {
                Wanted::End => return Ok(()),
                _ => ignore_hang_up(),
            }
        }
    }

    /// Waits for what the process is asked to do next, until `deadline` if there is one.
    ///
    /// # Errors
    /// A watched thread has ended by itself.
    pub fn next(&mut self, deadline: Option<Instant>) -> anyhow::Result<Wanted> {
        loop {
            let event = match deadline {
                // An error cannot happen: `self` owns a sender.
                None => self.happened.recv().unwrap_or(Event::Wanted(Wanted::End)),
                Some(at) => match self.happened.recv_timeout(at.saturating_duration_since(Instant::now())) {
                    Ok(event) => event,
                    Err(_) => return Ok(Wanted::Nothing),
                },
            };
            match event {
                Event::Wanted(wanted) => {
                    if matches!(wanted, Wanted::Request(_)) {
                        self.waiting.fetch_sub(1, Ordering::Relaxed);
                    }
                    return Ok(wanted);
                }
                Event::Ended(what) => match self.released.iter().position(|released| *released == what) {
                    Some(at) => drop(self.released.swap_remove(at)),
                    None => return Err(anyhow!("the {what} has ended by itself; the log says why")),
                },
            }
        }
    }

    /// Waits until all watched threads have ended. The caller must have told them to end.
    pub fn join(mut self) {
        while !self.running.is_empty()
            && let Ok(event) = self.happened.recv()
        {
            if let Event::Ended(ended) = event {
                // Several threads may have one name.
                if let Some(at) = self.running.iter().position(|running| *running == ended) {
                    self.running.swap_remove(at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use byname_control::config::Config;
    use byname_web::{Probes, WebServer};

    use super::*;
    use crate::odd_port::OddPort;
    use crate::run;

    /// Environment variable that tells the child which thread must panic.
    const VARIABLE: &str = "BYNAME_TEST_PANIC_IN";

    /// Runs in a process of its own, as a child of the next test.
    #[test]
    #[ignore = "panics: the next test runs it"]
    fn a_thread_panics() {
        end_on_panic();
        let which = std::env::var(VARIABLE).expect("the parent says which thread");
        let config = Config::default();
        let authorizer = config.authorizer().expect("no files");
        let forwarder = run::start_forwarder(&config, authorizer, Vec::new(), Vec::new()).expect("threads");
        match which.as_str() {
            "web" => {
                let probes = Probes { live: Box::new(|| Ok(())), ready: Box::new(|| Ok(())), certificate: None };
                let server =
                    WebServer::start(([127, 0, 0, 1], 0).into(), |_| panic!("deliberate"), probes).expect("a port");
                let mut stream = std::net::TcpStream::connect(server.address()).expect("it listens");
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
                let _ = stream.read_to_end(&mut Vec::new());
            }
            "control" => drop(forwarder.control.snapshots(0).ask(|_| panic!("deliberate"))),
            "packets" => {
                let broken = OddPort { name: "broken", on_start: || panic!("deliberate"), on_receive: None };
                drop(forwarder.handle.add_ports(0, vec![Box::new(broken)]));
            }
            _ => drop(thread::spawn(|| panic!("deliberate")).join()),
        }
        // Without the hook, the process would exit normally.
        thread::sleep(Duration::from_secs(2));
    }

    #[test]
    fn a_panic_in_any_thread_ends_the_process() {
        for which in ["another", "web", "control", "packets"] {
            let child = Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", "process::tests::a_thread_panics", "--ignored", "--nocapture"])
                .env(VARIABLE, which)
                .stdin(Stdio::null())
                .output()
                .expect("this test again");
            let said = String::from_utf8_lossy(&child.stderr);
            assert_eq!(child.status.code(), Some(i32::from(exit::PANICKED)), "{which}: {said}");
            assert!(said.contains("deliberate") && said.contains("byname ends: its thread"), "{which}: {said}");
        }
    }

    #[test]
    fn a_thread_that_ends_by_itself_is_an_error() {
        let mut process = Process::begin().expect("signals");
        process.watch("packet thread", thread::spawn(|| {})).expect("a thread");
        let error = process.wait().expect_err("nobody asked it to end").to_string();
        assert!(error.contains("the packet thread has ended by itself"), "{error}");
    }
}
