//! A new process takes over from the running one, so that a restart or an upgrade closes no connection.
//!
//! `byname restart`, or SIGUSR2, makes the running process start its program again, with a socket to it as standard
//! input. Over that socket:
//!
//! 1. The old process offers its shared sockets. The new one reads its configuration, builds its tables, and opens its
//!    ports on these sockets. It says [`ToOld::Ready`].
//! 2. The old process answers no more commands, and tells its routes and settings ([`ToNew::Records`]). Packets are
//!    still forwarded. The new one builds its tables from them. Then it asks for the content stores
//!    ([`ToOld::WantsCached`]), and says [`ToOld::Installed`].
//! 3. The old process freezes its packet threads, and tells its faces with their descriptors ([`ToNew::Faces`]). The new
//!    one takes them, and says [`ToOld::Attached`].
//! 4. The old process closes its files, says [`ToNew::Go`], and ends. The new one opens the files, and begins.
//!
//! Up to the last step the old process has everything, and goes on if the new one fails, ends, or takes too long. If the
//! old process ends before it says [`ToNew::Go`], the new one begins, because nobody else has the faces then.
//!
//! `departure` is the part of the old process, `arrival` that of the new one.

mod arrival;
mod content;
mod departure;
mod parcel;
mod program;
mod taken;
mod talk;

use byname_face::handover::{FaceRecord, SocketRecord};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::initial::Former;
use content::CachedRecord;

pub use arrival::Arrival;
pub use departure::{Departure, parcel_of_sockets};
pub use program::Program;
pub use taken::Taken;

/// Version of these messages. A process refuses to take over from one that speaks another version.
const PROTOCOL: u32 = 1;

/// A message to the new process.
#[derive(Debug, Serialize, Deserialize)]
enum ToNew {
    /// The first message.
    Offer(Offer),
    /// Sockets, each with a descriptor.
    Sockets(Vec<SocketRecord>),
    /// There are no more sockets.
    SocketsEnd,
    /// A `control::state::records::Snapshot`.
    Records(ByteBuf),
    /// Descriptors of an application, in lists as its commands have them.
    Tags {
        /// Its face.
        face: u64,
        /// The lists.
        lists: Vec<ByteBuf>,
    },
    /// There are no more records.
    RecordsEnd {
        /// Number of the next notification of a face's event.
        next_event: u64,
        /// What the configuration has made.
        #[serde(default)]
        configured: Former,
    },
    /// Data of the content stores, as an answer to [`ToOld::WantsCached`].
    Cached(Vec<CachedRecord>),
    /// There is no more of it.
    CachedEnd {
        /// Data that the content stores had.
        all: usize,
    },
    /// Faces.
    Faces {
        /// Their states.
        faces: Vec<FaceRecord>,
        /// Whether each has one of the message's descriptors.
        connected: Vec<bool>,
    },
    /// There are no more faces.
    FacesEnd {
        /// The number of each thread's next face.
        next_ids: Vec<u64>,
        /// Interests for management that nobody has answered, with the faces that they came from.
        waiting: Vec<(u64, ByteBuf)>,
    },
    /// The faces are the new process's now.
    Go {
        /// When the old process received its last packet, in microseconds since the Unix epoch.
        frozen_unix_us: u64,
    },
}

/// What the old process says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    protocol: u32,
    version: String,
    process: u32,
    threads: usize,
    /// Whether it answers [`ToOld::WantsCached`].
    #[serde(default)]
    has_cached: bool,
}

/// A message to the old process.
#[derive(Debug, Serialize, Deserialize)]
enum ToOld {
    /// Configuration, tables and ports are good.
    Ready,
    /// It wants this many Data of the content stores.
    WantsCached {
        /// How many at most.
        max: usize,
    },
    /// Routes and settings are in place.
    Installed,
    /// The faces are in place.
    Attached,
    /// It cannot take over.
    Failed(String),
}
