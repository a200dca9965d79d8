//! The progress of a thread, which another thread watches.
//!
//! A thread writes what it begins to do into one word, with a plain store to a cache line of its own. The watcher reads
//! the word now and then. If it has not changed for several readings, and the thread does not sleep, the thread hangs.
//! The word then says in what.
//!
//! Cost: a few stores for each round of a loop, and no system call.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Doing {
    /// It waits for something to do, or rests.
    Nothing,
    /// A port handles the readiness of its descriptors.
    Readiness,
    /// A port handles a deadline.
    Deadline,
    /// A port receives.
    Receive,
    /// A worker forwards.
    Forward,
    /// A port sends.
    Send,
    /// The thread carries out a command of the control side.
    Command,
    /// The control thread answers management.
    Management,
    /// The control thread writes routes into the FIB.
    Commit,
    /// Anything else.
    Other,
}

const DOINGS: [(Doing, &str); 10] = [
    (Doing::Nothing, "nothing"),
    (Doing::Readiness, "readiness"),
    (Doing::Deadline, "deadline"),
    (Doing::Receive, "receive"),
    (Doing::Forward, "forward"),
    (Doing::Send, "send"),
    (Doing::Command, "command"),
    (Doing::Management, "management"),
    (Doing::Commit, "commit"),
    (Doing::Other, "other"),
];

impl Doing {
    /// A word for logs.
    pub fn label(self) -> &'static str {
        DOINGS[self as usize].1
    }
}

/// Low bits of the word: index of a port.
const PORT_BITS: u32 = 16;
/// Bits for [`Doing`] above these.
const DOING_BITS: u32 = 8;
/// Index that stands for no port.
const NO_PORT: u64 = (1 << PORT_BITS) - 1;

#[repr(align(64))]
#[derive(Default)]
struct Word(AtomicU64);

struct Shared {
    name: String,
    word: Word,
    ports: Mutex<Vec<String>>,
}

/// The thread's side: notes what it does.
pub struct Pulse {
    shared: Arc<Shared>,
    /// Number of notes so far. It makes two equal notes in a row differ.
    beats: u64,
}

impl Pulse {
    /// A pulse of the thread with this name, which does nothing yet.
    pub fn new(name: impl Into<String>) -> Self {
        let shared = Shared { name: name.into(), word: Word::default(), ports: Mutex::default() };
        Pulse { shared: Arc::new(shared), beats: 0 }
    }

    /// The watcher's side.
    pub fn watched(&self) -> Watched {
        Watched { shared: Arc::clone(&self.shared), last: 0, unchanged: 0 }
    }

    /// Names the next port. Ports are numbered from 0.
    pub fn add_port(&self, name: &str) {
        self.shared.ports.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
    }

    /// Names another port in the place of an earlier one.
    pub fn rename_port(&self, port: usize, name: &str) {
        let mut ports = self.shared.ports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = ports.get_mut(port) {
            *known = name.to_owned();
        }
    }

    /// Notes what the thread begins to do.
    pub fn note(&mut self, doing: Doing) {
        self.write(doing, NO_PORT);
    }

    /// Notes what a port begins to do.
    pub fn note_port(&mut self, doing: Doing, port: usize) {
        self.write(doing, (port as u64).min(NO_PORT));
    }

    fn write(&mut self, doing: Doing, port: u64) {
        self.beats = self.beats.wrapping_add(1);
        let word = self.beats << (PORT_BITS + DOING_BITS) | u64::from(doing as u8) << PORT_BITS | port;
        self.shared.word.0.store(word, Ordering::Relaxed);
    }
}

/// The watcher's side of a [`Pulse`].
pub struct Watched {
    shared: Arc<Shared>,
    last: u64,
    /// Consecutive readings with the same word.
    unchanged: u32,
}

/// A thread that does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// Name of the thread.
    pub thread: String,
    /// What it began to do last.
    pub doing: Doing,
    /// Name of the port that it is about.
    pub port: Option<String>,
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not go on (stage {}", self.thread, self.doing.label())?;
        if let Some(port) = &self.port {
            write!(f, ", port {port}")?;
        }
        f.write_str(")")
    }
}

impl Watched {
    /// Name of the thread.
    pub fn thread(&self) -> &str {
        &self.shared.name
    }

    /// Number of readings in a row with the same word.
    pub fn unchanged(&self) -> u32 {
        self.unchanged
    }

    /// Reads the word. Returns what the thread does if it has done the same for `readings` readings, and does not wait.
    ///
    /// Readings are counted, and not time, because the system may suspend the whole process.
    pub fn read(&mut self, readings: u32) -> Option<Stalled> {
        let word = self.shared.word.0.load(Ordering::Relaxed);
        let doing = DOINGS[(word >> PORT_BITS) as usize % (1 << DOING_BITS) % DOINGS.len()].0;
        if word != std::mem::replace(&mut self.last, word) || doing == Doing::Nothing {
            self.unchanged = 0;
            return None;
        }
        self.unchanged = self.unchanged.saturating_add(1);
        if self.unchanged < readings {
            return None;
        }
        let ports = self.shared.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let port = ports.get((word & NO_PORT) as usize).cloned();
        Some(Stalled { thread: self.shared.name.clone(), doing, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_in_order() {
        for (at, (doing, label)) in DOINGS.into_iter().enumerate() {
            assert_eq!((doing as usize, doing.label()), (at, label));
        }
    }

    #[test]
    fn a_thread_that_stands_still_is_found() {
        let mut pulse = Pulse::new("t");
        pulse.add_port("udp4://0.0.0.0:6363");
        pulse.add_port("unix");
        let mut watched = pulse.watched();
        let mut reads = |pulse: &mut Pulse, note: Option<(Doing, usize)>, times: u32| {
            note.into_iter().for_each(|(doing, port)| pulse.note_port(doing, port));
            (0..times).filter_map(|_| watched.read(3)).collect::<Vec<_>>()
        };
        assert!(reads(&mut pulse, None, 9).is_empty(), "it has not begun");
        for _ in 0..9 {
            assert!(reads(&mut pulse, Some((Doing::Receive, 1)), 3).is_empty(), "it goes on");
        }
        let found = reads(&mut pulse, None, 1);
        assert_eq!(found[0].to_string(), "t does not go on (stage receive, port unix)");
        assert!(reads(&mut pulse, Some((Doing::Nothing, 1)), 9).is_empty(), "it sleeps");
        pulse.note(Doing::Forward);
        let found: Vec<_> = (0..4).filter_map(|_| watched.read(3)).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].doing, &found[0].port), (Doing::Forward, &None));
    }
}
