//! What packets of a table are like, and what they ask for.

use std::ops::RangeInclusive;

use clap::{Args, ValueEnum};
use serde::Serialize;

/// One kind of packets, and what is asked of each.
#[derive(Args, Clone, Debug)]
pub struct Asking {
    /// Tags that packets have beside those of a descriptor: a number, or a range A..B, both included.
    #[arg(long, default_value = "0..2", value_name = "A..B", value_parser = range)]
    pub extra_tags: RangeInclusive<u64>,
    /// How packets come about.
    #[arg(long, value_enum, default_value = "drawn")]
    pub traffic: Traffic,
    /// Share of packets made from a descriptor of the table; the others have unknown tags.
    #[arg(long, default_value_t = 1.0, value_name = "P")]
    pub match_rate: f64,
    /// Find all subsets, or the largest.
    #[arg(long, value_enum, default_value = "all")]
    pub algorithm: Algorithm,
    /// Entries after which the search for all ends.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub fanout: Option<u32>,
    /// What packets carry.
    #[arg(long, value_enum, default_value = "tags")]
    pub packets: Carried,
}

/// How packets come about: as a workload has them, or as somebody makes them who wants a router to be
/// busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// From a descriptor of the table, and some tags more.
    Drawn,
    /// As many tags as a packet takes, of descriptors of the table.
    Dense,
    /// As many tags as a packet takes, of the most popular ones.
    Popular,
    /// A filter alone, with all bits.
    Full,
}

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// All subsets [TagNet §3.1.2].
    All,
    /// The largest one [TagNet §3.1.3].
    Largest,
}

/// What packets carry. An engine that keeps filters only makes no difference between them but in
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Carried {
    /// Their tags' digests.
    Tags,
    /// A filter alone.
    Filter,
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) if low <= high && high <= 16 => Ok(low..=high),
        _ => Err("so many tags, or a range A..B, of at most 16".to_owned()),
    }
}
