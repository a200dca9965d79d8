//! Times that a simulated core takes.

use serde::{Deserialize, Serialize};

/// Times of one thread's work, in nanoseconds.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Default)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// A round, whatever there is to do.
    pub round_ns: f64,
    /// In each round, the rings to and from one other thread.
    pub rings_ns: f64,
    /// Counting the name of an Interest while hot names are spread.
    pub count_ns: f64,
    /// Moving an Interest.
    pub interest: Moving,
    /// Moving Data.
    pub data: Moving,
    /// Work of a thread that is alone. This includes parsing and hashing.
    pub alone: Forwarding,
    /// The same for one of several threads, for packets that it received and that are at home there.
    pub joined: Forwarding,
}

/// Times to move one packet through a thread, in nanoseconds.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Default)]
#[serde(deny_unknown_fields)]
pub struct Moving {
    /// The port receives it.
    pub receive_ns: f64,
    /// The thread that received it parses it, finds that another thread is its home, and pushes it there.
    pub give_ns: f64,
    /// Its home takes it from the ring, and reads it from the other core's cache, beyond the work for a packet that it
    /// received itself. May be below 0, because the packet is parsed.
    pub take_ns: f64,
    /// Its home pushes it to the thread that owns the face.
    pub push_output_ns: f64,
    /// This thread takes it from the ring.
    pub pop_output_ns: f64,
    /// The port sends it.
    pub send_ns: f64,
}

/// Times of a worker for one packet, in nanoseconds.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Default)]
#[serde(deny_unknown_fields)]
pub struct Forwarding {
    /// An Interest that is sent on.
    pub new_ns: f64,
    /// An Interest for a name that is pending.
    pub pending_ns: f64,
    /// An Interest that the content store answers.
    pub hit_ns: f64,
    /// An Interest that the store of hot names answers.
    pub hot_hit_ns: f64,
    /// Data that answers an Interest.
    pub data_ns: f64,
}

impl Costs {
    /// Equally long for each packet at its home, and nothing else.
    pub fn flat(service_ns: f64) -> Self {
        let forwarding = Forwarding {
            new_ns: service_ns,
            pending_ns: service_ns,
            hit_ns: service_ns,
            hot_hit_ns: service_ns,
            data_ns: service_ns,
        };
        Costs { alone: forwarding, joined: forwarding, ..Costs::default() }
    }

    /// Time of one thread for an exchange that the content store does not answer, beside the rounds.
    pub fn exchange_alone_ns(&self) -> f64 {
        let ports = |moving: &Moving| moving.receive_ns + moving.send_ns;
        ports(&self.interest) + ports(&self.data) + self.alone.new_ns + self.alone.data_ns
    }
}
