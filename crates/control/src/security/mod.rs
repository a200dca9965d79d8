//! Authorization of commands: verifies command Interests, refuses replays, and applies rights.
//!
//! A command is a signed Interest in one of two formats: v0.3, or the older format, whose last four name components are
//! timestamp, nonce, SignatureInfo and SignatureValue. [`Authorizer`] accepts both. Formats: NDN Packet Specification
//! v0.3, "Signed Interest", and NFD's "Command Interest".
//!
//! The checks, in order: the parameters digest matches; there is a signature; some rule has rights for this module and
//! scope; the signature verifies; a rule's signer made it; its time is within the window and it is no replay. The first
//! failure is the [`Refusal`] that is counted and answered with 403.
//!
//! A rule may name a signer by its certificate, by a shared secret, or as everybody with a chain of certificates
//! ([`TrustedSigner::Chain`]). A chain is found before a command is authorized ([`Authorizer::chain_of_command`]), which
//! may take Interests for certificates.
//!
//! Clocks: a command may be 2 minutes old, as in ndn-cxx. Its time may be up to 1 hour ahead. ndn-cxx gives each
//! command of a burst a time at least one millisecond after the previous one. A client that sends thousands per second
//! therefore runs ahead of its clock.
//!
//! Replays: see [`replay`], and [`marks`] for restarts. NFD keeps one timestamp per key. That would refuse commands of
//! slower local clients: all local clients sign with a plain digest, and so share one key.

mod chains;
mod command;
pub mod marks;
mod refusal;
pub mod replay;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use byname_forward::face_table::Scope;
use byname_wire::signature::{KeyLocator, SignatureType};
use byname_wire::{Data, Interest, Name, NameRef};

pub use chains::Chain;
pub use refusal::{Refusal, RefusalCounters};
// Commands are signed and verified with these.
pub use byname_trust::{
    Certificate, CertificateError, KeyError, NewKey, Signer, SignerError, VerifyingKey, identity_of_key, pem,
    read_private_key,
};

use command::Command;
use marks::Marks;
use replay::{KeyKind, ReplayGuard};

use byname_trust::validator::{Accepted, Outcome};
use byname_trust::{Validator, locator_names};

/// A management module that accepts commands.
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
    /// Flat names: set, reset.
    Flat,
    /// Descriptors and locators: advertise, withdraw, locators.
    Tags,
    /// The configuration file: reload, confirm.
    Config,
    /// Traces of packets: start, read, stop.
    Trace,
}

impl Module {
    /// All modules.
    pub const ALL: [Module; 9] = [
        Module::Faces,
        Module::Fib,
        Module::Rib,
        Module::Cs,
        Module::StrategyChoice,
        Module::Flat,
        Module::Tags,
        Module::Config,
        Module::Trace,
    ];

    /// Name component of the module.
    pub fn name(self) -> &'static str {
        match self {
            Module::Faces => "faces",
            Module::Fib => "fib",
            Module::Rib => "rib",
            Module::Cs => "cs",
            Module::StrategyChoice => "strategy-choice",
            Module::Flat => "flat",
            Module::Tags => "tags",
            Module::Config => "config",
            Module::Trace => "trace",
        }
    }

    /// The module with this name component. `None` if there is none that accepts commands.
    pub fn from_name(name: &[u8]) -> Option<Module> {
        Module::ALL.into_iter().find(|module| module.name().as_bytes() == name)
    }
}

/// The signer that a rule applies to.
#[derive(Debug, Clone)]
pub enum TrustedSigner {
    /// Everybody. Signatures of unknown keys are not verified; plain digests are.
    Any,
    /// The holder of this certificate's key.
    Certificate(Box<Certificate>),
    /// Everybody who has this secret.
    Hmac {
        /// Name of the key in KeyLocators.
        key_name: Name,
        /// The secret.
        key: VerifyingKey,
    },
    /// Everybody whose certificates lead to an anchor of a domain of the validator.
    Chain {
        /// The place of the domain.
        domain: usize,
        /// The signer's identity must be at or below one of these. Empty: any.
        identities: Vec<Name>,
    },
}

