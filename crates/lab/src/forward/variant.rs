//! Data planes to compare: an engine, a prefetch schedule, the number of packets in a burst, what threads share, and whether
//! somebody looks.

use std::fmt;
use std::str::FromStr;

use byname_forward::worker::Prefetch;
use byname_lookup::prefix::BURST_MAX;
use clap::ValueEnum;
use serde::{Serialize, Serializer};

use crate::prefix;

/// The word for a data plane whose threads share PIT entries of hot names.
const SHARED_PIT: &str = "shared-pit";

/// The word for a data plane whose threads send on each other's faces, and get the answers to their Interests themselves.
const LENT: &str = "lent";

/// The word for a data plane in which a name is at home where it is first asked for.
const FIRST_COME: &str = "first-come";

/// The word for a data plane of one thread, beside others of several.
const ONE_THREAD: &str = "one-thread";

/// What somebody looks at while packets are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Look {
    /// A trace of the prefix that covers nearest to one hundredth of all names, and somebody who reads it.
    Traced,
    /// The most popular prefixes.
    Counted,
}

impl Look {
    fn word(self) -> &'static str {
        match self {
            Look::Traced => "traced",
            Look::Counted => "counted",
        }
    }
}

/// Prefetch schedules of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// No prefetch, and packets come one by one: the "Naïve Packet Processing" of Hasegawa's slides.
    Naive,
    /// No prefetch.
    None,
    /// In each step of a packet, prefetch the memory that the same step of the next packet reads.
    Cascade,
    /// In each step, prefetch the memory that all packets of the burst read.
    All,
}

impl Schedule {
    /// The worker's setting.
    pub fn of_worker(self) -> Prefetch {
        match self {
            Schedule::Naive | Schedule::None => Prefetch::None,
            Schedule::Cascade => Prefetch::Cascade,
            Schedule::All => Prefetch::AllAtOnce,
        }
    }

    /// The setting of FIB engines that have one; `None` keeps the engine's default.
    pub fn of_engine(self) -> Option<prefix::Prefetch> {
        match self {
            Schedule::Naive | Schedule::None => Some(prefix::Prefetch::None),
            Schedule::Cascade => Some(prefix::Prefetch::Cascade),
            Schedule::All => None,
        }
    }
}

/// One data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The FIB's engine.
    pub engine: String,
    /// The schedule.
    pub prefetch: Schedule,
    /// Packets per burst; one in the naive schedule.
    pub burst: usize,
    /// Whether threads share PIT entries of hot names.
    pub shared_pit: bool,
    /// Whether threads send on each other's faces, and get the answers to their Interests themselves.
    pub lent: bool,
    /// Whether a name is at home where it is first asked for, and not where a hash of it says.
    pub first_come: bool,
    /// Whether it has one thread, however many the others have.
    pub one_thread: bool,
    /// What somebody looks at, if anybody does.
    pub look: Option<Look>,
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split('/');
        let engine = words.next().unwrap_or_default().to_owned();
        let prefetch = words.next().map_or(Ok(Schedule::All), |word| Schedule::from_str(word, false))?;
        let burst = words.next().map_or(Ok(BURST_MAX), burst)?;
        let (mut shared_pit, mut lent, mut first_come, mut one_thread, mut look) = (false, false, false, false, None);
        for word in words {
            match [Look::Traced, Look::Counted].into_iter().find(|look| look.word() == word) {
                Some(wanted) => look = Some(wanted),
                None if word == SHARED_PIT => shared_pit = true,
                None if word == LENT => lent = true,
                None if word == FIRST_COME => first_come = true,
                None if word == ONE_THREAD => one_thread = true,
                None => {
                    return Err(format!(
                        "an engine, a schedule, a burst, and perhaps {SHARED_PIT}, {LENT}, {FIRST_COME}, {ONE_THREAD}, traced or counted: compact/all/64"
                    ));
                }
            }
        }
        let burst = if prefetch == Schedule::Naive { 1 } else { burst };
        Ok(Variant { engine, prefetch, burst, shared_pit, lent, first_come, one_thread, look })
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schedule = self.prefetch.to_possible_value();
        let schedule = schedule.as_ref().map_or("", |value| value.get_name());
        write!(f, "{}/{schedule}/{}", self.engine, self.burst)?;
        if self.shared_pit {
            write!(f, "/{SHARED_PIT}")?;
        }
        if self.lent {
            write!(f, "/{LENT}")?;
        }
        if self.first_come {
            write!(f, "/{FIRST_COME}")?;
        }
        if self.one_thread {
            write!(f, "/{ONE_THREAD}")?;
        }
        self.look.map_or(Ok(()), |look| write!(f, "/{}", look.word()))
    }
}

impl Serialize for Variant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn burst(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(burst) if (1..=BURST_MAX).contains(&burst) => Ok(burst),
        _ => Err(format!("a burst has 1 to {BURST_MAX} packets")),
    }
}
