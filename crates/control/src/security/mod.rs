//! Who may change this forwarder: command Interests verified, replays refused, rights looked up.
//!
//! A command is a signed Interest, in the v0.3 format or in the older one whose last four name
//! components are timestamp, nonce, SignatureInfo and SignatureValue. [`Authorizer`] takes either.
//! Formats: NDN Packet Specification v0.3, "Signed Interest", and NFD's "Command Interest".
//!
//! What is checked, in this order, the first failure being the [`Refusal`] that is counted and
//! answered with 403: the parameters digest; that a signature is there; that some rule gives
//! rights on this module to requesters of this scope; the signature itself; that the rule's signer
//! is the one that signed; the clock; and that the command was not seen before.
//!
//! Clocks: a command may be 2 minutes old, as in ndn-cxx, and carry a time up to 1 hour ahead,
//! because ndn-cxx gives each command of a burst a time at least a millisecond after the one
//! before, so that a client that sends thousands a second runs ahead of its clock.
//!
//! Replays: see [`replay`]. One timestamp for each key, as in NFD, would refuse the commands of
//! all but the fastest of the local clients, who sign with a plain digest and so share one key.

mod certificate;
mod command;
mod keys;
mod refusal;
pub mod replay;
mod signer;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use byname_forward::face_table::Scope;
use byname_wire::signature::{KeyLocator, SignatureType};
use byname_wire::{Data, Interest, Name};

pub(crate) use certificate::decode_validity_period;
pub use certificate::{Certificate, CertificateError};
pub use keys::{KeyError, VerifyingKey};
pub use refusal::{Refusal, RefusalCounters};
pub use signer::{Signer, SignerError};

use command::Command;
use replay::ReplayGuard;

/// A management module that commands can be addressed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Module {
    /// Faces: create, update, destroy.
    Faces,
    /// FIB: add-nexthop, remove-nexthop.
    Fib,
    /// RIB: register, unregister, announce.
    Rib,
    /// Content store: config, erase.
    Cs,
    /// Strategies: set, unset.
    StrategyChoice,
    /// Descriptors and locators: advertise, withdraw, locators.
    Tags,
}

impl Module {
    /// All modules.
    pub const ALL: [Module; 6] =
        [Module::Faces, Module::Fib, Module::Rib, Module::Cs, Module::StrategyChoice, Module::Tags];

    /// The module's name component.
    pub fn name(self) -> &'static str {
        match self {
            Module::Faces => "faces",
            Module::Fib => "fib",
            Module::Rib => "rib",
            Module::Cs => "cs",
            Module::StrategyChoice => "strategy-choice",
            Module::Tags => "tags",
        }
    }

    /// The module of that name component, if it takes commands.
    pub fn from_name(name: &[u8]) -> Option<Module> {
        Module::ALL.into_iter().find(|module| module.name().as_bytes() == name)
    }
}

/// Whose commands a rule is about.
#[derive(Debug, Clone)]
pub enum TrustedSigner {
    /// Whoever can send them: signatures of unknown keys are not verified, plain digests are.
    Any,
    /// The holder of this certificate's key.
    Certificate(Box<Certificate>),
    /// Whoever shares this secret.
    Hmac {
        /// The name that commands give in their KeyLocator.
        key_name: Name,
        /// The secret.
        key: VerifyingKey,
    },
}

/// One right: a signer may command some modules.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Also from faces that are not local; else only from this host.
    pub remote: bool,
    /// Who.
    pub signer: TrustedSigner,
    /// What.
    pub modules: Vec<Module>,
}

/// Which times in commands are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWindow {
    /// Oldest command.
    pub past: Duration,
    /// How far a command's time may lie ahead.
    pub ahead: Duration,
}

impl Default for TimeWindow {
    fn default() -> Self {
        TimeWindow { past: Duration::from_secs(120), ahead: Duration::from_secs(3600) }
    }
}

/// A command that may be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorized {
    /// The key that signed it, where that key is known to the configuration.
    pub key_name: Option<Name>,
}

/// Decides on commands. One for a forwarder, owned by its control thread.
pub struct Authorizer {
    rules: Vec<Rule>,
    window: TimeWindow,
    replays: ReplayGuard,
    refusals: Arc<RefusalCounters>,
}

/// How far a signature was verified.
enum Verified {
    /// A plain digest that is right.
    Digest,
    /// By the key of this rule's signer.
    By(usize),
    /// The key is not known here.
    UnknownKey,
}

impl Authorizer {
    /// An authorizer with these rules.
    pub fn new(rules: Vec<Rule>, window: TimeWindow) -> Self {
        Authorizer { rules, window, replays: ReplayGuard::new(), refusals: Arc::default() }
    }

    /// Anyone on this host, nobody else: what holds without configuration.
    pub fn local_only() -> Self {
        let rule = Rule { remote: false, signer: TrustedSigner::Any, modules: Module::ALL.to_vec() };
        Authorizer::new(vec![rule], TimeWindow::default())
    }

    /// Whether any rule lets a requester on another host command `module`.
    pub fn serves_remote(&self, module: Module) -> bool {
        self.rules.iter().any(|rule| rule.remote && rule.modules.contains(&module))
    }

    /// Counts of refusals, for other threads to read.
    pub fn refusals(&self) -> Arc<RefusalCounters> {
        Arc::clone(&self.refusals)
    }