impl TrustedSigner {
    /// Name of the signer's key. `None` if it needs no key.
    fn key_name(&self) -> Option<&Name> {
        match self {
            TrustedSigner::Any | TrustedSigner::Chain { .. } => None,
            TrustedSigner::Certificate(certificate) => Some(&certificate.key_name),
            TrustedSigner::Hmac { key_name, .. } => Some(key_name),
        }
    }

    /// Whether this signer signed an Interest, and its certificate is valid at this time.
    pub(crate) fn has_signed_interest(&self, interest: &Interest<'_>, unix_ms: u64) -> bool {
        Command::parse(interest).is_ok_and(|command| self.has_signed(&command, unix_ms))
    }

    /// Whether this signer signed a Data packet, and its certificate is valid at this time.
    pub(crate) fn has_signed_data(&self, data: &Data<'_>, unix_ms: u64) -> bool {
        self.has_signed(&Command::from_data(data), unix_ms)
    }

    fn has_signed(&self, command: &Command<'_>, unix_ms: u64) -> bool {
        let Some(locator) = command.key_locator else { return false };
        let key = match self {
            TrustedSigner::Certificate(of) if of.is_located_by(locator) && of.is_valid_at(unix_ms) => &of.key,
            TrustedSigner::Hmac { key_name, key } if locator_names(locator, key_name) => key,
            _ => return false,
        };
        key.verifies(command.typ, &command.signed, command.value)
    }

    /// Whether this signer is named in the configuration, and a locator names its key.
    fn is_located_by(&self, locator: KeyLocator<'_>) -> bool {
        match self {
            TrustedSigner::Certificate(of) => of.is_located_by(locator),
            TrustedSigner::Hmac { key_name, .. } => locator_names(locator, key_name),
            TrustedSigner::Any | TrustedSigner::Chain { .. } => false,
        }
    }

    /// Whether this signer is anybody with such a chain.
    fn has_chain(&self, accepted: &Accepted) -> bool {
        let TrustedSigner::Chain { domain, identities } = self else { return false };
        let identity = accepted.certificate.identity();
        let is_within = |prefix: &Name| prefix.as_ref().is_prefix_of(&identity.as_ref());
        accepted.domains.contains(*domain) && (identities.is_empty() || identities.iter().any(is_within))
    }

    /// The identity to which its key belongs.
    fn identity(&self) -> Option<Name> {
        self.key_name().map(|name| identity_of_key(name.as_ref()))
    }
}

/// A right: lets a signer command some modules.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Whether it applies to non-local faces, too. Otherwise it applies to faces of this host only.
    pub remote: bool,
    /// The signer with this right.
    pub signer: TrustedSigner,
    /// Modules that it may command.
    pub modules: Vec<Module>,
    /// Prefixes of the names that commands may concern. `None`: all names for local faces; for others, names at or
    /// below the signer's identity.
    pub prefixes: Option<Vec<Name>>,
}

/// Accepted command times, relative to the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWindow {
    /// Largest age of a command.
    pub past: Duration,
    /// How far a command's time may be ahead of the clock.
    pub ahead: Duration,
}

impl TimeWindow {
    fn past_ms(self) -> u64 {
        u64::try_from(self.past.as_millis()).unwrap_or(u64::MAX)
    }

