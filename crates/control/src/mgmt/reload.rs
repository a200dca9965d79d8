//! The module `config`: commands to read the configuration file again, and to change what else the process decides.
//!
//! Management checks rights and parameters. The process reads the file, and changes the router. This takes time, so the
//! answer comes later, and other commands are handled meanwhile.

use std::time::Duration;

use byname_forward::Packet;
use byname_wire::{Interest, Name};

use super::audit::Entry;
use super::tlv::{ConfigChange, ControlParameters, ControlResponse, Element, ReloadReport, reload_flags};
use super::{Command, Management, Moment};
use crate::config::Changes;
use crate::rib::{RibError, Route};
use crate::security::Authorizer;
use crate::security::marks::Marks;
use crate::tags::TagLimits;

/// Largest cost of a link to a neighbour.
const LINK_COST_MAX: u64 = 15;
/// Longest time for a confirmation.
const CONFIRM_WITHIN_MAX: Duration = Duration::from_secs(24 * 3600);
/// Most bytes of the changes in an answer. The rest of the packet is for its name and the text.
const CHANGES_BYTES_MAX: usize = 5000;
/// Most bytes of the text of an answer.
const TEXT_BYTES_MAX: usize = 2500;

/// Limits that can change while the router runs.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most routes.
    pub routes_max: usize,
    /// Most prefix announcements.
    pub announcements_max: usize,
    /// Most descriptors.
    pub tag_limits: TagLimits,
    /// Time over which the loads of packet threads are measured before a face moves. Zero: faces do not move by
    /// themselves.
    pub balance_period: Duration,
}

/// Options of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReloadOptions {
    /// Only tell what would change.
    pub dry_run: bool,
    /// Leave out what needs a restart.
    pub partial: bool,
    /// Undo the reload after this time, unless it is confirmed.
    pub confirm_within: Option<Duration>,
}

/// What a command of the module asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadWish {
    /// Read the configuration file again.
    Reload(ReloadOptions),
    /// Keep what the last reload has changed.
    Confirm,
    /// Make a link to a neighbour for routing.
    AddNeighbor {
        /// URI of the neighbour.
        uri: String,
        /// Cost of the link.
        cost: u64,
        /// Largest frame, in bytes.
        mtu: Option<u64>,
    },
    /// Leave a neighbour.
    RemoveNeighbor {
        /// Its URI.
        uri: String,
    },
}

/// A command whose answer the process owes.
#[derive(Debug)]
pub struct ReloadRequest {
    /// What it asks for.
    pub wish: ReloadWish,
    /// Name of the command.
    command: Name,
}

/// Passes commands to the process. Returns false if they cannot be carried out now.
pub type Reloads = Box<dyn Fn(ReloadRequest) -> bool + Send>;

impl Management {
    /// Sets who carries out the commands of the module.
    pub fn on_reload(&mut self, reloads: Reloads) {
        self.reloads = Some(reloads);
    }

    /// Passes a command on. `None`: the answer comes later.
    pub(super) fn ask_for_reload(
        &mut self,
        command: Command,
        interest: &Interest<'_>,
        parameters: &ControlParameters,
        entry: &mut Option<Box<Entry>>,
    ) -> Option<ControlResponse> {
        let uri = || parameters.uri.clone().unwrap_or_default();
        let wish = match command {
            Command::ConfigConfirm => Ok(ReloadWish::Confirm),
            Command::ConfigAddNeighbor => {
                let (cost, mtu) = (parameters.cost.unwrap_or(1), parameters.mtu);
                match (1..=LINK_COST_MAX).contains(&cost) {
                    true => Ok(ReloadWish::AddNeighbor { uri: uri(), cost, mtu }),
                    false => Err("Cost must be from 1 to 15"),
                }
            }
            Command::ConfigRemoveNeighbor => Ok(ReloadWish::RemoveNeighbor { uri: uri() }),
            _ => options(parameters).map(ReloadWish::Reload),
        };
        let wish = match wish {
            Ok(wish) => wish,
            Err(why) => return Some(ControlResponse::new(400, why)),
        };
        let request = ReloadRequest { wish, command: interest.name.to_name() };
        if !self.reloads.as_ref().is_some_and(|pass_on| pass_on(request)) {
            return Some(ControlResponse::new(503, "This router does not reload now"));
        }
        self.counters.commands_deferred += 1;
        let command = interest.name.to_name();
        self.reload_entries.extend(entry.take().map(|entry| (command, entry)));
        None
    }

    /// The answer to a command that was passed on.
    pub fn reloaded(&mut self, request: &ReloadRequest, mut response: ControlResponse) -> Option<Packet> {
        if response.text.len() > TEXT_BYTES_MAX {
            let cut = (0..=TEXT_BYTES_MAX).rev().find(|at| response.text.is_char_boundary(*at)).unwrap_or(0);
            response.text.truncate(cut);
            response.text.push_str("...");
        }
        let at = self.reload_entries.iter().position(|(command, _)| *command == request.command);
        let entry = at.map(|at| self.reload_entries.swap_remove(at).1);
        self.audit(entry, &response);
        self.respond_to_command(request.command.as_ref(), &response)
    }
}

/// A route to add, in place of one with the same face and origin, or to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteChange {
    /// Its name.
    pub name: Name,
    /// The route.
    pub route: Route,
    /// Whether to add it.
    pub adds: bool,
}

/// A prefix, and the strategy to choose for it. `None`: it gets no choice of its own.
pub type StrategyChange = (Name, Option<Name>);

