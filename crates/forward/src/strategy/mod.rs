//! Forwarding strategies: one file each, behind one trait.

use byname_wire::{Name, NameRef};
use thiserror::Error;

/// Why a strategy name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StrategyError {
    /// No such strategy, or no such version of it.
    #[error("no such strategy")]
    Unknown,
    /// Its parameters are malformed.
    #[error("malformed strategy parameters")]
    BadParameters,
}

/// Which strategy serves which names.
#[derive(Debug, Clone)]
pub struct StrategyChoice {
    /// The namespace.
    pub prefix: Name,
    /// The strategy's full instance name, as from [`instance_name`].
    pub strategy: Name,
}

/// The full name (version and parameters included) of the strategy that `name` asks for:
/// `/localhost/nfd/strategy/best-route` gives `/localhost/nfd/strategy/best-route/v=5`.
pub fn instance_name(_name: NameRef<'_>) -> Result<Name, StrategyError> {
    todo!()
}
