//! `queues`: the number of packet threads that serve one interface.

use byname_forward::dispatch::WORKERS_MAX;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// Number of an interface's queues that have ports of their own. Thread n, of N, has the queues n, n + N and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Queues {
    /// One for each packet thread, as far as the interface has queues.
    #[default]
    Auto,
    /// So many, as far as the interface has them.
    Limit(usize),
}

impl Queues {
    /// Number of ports that are wanted, with `threads` packet threads.
    pub fn ports(self, threads: usize) -> usize {
        match self {
            Queues::Auto => threads,
            Queues::Limit(limit) => limit,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(i64),
    Word(String),
}

impl<'de> Deserialize<'de> for Queues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || D::Error::custom(format!("wrong number of queues; write 1 to {WORKERS_MAX}, or \"auto\""));
        match Written::deserialize(deserializer).map_err(|_| wrong())? {
            Written::Number(number) => {
                let limit = usize::try_from(number).ok().filter(|limit| (1..=WORKERS_MAX).contains(limit));
                limit.map(Queues::Limit).ok_or_else(wrong)
            }
            Written::Word(word) if word == "auto" => Ok(Queues::Auto),
            Written::Word(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("byname.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn queues_are_a_number_or_auto() {
        let of = |line: &str| parse(&format!("[[faces.ethernet]]\ninterface = \"eth0\"\n{line}"));
        let queues = |line: &str| of(line).expect("good").faces.ethernet[0].queues;
        assert_eq!((queues(""), queues("queues = \"auto\"")), (Queues::Auto, Queues::Auto));
        assert_eq!(queues("queues = 2"), Queues::Limit(2));
        let memif = parse("[[faces.memif]]\nsocket = \"/a\"\nqueues = 3").expect("good").faces.memif[0].queues;
        assert_eq!([memif.ports(2), Queues::Auto.ports(4)], [3, 4]);
        for bad in ["0", "-1", "65", "\"all\"", "true"] {
            let error = of(&format!("queues = {bad}")).expect_err("no such number");
            assert!(error.contains("write 1 to 64, or \"auto\""), "{error}");
        }
    }
}