/// What the configuration changes while the router runs. Each change is made whole or not at all.
impl Management {
    /// Adds routes, and removes those that are as they are given here. Returns the changes that undo this.
    pub(crate) fn change_routes(&mut self, changes: &[RouteChange]) -> Result<Vec<RouteChange>, RibError> {
        let mut undo = Vec::new();
        for RouteChange { name, route, adds } in changes {
            let before = self.rib.route(name.as_ref(), route.face, route.origin);
            let change = |route, adds| RouteChange { name: name.clone(), route, adds };
            let undone = before.map_or(change(*route, false), |before| change(before, true));
            if !adds && before != Some(*route) {
                // It is gone, or a command has replaced it, and it is no longer the configuration's.
                continue;
            } else if !adds {
                self.rib.unregister(&mut self.fib, name.as_ref(), route.face, route.origin);
            } else if let Err(error) = self.insert_configured_route(name, route) {
                undo.reverse();
                if let Err(error) = self.change_routes(&undo) {
                    tracing::error!(%error, "a route of before the reload cannot be added again");
                }
                return Err(error);
            }
            undo.push(undone);
        }
        undo.reverse();
        Ok(undo)
    }

    /// Sets and unsets strategies. Returns the changes that undo this.
    pub(crate) fn change_strategies(&mut self, changes: Vec<StrategyChange>) -> Result<Vec<StrategyChange>, String> {
        let before = |prefix: &Name| self.strategies.iter().find(|(of, _)| *of == prefix).map(|(_, is)| is.clone());
        let undo: Vec<StrategyChange> = changes.iter().map(|(prefix, _)| (prefix.clone(), before(prefix))).collect();
        for (prefix, strategy) in changes {
            let Some(strategy) = strategy else {
                self.strategies.unset(&prefix);
                continue;
            };
            if let Err(refusal) = self.strategies.set(&prefix, strategy.as_ref()) {
                for (prefix, strategy) in undo {
                    match strategy {
                        // It was chosen before, so it can be chosen again.
                        Some(strategy) => drop(self.strategies.set(&prefix, strategy.as_ref())),
                        None => drop(self.strategies.unset(&prefix)),
                    }
                }
                return Err(format!("{}: {}", prefix.as_ref(), refusal.text));
            }
        }
        Ok(undo)
    }

    /// Takes over the rules of this authorizer, and marks if the router has none yet. Returns the earlier rules.
    pub(crate) fn set_rights(&mut self, rules: Authorizer, marks: Option<Marks>) -> Authorizer {
        if let Some(marks) = marks {
            self.authorizer.keep_marks(marks);
        }
        let earlier = self.authorizer.replace_rules(rules);
        self.serve_certificates();
        earlier
    }

    /// Sets limits.
    pub(crate) fn set_limits(&mut self, limits: Limits, now: Moment) -> Result<(), RibError> {
        self.rib.limit(limits.routes_max)?;
        self.limit_announcements(limits.announcements_max);
        self.tags.limit(limits.tag_limits);
        self.balance_threads(limits.balance_period, now);
        Ok(())
    }
}

fn options(parameters: &ControlParameters) -> Result<ReloadOptions, &'static str> {
    let flags = parameters.flags.unwrap_or(0);
    let known = reload_flags::DRY_RUN | reload_flags::PARTIAL;
    let confirm_within = parameters.expiration_period_ms.map(Duration::from_millis);
    if flags & !known != 0 {
        return Err("Flags are unknown");
    }
    if confirm_within.is_some_and(|time| time.is_zero() || time > CONFIRM_WITHIN_MAX) {
        return Err("ExpirationPeriod must be at most a day, and not 0");
    }
    Ok(ReloadOptions {
        dry_run: flags & reload_flags::DRY_RUN != 0,
        partial: flags & reload_flags::PARTIAL != 0,
        confirm_within,
    })
}

/// The body of an answer with as many of these changes as fit.
pub fn report(changes: &Changes) -> Vec<u8> {
    let mut report = ReloadReport::default();
    let mut bytes = 0;
    for change in &changes.list {
        let element = ConfigChange {
            setting: change.setting.clone(),
            text: change.text.clone(),
            restart: change.restart.map(str::to_owned),
        };
        bytes += element.encode().len();
        if bytes > CHANGES_BYTES_MAX {
            break;
        }
        report.changes.push(element);
    }
    report.left_out = Some((changes.list.len() - report.changes.len()) as u64).filter(|&left_out| left_out > 0);
    report.encode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Change, Config};

    #[test]
    fn parameters_are_checked() {
        let parse = |flags, expiration_period_ms| {
            options(&ControlParameters { flags, expiration_period_ms, ..ControlParameters::default() })
        };
        assert_eq!(parse(None, None), Ok(ReloadOptions::default()));
        let all = ReloadOptions { dry_run: true, partial: true, confirm_within: Some(Duration::from_secs(60)) };
        assert_eq!(parse(Some(3), Some(60_000)), Ok(all));
        assert!(parse(Some(4), None).is_err());
        assert!(parse(None, Some(0)).is_err() && parse(None, Some(u64::MAX)).is_err());
    }

    #[test]
    fn a_report_is_as_long_as_a_packet_allows() {
        let change = |n| Change { setting: format!("[[route]] {n}"), text: "x".repeat(100), restart: Some("why") };
        let list: Vec<Change> = (0..10_000).map(change).collect();
        let body = report(&Changes { list, applicable: Config::default() });
        let report = ReloadReport::decode(&body).expect("encoded as it is decoded");
        assert!(body.len() < 5200 && report.changes.len() > 10, "{}", body.len());
        assert_eq!(report.left_out, Some(10_000 - report.changes.len() as u64));
        assert_eq!(report.changes[1].setting, "[[route]] 1");
    }
}