    fn ahead_ms(self) -> u64 {
        u64::try_from(self.ahead.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for TimeWindow {
    fn default() -> Self {
        TimeWindow { past: Duration::from_secs(120), ahead: Duration::from_secs(3600) }
    }
}

/// The rights of an accepted command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorized {
    /// The key that signed it, if the configuration has that key.
    pub key_name: Option<Name>,
    /// Whether some rule does not limit the names.
    all_names: bool,
    /// Prefixes from the other rules.
    prefixes: Vec<Name>,
}

impl Authorized {
    /// Rights of the configuration itself: all names.
    pub fn by_configuration() -> Self {
        Authorized { key_name: None, all_names: true, prefixes: Vec::new() }
    }

    /// Whether the command may concern this name.
    pub fn covers(&self, name: NameRef<'_>) -> bool {
        self.all_names || self.prefixes.iter().any(|prefix| prefix.as_ref().is_prefix_of(&name))
    }

    /// Whether a rule lists exactly this prefix.
    pub fn lists(&self, name: NameRef<'_>) -> bool {
        self.prefixes.iter().any(|prefix| prefix.as_ref() == name)
    }
}

/// Decides whether commands are accepted. A forwarder has one, in its control thread.
pub struct Authorizer {
    rules: Vec<Rule>,
    window: TimeWindow,
    replays: ReplayGuard,
    refusals: Arc<RefusalCounters>,
    validator: Validator,
    /// Certificates that this router gives to everybody.
    served: Vec<Certificate>,
}

/// Result of verifying a signature.
enum Verified {
    /// A correct plain digest.
    Digest,
    /// Verified with the key of these rules' signers.
    By(Vec<usize>),
    /// A chain of certificates leads to an anchor.
    ByChain(Box<Accepted>),
    /// The key is unknown.
    UnknownKey,
}

impl Authorizer {
    /// An authorizer with these rules.
    pub fn new(rules: Vec<Rule>, window: TimeWindow) -> Self {
        Authorizer {
            rules,
            window,
            replays: ReplayGuard::new(Marks::none()),
            refusals: Arc::default(),
            validator: Validator::without_anchors(),
            served: Vec::new(),
        }
    }

    /// With a validator, whose domains the rules name, and certificates to give to everybody.
    pub fn with_trust(self, validator: Validator, served: Vec<Certificate>) -> Self {
        Authorizer { validator, served, ..self }
    }

    /// With one more rule, for a part of the router itself.
    pub fn with_rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Whether everybody on this host may use these modules, for all names.
    pub fn lets_all_use(&self, modules: &[Module]) -> bool {
        let lets = |rule: &Rule, module: &Module| {
            matches!(rule.signer, TrustedSigner::Any) && rule.prefixes.is_none() && rule.modules.contains(module)
        };
        modules.iter().all(|module| self.rules.iter().any(|rule| lets(rule, module)))
    }

    /// The validator, which `chains` drives.
    pub fn validator(&self) -> &Validator {
        &self.validator
    }

    /// Certificates that this router gives to everybody.
    pub fn served(&self) -> &[Certificate] {
        &self.served
    }

    /// From now on, refuses commands that these marks cover, and records commands in them.
    pub fn keep_marks(&mut self, marks: Marks) {
        self.replays = ReplayGuard::new(marks);
    }

    /// Closes the file of the marks, for another process. Until [`Authorizer::keep_marks`], commands of keys must have
    /// times close to the clock.
    pub fn release_marks(&mut self) {
        if self.knows_keys() {
            let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            self.keep_marks(Marks::without_folder(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)));
        }
    }

    /// Takes over the rules and the time window of another authorizer, and keeps what it remembers of commands. Returns
    /// an authorizer with the earlier rules and time window.
    pub fn replace_rules(&mut self, other: Authorizer) -> Authorizer {
        let rules = std::mem::replace(&mut self.rules, other.rules);
        let validator = self.validator.replace_rules(other.validator);
        let served = std::mem::replace(&mut self.served, other.served);
        Authorizer::new(rules, std::mem::replace(&mut self.window, other.window)).with_trust(validator, served)
    }

    /// Whether any rule has a key, so that marks are useful.
    pub fn knows_keys(&self) -> bool {
        let has_keys = |signer: &TrustedSigner| !matches!(signer, TrustedSigner::Any);
        self.rules.iter().any(|rule| has_keys(&rule.signer))
    }

    /// Everybody on this host and nobody else: the rights without configuration.
    pub fn local_only() -> Self {
        let rule = Rule { remote: false, signer: TrustedSigner::Any, modules: Module::ALL.to_vec(), prefixes: None };
        Authorizer::new(vec![rule], TimeWindow::default())
    }

    /// Whether any rule lets remote requesters command `module`.
    pub fn serves_remote(&self, module: Module) -> bool {
        self.rules.iter().any(|rule| rule.remote && rule.modules.contains(&module))
    }

    /// Counters of refusals, which other threads may read.
    pub fn refusals(&self) -> Arc<RefusalCounters> {
        Arc::clone(&self.refusals)
    }

    /// Decides whether a command for `module` from a face of this scope is accepted.
    ///
    /// `unix_ms` is the wall-clock time. An accepted command is remembered: its repetition is [`Refusal::Replayed`].
    /// `chain` is what [`Authorizer::chain_of_command`] has found, if it was needed.
    ///
    /// # Errors
    /// The first check that failed, which is counted.
    pub fn authorize(
        &mut self,
        interest: &Interest<'_>,
        module: Module,
        scope: Scope,
        unix_ms: u64,
        chain: Option<&Outcome>,
    ) -> Result<Authorized, Refusal> {
        let outcome = self.check_command(interest, module, scope, unix_ms, chain);
        outcome.inspect_err(|refusal| self.refusals.count(*refusal))
    }

    /// Decides whether a prefix announcement from a face of this scope may create a route.
    ///
    /// An announcement is a Data packet that is valid for hours and may be cached. Neither the time window nor replay
    /// protection applies. The caller must check its validity period.
    ///
    /// # Errors
    /// The first check that failed, which is counted.
    pub fn authorize_announcement(
        &mut self,
        announcement: &Data<'_>,
        scope: Scope,
        unix_ms: u64,
        chain: Option<&Outcome>,
    ) -> Result<Authorized, Refusal> {
        let command = Command::from_data(announcement);
        let outcome = self
            .check_signer(&command, Module::Rib, scope, unix_ms, chain)
            .map(|by| self.authorized(&by, Module::Rib, scope));
        outcome.inspect_err(|refusal| self.refusals.count(*refusal))
    }

    /// Counts a refusal of an otherwise accepted command, because of its parameters.
    pub fn refuse(&self, refusal: Refusal) -> Refusal {
        self.refusals.count(refusal);
        refusal
    }

    fn check_command(
        &mut self,
        interest: &Interest<'_>,
        module: Module,
        scope: Scope,
        unix_ms: u64,
        chain: Option<&Outcome>,
    ) -> Result<Authorized, Refusal> {
        if !interest.parameters_digest_matches() {
            return Err(Refusal::ParametersDigest);
        }
        let command = Command::parse(interest)?;
        let by = self.check_signer(&command, module, scope, unix_ms, chain)?;
        let authorized = self.authorized(&by, module, scope);
        match &authorized.key_name {
            Some(key) => {
                // A nonce without a time would have to be remembered forever.
                let time_ms = command.time_ms.ok_or(Refusal::NoTime)?;
                let kind = if matches!(by, Verified::ByChain(_)) { KeyKind::Chained } else { KeyKind::Configured };
                self.replays.check_of_key((key, kind), &command, time_ms, self.window, unix_ms)?;
            }
            None => {
                self.check_time(&command, unix_ms)?;
                self.replays.check_of_anyone(&command)?;
            }
        }
        Ok(authorized)
    }

    fn check_signer(
        &self,
        command: &Command<'_>,
        module: Module,
        scope: Scope,
        unix_ms: u64,
        chain: Option<&Outcome>,
    ) -> Result<Verified, Refusal> {
        let applies = |rule: &Rule| applies(rule, module, scope);
        if !self.rules.iter().any(applies) {
            return Err(Refusal::NoRule);
        }
        let verified = self.verify(command, unix_ms, applies)?;
        let any = self.rules.iter().any(|rule| applies(rule) && matches!(rule.signer, TrustedSigner::Any));
        if let (Verified::UnknownKey, Some(Ok(accepted))) = (&verified, chain)
            && self.rules.iter().any(|rule| applies(rule) && rule.signer.has_chain(accepted))
        {
            return Ok(Verified::ByChain(Box::new(accepted.clone())));
        }
        match verified {
            Verified::By(_) | Verified::ByChain(_) => Ok(verified),
            Verified::UnknownKey if !any && matches!(chain, Some(Err(_))) => Err(Refusal::UntrustedChain),
            Verified::Digest | Verified::UnknownKey if any => Ok(verified),
            Verified::Digest | Verified::UnknownKey => Err(Refusal::UntrustedSigner),
        }
    }

    /// Verifies the signature: a digest, or with the keys of the rules for which `applies` returns true.
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
        // Several rules may name one key. The rights of all rules that verify and are valid are combined.
        let (mut verifying, mut failure) = (Vec::new(), None);
        for (i, rule) in self.rules.iter().enumerate().filter(|(_, rule)| applies(rule)) {
            let key = match &rule.signer {
                TrustedSigner::Any | TrustedSigner::Chain { .. } => continue,
                TrustedSigner::Hmac { key_name, key } if locator_names(locator, key_name) => key,
                TrustedSigner::Certificate(certificate) if certificate.is_located_by(locator) => {
                    if !certificate.is_valid_at(unix_ms) {
                        failure = failure.or(Some(Refusal::CertificateExpired));
                        continue;
                    }
                    if self.validator.revokes(certificate.name.as_ref()) {
                        failure = failure.or(Some(Refusal::Revoked));
                        continue;
                    }
                    &certificate.key
                }
                TrustedSigner::Hmac { .. } | TrustedSigner::Certificate(_) => continue,
            };
            if key.verifies(command.typ, &command.signed, command.value) {
                verifying.push(i);
            } else {
                failure = Some(Refusal::BadSignature);
            }
        }
        match failure {
            _ if !verifying.is_empty() => Ok(Verified::By(verifying)),
            Some(refusal) => Err(refusal),
            None => Ok(Verified::UnknownKey),
        }
    }

