//! Kinds of packets, and what is asked of a table for each packet.

use std::ops::RangeInclusive;

use clap::{Args, ValueEnum};
use serde::Serialize;

/// A kind of packets, and the query for each packet.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Asking {
    /// Number of tags of a packet beyond those of a descriptor: a number, or a range A..B (both included).
    #[arg(long, default_value = "0..2", value_name = "A..B", value_parser = range)]
    pub extra_tags: RangeInclusive<u64>,
    /// How packets are made.
    #[arg(long, value_enum, default_value = "drawn")]
    pub traffic: Traffic,
    /// Share of packets made from a descriptor of the table; the others have unknown tags.
    #[arg(long, default_value_t = 1.0, value_name = "P")]
    pub match_rate: f64,
    /// Find all subsets, or only the largest.
    #[arg(long, value_enum, default_value = "all")]
    pub algorithm: Algorithm,
    /// Number of entries after which the search for all subsets ends.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub fanout: Option<u32>,
    /// What packets carry.
    #[arg(long, value_enum, default_value = "tags")]
    pub packets: Carried,
}

/// How packets are made: as in a workload, or by an attacker who wants to keep a router busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// From a descriptor of the table, with some more tags.
    Drawn,
    /// The maximum number of tags, all from descriptors of the table.
    Dense,
    /// The maximum number of tags, all from the most popular ones.
    Popular,
    /// Only a filter, with all bits set.
    Full,
}

/// Searches for subsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// All subsets [TagNet §3.1.2].
    All,
    /// The largest one [TagNet §3.1.3].
    Largest,
}

/// Content of packets. To an engine that keeps only filters, the kinds differ only in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Carried {
    /// The digests of their tags.
    Tags,
    /// Only a filter.
    Filter,
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) if low <= high && high <= 16 => Ok(low..=high),
        _ => Err("a number of tags, or a range A..B, up to 16".to_owned()),
    }
}
