//! `byname strategy`.

use byname_control::mgmt::tlv::{ControlParameters, StrategyName};
use byname_wire::Name;
use serde::Serialize;

use super::view::StrategyChoice;
use super::{decode, human, print, show, text};
use crate::exit::{self, Failure};
use crate::tools::parse_name;
use byname_client::Link;
use byname_client::management::{ManagementError, command, dataset};

/// Prefix of the names of strategies.
const STRATEGY_PREFIX: &str = "/localhost/nfd/strategy";

/// Arguments of `byname strategy`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct StrategyArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List strategy choices (the default)
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the strategy that forwards a name
    Show {
        /// Name to look up
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set the strategy of a prefix
    #[command(after_help = "Examples:\n  byname strategy set /live multicast\n  \
                            byname strategy set / /localhost/nfd/strategy/best-route/v=5\n  \
                            byname strategy set /far asf/v=5/probing-interval~30000")]
    Set {
        /// Prefix that gets the strategy
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// Name of the strategy, or its last part: best-route, multicast, adaptive (also called asf), access, random,
        /// self-learning
        #[arg(value_parser = parse_strategy)]
        strategy: Name,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove the strategy of a prefix; the next shorter prefix decides
    Unset {
        /// Prefix whose strategy is removed
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Serialize)]
struct Unset {
    prefix: String,
}

/// Parses a strategy's name, full or short.
/// Parses the name of a strategy, or its last part.
pub fn parse_strategy(text: &str) -> Result<Name, String> {
    if text.starts_with('/') || text.starts_with("ndn:") {
        return parse_name(text);
    }
    parse_name(&format!("{STRATEGY_PREFIX}/{text}"))
}

impl StrategyArgs {
    /// Whether the command only shows what is.
    pub fn only_shows(&self) -> bool {
        matches!(self.command, None | Some(Command::List { .. } | Command::Show { .. }))
    }
}

/// Runs `byname strategy`.
pub fn run(args: StrategyArgs, client: &mut Link) -> anyhow::Result<()> {
    match args.command.unwrap_or(Command::List { json: args.json }) {
        Command::List { json } => {
            let choices = list(client)?;
            let text = || text::columns(&choices.iter().map(StrategyChoice::items).collect::<Vec<_>>());
            show(json, &choices, text, |width| human::strategies(&choices, width))?;
        }
        Command::Show { prefix, json } => {
            let choices = list(client)?;
            let choice = effective(&choices, &prefix)
                .ok_or_else(|| Failure::new(exit::NOT_FOUND, format!("no strategy covers {prefix}")))?;
            print(json, choice, || text::lines(&choice.items()))?;
        }
        Command::Set { prefix, strategy, json } => set(client, prefix, strategy, json)?,
        Command::Unset { prefix, json } => {
            if prefix.as_ref().is_empty() {
                let message = "/ must have a strategy; choose another with `byname strategy set / STRATEGY`";
                return Err(Failure::new(exit::USAGE, message).into());
            }
            let parameters = ControlParameters { name: Some(prefix.clone()), ..ControlParameters::default() };
            command(client, "strategy-choice", "unset", &parameters)?;
            let unset = Unset { prefix: prefix.to_string() };
            print(json, &unset, || format!("strategy-unset prefix={prefix}\n"))?;
        }
    }
    Ok(())
}

/// Fetches all strategy choices.
pub fn list(client: &mut Link) -> anyhow::Result<Vec<StrategyChoice>> {
    decode::strategy_choices(&dataset(client, "strategy-choice", "list", None)?)
}

fn set(client: &mut Link, prefix: Name, strategy: Name, json: bool) -> anyhow::Result<()> {
    let parameters = ControlParameters {
        name: Some(prefix.clone()),
        strategy: Some(StrategyName(strategy.clone())),
        ..ControlParameters::default()
    };
    let answer = match command(client, "strategy-choice", "set", &parameters) {
        Err(ManagementError::Refused { code: 404, .. }) => {
            let mut known: Vec<String> = list(client)?.into_iter().map(|choice| choice.strategy).collect();
            known.sort();
            known.dedup();
            let message = format!("the forwarder has no strategy {strategy}; in use are {}", known.join(", "));
            return Err(Failure::new(exit::NOT_FOUND, message).into());
        }
        other => other?,
    };
    let choice = StrategyChoice {
        prefix: answer.name.unwrap_or(prefix).to_string(),
        strategy: answer.strategy.map_or(strategy, |strategy| strategy.0).to_string(),
    };
    print(json, &choice, || format!("strategy-set {}\n", text::line(&choice.items())))
}

/// The choice with the longest prefix that covers `name`.
fn effective<'a>(choices: &'a [StrategyChoice], name: &Name) -> Option<&'a StrategyChoice> {
    choices
        .iter()
        .filter_map(|choice| {
            let prefix: Name = choice.prefix.parse().ok()?;
            prefix.as_ref().is_prefix_of(&name.as_ref()).then(|| (prefix.as_ref().len(), choice))
        })
        .max_by_key(|(len, _)| *len)
        .map(|(_, choice)| choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_of_strategies() {
        assert_eq!(parse_strategy("multicast").unwrap().to_string(), "/localhost/nfd/strategy/multicast");
        assert_eq!(parse_strategy("multicast/v=4").unwrap().to_string(), "/localhost/nfd/strategy/multicast/v=4");
        assert_eq!(parse_strategy("/x").unwrap().to_string(), "/x");
    }

    #[test]
    fn the_longest_prefix_decides() {
        let choices: Vec<StrategyChoice> = [("/", "s"), ("/a", "t"), ("/a/b/c", "u")]
            .map(|(prefix, strategy)| StrategyChoice { prefix: prefix.into(), strategy: strategy.into() })
            .into();
        let effective = |name: &str| effective(&choices, &name.parse().unwrap()).unwrap().strategy.clone();
        assert_eq!(effective("/a/b"), "t");
        assert_eq!(effective("/a/b/c"), "u");
        assert_eq!(effective("/ab"), "s");
    }
}
