//! The condition of the router, for supervisors that ask over HTTP.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use byname_web::Probes;

/// A part of the router's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It binds sockets, and creates faces and routes of the configuration.
    Starting,
    /// It forwards, and management answers.
    Ready,
    /// It ends.
    Ending,
}

/// The state of the router, for supervisors.
#[derive(Default)]
pub struct Health {
    phase: AtomicU8,
    /// Threads that do not go on, in words. First those that end the service, then others.
    stalled: Mutex<[Vec<String>; 2]>,
}

impl Health {
    /// Begins a phase.
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Notes the threads that do not go on: those that will not, and those that may.
    pub fn set_stalled(&self, dead: Vec<String>, slow: Vec<String>) {
        *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = [dead, slow];
    }

    /// The answers for the web server.
    pub fn probes(self: &Arc<Self>) -> Probes {
        let (live, ready) = (Arc::clone(self), Arc::clone(self));
        Probes { live: Box::new(move || live.is_live()), ready: Box::new(move || ready.is_ready()), certificate: None }
    }

    fn is_live(&self) -> Result<(), String> {
        let [dead, _] = &*self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        if dead.is_empty() { Ok(()) } else { Err(dead.join("\n")) }
    }

    fn is_ready(&self) -> Result<(), String> {
        let phase = self.phase.load(Ordering::Relaxed);
        if phase == Phase::Starting as u8 {
            return Err("the router is starting".to_owned());
        }
        if phase == Phase::Ending as u8 {
            return Err("the router is ending".to_owned());
        }
        let stalled = self.stalled.lock().unwrap_or_else(PoisonError::into_inner).concat();
        if stalled.is_empty() { Ok(()) } else { Err(stalled.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_is_ready_between_start_and_end_if_all_threads_go_on() {
        let health = Arc::<Health>::default();
        let probes = health.probes();
        let (live, ready) = (probes.live, probes.ready);
        assert_eq!((live(), ready()), (Ok(()), Err("the router is starting".into())));
        health.set(Phase::Ready);
        assert_eq!((live(), ready()), (Ok(()), Ok(())));
        health.set_stalled(vec![], vec!["slow".into()]);
        assert_eq!((live(), ready()), (Ok(()), Err("slow".into())));
        health.set_stalled(vec!["dead".into()], vec!["slow".into()]);
        assert_eq!((live(), ready()), (Err("dead".into()), Err("dead\nslow".into())));
        health.set_stalled(vec![], vec![]);
        health.set(Phase::Ending);
        assert_eq!((live(), ready()), (Ok(()), Err("the router is ending".into())));
    }
}
