//! Parses counts and sizes with units.

use std::fmt;

/// Parses `64M`, `1.5G`, `4Ki`, `5000000`.
///
/// `k`, `M` and `G` are powers of 1000; `Ki`, `Mi` and `Gi` are powers of 1024. [Yuan §3.3] counts rules in the former,
/// [So §4.2] in the latter.
pub fn count(text: &str) -> Result<u64, BadCount> {
    let bad = || BadCount(text.to_owned());
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit: u64 = match unit {
        "" => 1,
        "k" | "K" => 1000,
        "M" => 1_000_000,
        "G" | "B" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err(bad()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(bad);
    }
    let number: f64 = number.parse().map_err(|_| bad())?;
    let value = number * unit as f64;
    // Above this, neighbouring 64-bit floats are more than one apart.
    if (0.0..9e15).contains(&value) && value.fract() == 0.0 { Ok(value as u64) } else { Err(bad()) }
}

/// The text is not a count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadCount(String);

impl fmt::Display for BadCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a count: write 5000, 64k, 1.5M or 1G (powers of 1000), or 64Mi (of 1024)", self.0)
    }
}

impl std::error::Error for BadCount {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_decimal_and_binary_units() {
        for (text, expected) in [
            ("0", 0),
            ("5000", 5000),
            ("64M", 64_000_000),
            ("1.5k", 1500),
            ("1B", 1_000_000_000),
            ("64Mi", 64 << 20),
            ("4Ki", 4096),
        ] {
            assert_eq!(count(text), Ok(expected), "{text}");
        }
        for text in ["", "M", "-1", "1.5", "1m", "64 M", "99999999999G", "1e3", "nan", "infM"] {
            assert!(count(text).is_err(), "{text}");
        }
    }
}