    /// Checks the time of a command that no known key signed.
    fn check_time(&self, command: &Command<'_>, unix_ms: u64) -> Result<(), Refusal> {
        match command.time_ms {
            // A nonce suffices where the signature proves nothing.
            None if command.nonce.is_some() => Ok(()),
            None => Err(Refusal::NoTime),
            Some(time_ms) if time_ms < unix_ms.saturating_sub(self.window.past_ms()) => Err(Refusal::TooOld),
            Some(time_ms) if time_ms > unix_ms.saturating_add(self.window.ahead_ms()) => Err(Refusal::TooFarAhead),
            Some(_) => Ok(()),
        }
    }

    /// The combined rights of a signer for this module and scope.
    fn authorized(&self, by: &Verified, module: Module, scope: Scope) -> Authorized {
        let (by, chain): (&[usize], _) = match by {
            Verified::By(rules) => (rules, None),
            Verified::ByChain(accepted) => (&[], Some(accepted)),
            Verified::Digest | Verified::UnknownKey => (&[], None),
        };
        let configured = by.first().and_then(|rule| self.rules[*rule].signer.key_name());
        let key_name = configured.or(chain.map(|accepted| &accepted.certificate.key_name));
        let mut authorized = Authorized { key_name: key_name.cloned(), all_names: false, prefixes: Vec::new() };
        for (i, rule) in self.rules.iter().enumerate().filter(|(_, rule)| applies(rule, module, scope)) {
            let is_chain = chain.is_some_and(|accepted| rule.signer.has_chain(accepted));
            // Rules for everybody apply to signers with a key, too.
            if !by.contains(&i) && !is_chain && !matches!(rule.signer, TrustedSigner::Any) {
                continue;
            }
            match &rule.prefixes {
                Some(prefixes) => authorized.prefixes.extend_from_slice(prefixes),
                None if scope == Scope::Local => authorized.all_names = true,
                None if is_chain => authorized.prefixes.extend(chain.map(|accepted| accepted.certificate.identity())),
                None => authorized.prefixes.extend(rule.signer.identity()),
            }
        }
        authorized
    }
}

/// Whether a rule applies to commands for this module from faces of this scope.
fn applies(rule: &Rule, module: Module, scope: Scope) -> bool {
    rule.modules.contains(&module) && (rule.remote || scope == Scope::Local)
}
