//! JSON and words for people: what the command line and the dashboard both show.

pub mod explain;
pub mod trace;

use byname_wire::NackReason;
use serde_json::Value;

use super::tlv::ControlParameters;

/// The word for a Nack's reason.
pub fn nack_word(number: u64) -> &'static str {
    match NackReason::from_number(number) {
        NackReason::None => "none",
        NackReason::Congestion => "congestion",
        NackReason::Duplicate => "duplicate",
        NackReason::NoRoute => "no-route",
    }
}

/// Origins that have a name. Others are shown as numbers.
const ORIGINS: &[(u64, &str)] = &[
    (0, "app"),
    (64, "autoreg"),
    (65, "client"),
    (66, "autoconf"),
    (128, "nlsr"),
    (129, "prefixann"),
    (200, "fleet"),
    (201, "gribi"),
    (255, "static"),
];

/// The word for a route's origin.
pub fn origin_word(number: u64) -> String {
    let known = ORIGINS.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| number.to_string(), |(_, word)| (*word).to_owned())
}

/// Parses the word or the number of a route's origin.
pub fn parse_origin(text: &str) -> Result<u64, String> {
    if let Some((number, _)) = ORIGINS.iter().find(|(_, word)| *word == text) {
        return Ok(*number);
    }
    let words: Vec<&str> = ORIGINS.iter().map(|(_, word)| *word).collect();
    text.parse().map_err(|_| format!("must be a number or one of {}", words.join(", ")))
}

/// The parameters that are set, with the names that the command line uses.
pub fn parameters_json(parameters: &ControlParameters) -> Value {
    let numbers = [
        ("face_id", parameters.face_id),
        ("origin", parameters.origin),
        ("cost", parameters.cost),
        ("capacity", parameters.capacity),
        ("count", parameters.count),
        ("flags", parameters.flags),
        ("mask", parameters.mask),
        ("expires_in_ms", parameters.expiration_period_ms),
        ("persistency", parameters.face_persistency),
        ("base_congestion_marking_interval_ns", parameters.base_congestion_marking_interval_ns),
        ("default_congestion_threshold_bytes", parameters.default_congestion_threshold_bytes),
        ("mtu", parameters.mtu),
        ("thread", parameters.thread),
    ];
    let texts = [
        ("name", parameters.name.as_ref().map(ToString::to_string)),
        ("remote_uri", parameters.uri.clone()),
        ("local_uri", parameters.local_uri.clone()),
        ("strategy", parameters.strategy.as_ref().map(|strategy| strategy.0.to_string())),
    ];
    let numbers = numbers.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?))));
    let texts = texts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?))));
    Value::Object(texts.chain(numbers).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_both_ways() {
        for (number, word) in ORIGINS {
            assert_eq!(origin_word(*number), *word);
            assert_eq!(parse_origin(word), Ok(*number));
        }
        assert_eq!(origin_word(7), "7");
        assert_eq!(parse_origin("7"), Ok(7));
        assert!(parse_origin("x").unwrap_err().contains("static"));
    }
}