    /// Whether this command for `module`, from a face of this scope, may be carried out.
    ///
    /// `unix_ms` is the wall clock. A command that passes is remembered: the same one again is
    /// [`Refusal::Replayed`].
    ///
    /// # Errors
    /// The first check that failed; it is counted.
    pub fn authorize(
        &mut self,
        interest: &Interest<'_>,
        module: Module,
        scope: Scope,
        unix_ms: u64,
    ) -> Result<Authorized, Refusal> {
        let outcome = self.check_command(interest, module, scope, unix_ms);
        if let Err(refusal) = &outcome {
            self.refusals.count(*refusal);
        }
        outcome
    }

    /// Whether this prefix announcement, from a face of this scope, may make a route.
    ///
    /// An announcement is a Data packet that lives for hours and travels, so neither the clock
    /// window nor replay protection apply; its own validity period is the caller's to heed.
    ///
    /// # Errors
    /// The first check that failed; it is counted.
    pub fn authorize_announcement(
        &mut self,
        announcement: &Data<'_>,
        scope: Scope,
        unix_ms: u64,
    ) -> Result<Authorized, Refusal> {
        let command = Command::from_data(announcement);
        let outcome = self.check_signer(&command, Module::Rib, scope, unix_ms).map(|by| self.authorized(&by));
        if let Err(refusal) = &outcome {
            self.refusals.count(*refusal);
        }
        outcome
    }

    fn check_command(
        &mut self,
        interest: &Interest<'_>,
        module: Module,
        scope: Scope,
        unix_ms: u64,
    ) -> Result<Authorized, Refusal> {
        if !interest.parameters_digest_matches() {
            return Err(Refusal::ParametersDigest);
        }
        let command = Command::parse(interest)?;
        let by = self.check_signer(&command, module, scope, unix_ms)?;
        self.check_time(&command, &by, unix_ms)?;
        let authorized = self.authorized(&by);
        self.replays.check(authorized.key_name.as_ref(), &command)?;
        Ok(authorized)
    }

    fn check_signer(
        &self,
        command: &Command<'_>,
        module: Module,
        scope: Scope,
        unix_ms: u64,
    ) -> Result<Verified, Refusal> {
        let applies = |rule: &Rule| rule.modules.contains(&module) && (rule.remote || scope == Scope::Local);
        if !self.rules.iter().any(applies) {
            return Err(Refusal::NoRule);
        }
        let verified = self.verify(command, unix_ms, applies)?;
        let any = self.rules.iter().any(|rule| applies(rule) && matches!(rule.signer, TrustedSigner::Any));
        match verified {
            Verified::By(_) => Ok(verified),
            Verified::Digest | Verified::UnknownKey if any => Ok(verified),
            Verified::Digest | Verified::UnknownKey => Err(Refusal::UntrustedSigner),
        }
    }

    /// Verifies with a digest, or with a key of the rules that apply.
    fn verify(
        &self,
        command: &Command<'_>,
        unix_ms: u64,
        applies: impl Fn(&Rule) -> bool,
    ) -> Result<Verified, Refusal> {
        if command.typ == SignatureType::DigestSha256 {
            let right = byname_wire::digest::sha256(&command.signed) == command.value;
            return if right { Ok(Verified::Digest) } else { Err(Refusal::BadSignature) };
        }
        let Some(locator) = command.key_locator else { return Ok(Verified::UnknownKey) };
        // Several rules may name one key: the first that verifies and is in force decides.
        let mut outcome = Ok(Verified::UnknownKey);
        for (i, rule) in self.rules.iter().enumerate().filter(|(_, rule)| applies(rule)) {
            let key = match &rule.signer {
                TrustedSigner::Any => continue,
                TrustedSigner::Hmac { key_name, key } if locator_names(locator, key_name) => key,
                TrustedSigner::Certificate(certificate) if certificate.is_located_by(locator) => {
                    if !certificate.is_valid_at(unix_ms) {
                        outcome = outcome.and(Err(Refusal::CertificateExpired));
                        continue;
                    }
                    &certificate.key
                }
                TrustedSigner::Hmac { .. } | TrustedSigner::Certificate(_) => continue,
            };
            if key.verifies(command.typ, &command.signed, command.value) {
                return Ok(Verified::By(i));
            }
            outcome = Err(Refusal::BadSignature);
        }
        outcome
    }

    fn check_time(&self, command: &Command<'_>, by: &Verified, unix_ms: u64) -> Result<(), Refusal> {
        let Some(time_ms) = command.time_ms else {
            // A nonce alone serves where the signature proves nothing anyway. For a real key it
            // would have to be remembered for ever.
            return match by {
                Verified::By(_) => Err(Refusal::NoTime),
                Verified::Digest | Verified::UnknownKey if command.nonce.is_some() => Ok(()),
                Verified::Digest | Verified::UnknownKey => Err(Refusal::NoTime),
            };
        };
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        if time_ms < unix_ms.saturating_sub(ms(self.window.past)) {
            return Err(Refusal::TooOld);
        }
        if time_ms > unix_ms.saturating_add(ms(self.window.ahead)) {
            return Err(Refusal::TooFarAhead);
        }
        Ok(())
    }

    fn authorized(&self, by: &Verified) -> Authorized {
        let key_name = match by {
            Verified::By(rule) => match &self.rules[*rule].signer {
                TrustedSigner::Certificate(certificate) => Some(certificate.key_name.clone()),
                TrustedSigner::Hmac { key_name, .. } => Some(key_name.clone()),
                TrustedSigner::Any => None,
            },
            Verified::Digest | Verified::UnknownKey => None,
        };
        Authorized { key_name }
    }
}

/// Whether a locator names this key, or a certificate of it.
fn locator_names(locator: KeyLocator<'_>, key_name: &Name) -> bool {
    match locator {
        KeyLocator::Name(name) => key_name.as_ref().is_prefix_of(&name),
        KeyLocator::Digest(_) => false,
    }
}
