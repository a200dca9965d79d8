//! The chains of certificates of signers that the configuration does not name.

use byname_forward::FaceId;
use byname_forward::face_table::Scope;
use byname_wire::name::component_type;
use byname_wire::{Data, Interest, NameRef};

use super::command::{Command, OLD_FORMAT_COMPONENTS};
use super::{Authorizer, Module, TrustedSigner, applies};
use byname_trust::Moment;
use byname_trust::Validator;
use byname_trust::validator::{Begun, DomainSet, Origin, Outcome, RequestId, Signed};

/// What is known of a signer's chain.
#[derive(Debug)]
pub enum Chain {
    /// No rule needs it.
    NotNeeded,
    /// Whether it leads to an anchor.
    Known(Box<Outcome>),
    /// Its certificates must be fetched first.
    Waits(RequestId),
}

impl Chain {
    /// The outcome, unless certificates must be fetched first.
    ///
    /// # Errors
    /// The request that waits.
    pub fn outcome(self) -> Result<Option<Outcome>, RequestId> {
        match self {
            Chain::NotNeeded => Ok(None),
            Chain::Known(outcome) => Ok(Some(*outcome)),
            Chain::Waits(id) => Err(id),
        }
    }
}

impl Authorizer {
    /// The validator, for passing it certificates and taking its Interests.
    pub fn validator_mut(&mut self) -> &mut Validator {
        &mut self.validator
    }

    /// Follows the chain of a command's signer, if a rule for chains applies and the configuration does not name the
    /// key.
    pub fn chain_of_command(
        &mut self,
        interest: &Interest<'_>,
        (module, scope): (Module, Scope),
        from: FaceId,
        now: Moment,
    ) -> Chain {
        // Whatever is wrong here is told when the command is authorized.
        let Ok(command) = Command::parse(interest) else { return Chain::NotNeeded };
        if !interest.parameters_digest_matches() {
            return Chain::NotNeeded;
        }
        let signed = Signed { is_below_signer: false, ..signed(&command, unsigned_name(interest)) };
        self.chain_of(&command, &signed, (module, scope), from, false, now)
    }

    /// Follows the chain of a prefix announcement's signer, as for a command.
    pub fn chain_of_announcement(&mut self, announcement: &Data<'_>, scope: Scope, from: FaceId, now: Moment) -> Chain {
        let command = Command::from_data(announcement);
        let signed = signed(&command, announcement.name);
        self.chain_of(&command, &signed, (Module::Rib, scope), from, true, now)
    }

    fn chain_of(
        &mut self,
        command: &Command<'_>,
        signed: &Signed<'_>,
        (module, scope): (Module, Scope),
        from: FaceId,
        leads_to_signer: bool,
        now: Moment,
    ) -> Chain {
        let Some(locator) = command.key_locator else { return Chain::NotNeeded };
        let mut domains = DomainSet::default();
        for rule in self.rules.iter().filter(|rule| applies(rule, module, scope)) {
            match &rule.signer {
                TrustedSigner::Chain { domain, .. } => domains = domains.union(DomainSet::one(*domain)),
                // Nobody gets more rights by a chain than everybody has.
                TrustedSigner::Any if rule.prefixes.is_none() => return Chain::NotNeeded,
                signer if signer.is_located_by(locator) => return Chain::NotNeeded,
                _ => {}
            }
        }
        let is_keyless = !byname_trust::validator::has_key(signed.typ);
        if domains.is_empty() || is_keyless {
            return Chain::NotNeeded;
        }
        let face = Some(from.0).filter(|_| from >= FaceId::FIRST);
        // The name of a command leads to this router; that of an announcement leads to its signer.
        let hint = Some(signed.name.to_name()).filter(|_| leads_to_signer && self.validator.hints_packet_name());
        let origin = Origin { face, forwarding_hint: hint.into_iter().collect() };
        match self.validator.begin(signed, domains, origin, now) {
            Begun::Done(outcome) => Chain::Known(Box::new(outcome)),
            Begun::Waiting(id) => Chain::Waits(id),
        }
    }
}

fn signed<'a>(command: &Command<'a>, name: NameRef<'a>) -> Signed<'a> {
    Signed {
        name,
        is_below_signer: true,
        typ: command.typ,
        key_locator: command.key_locator,
        signed: command.signed,
        value: command.value,
    }
}

/// The name of a command without what its signature has added, as NFD's rules judge it.
fn unsigned_name<'a>(interest: &Interest<'a>) -> NameRef<'a> {
    let name = interest.name;
    let has_digest = name.component(-1).is_some_and(|last| last.typ == component_type::PARAMETERS_SHA256_DIGEST);
    let added = if interest.signature.is_some() { usize::from(has_digest) } else { OLD_FORMAT_COMPONENTS };
    name.prefix(name.len().saturating_sub(added))
}
