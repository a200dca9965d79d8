//! `[capture]` and `[faults]`: for observing packets and for injecting faults.

use std::path::PathBuf;
use std::time::Duration;

use byname_face::fault::Faults as PortFaults;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::value;

/// `[capture]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Capture {
    /// The pcap file. Empty: no capture.
    pub file: PathBuf,
    /// Size at which the capture ends, in bytes.
    #[serde(deserialize_with = "value::bytes")]
    pub max: usize,
}

impl Default for Capture {
    fn default() -> Self {
        Capture { file: PathBuf::new(), max: 1 << 30 }
    }
}

/// `[faults]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Share of packets to drop.
    #[serde(deserialize_with = "share")]
    pub loss: f64,
    /// Share of packets to duplicate.
    #[serde(deserialize_with = "share")]
    pub duplication: f64,
    /// Share of packets in which one bit is flipped.
    #[serde(deserialize_with = "share")]
    pub corruption: f64,
    /// Share of packets that later packets overtake.
    #[serde(deserialize_with = "share")]
    pub reordering: f64,
    /// Delay of every packet.
    #[serde(deserialize_with = "value::duration")]
    pub delay: Duration,
    /// Seed of the random numbers. The same seed and packets give the same faults.
    pub seed: u64,
}

impl Default for Faults {
    fn default() -> Self {
        let none = Duration::ZERO;
        Faults { loss: 0.0, duplication: 0.0, corruption: 0.0, reordering: 0.0, delay: none, seed: 1 }
    }
}

impl Faults {
    /// The faults of one direction. `None` if none are configured.
    pub fn of_port(&self) -> Option<PortFaults> {
        let faults = PortFaults {
            loss: self.loss,
            duplication: self.duplication,
            corruption: self.corruption,
            reordering: self.reordering,
            delay_min: self.delay,
            delay_max: self.delay,
            ..PortFaults::default()
        };
        (faults != PortFaults::default()).then_some(faults)
    }
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(deserializer)?;
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    Err(D::Error::custom(format!("{share} is not a share; write 0.0 (never) to 1.0 (always)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_shares_and_none_is_none() {
        let parse = |text: &str| toml::from_str::<Faults>(text);
        assert_eq!(parse("").expect("defaults").of_port(), None);
        let faults = parse("loss = 0.1\ndelay = \"5 ms\"").expect("good").of_port().expect("something goes wrong");
        assert_eq!((faults.loss, faults.delay_max), (0.1, Duration::from_millis(5)));
        assert!(parse("loss = 1.5").is_err_and(|e| e.message().contains("1.5 is not a share")));
    }
}
