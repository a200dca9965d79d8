//! What management tells the audit log.

use byname_forward::FaceId;
use byname_wire::Interest;
use byname_wire::signature::KeyLocator;

use super::audit::{Audit, Entry, Outcome};
use super::tlv::ControlResponse;
use super::{Command, Management, Moment, VERB_END};
use crate::security::Authorized;

impl Management {
    /// Notes all further commands in this log. Call it before there are faces.
    pub fn audit_to(&mut self, audit: Audit) {
        self.audit = audit;
    }

    /// The beginning of a line about a command. `None` if there is no audit log.
    pub(super) fn entry(
        &self,
        interest: &Interest<'_>,
        command: Command,
        incoming: FaceId,
        signer: Option<&Authorized>,
        now: Moment,
    ) -> Option<Box<Entry>> {
        // Readers ask many times a second for what `trace/start` has granted.
        if !self.audit.is_on() || command == Command::TraceRead {
            return None;
        }
        let key = signer.and_then(|signer| signer.key_name.clone());
        let claimed = match interest.signature.as_ref().and_then(|signature| signature.info.key_locator) {
            Some(KeyLocator::Name(name)) if key.is_none() => Some(name.to_name()),
            _ => None,
        };
        let parameters = interest.name.component(VERB_END as isize).map(|component| component.value.into());
        Some(Box::new(Entry {
            unix_ms: now.unix_ms,
            command,
            face: incoming,
            remote: self.audit.remote(incoming),
            key,
            claimed_key: claimed,
            parameters: parameters.unwrap_or_default(),
        }))
    }

    /// Completes a line with the command's outcome, and hands it to the log.
    pub(super) fn audit(&mut self, entry: Option<Box<Entry>>, response: &ControlResponse) {
        let Some(mut entry) = entry else { return };
        if entry.command == Command::RibAnnounce {
            // Its parameters are in a packet. The answer says what they came to.
            entry.parameters = response.body.as_slice().into();
        }
        let text = (response.code != 200).then(|| response.text.clone());
        self.audit.note(entry, Outcome { code: response.code, text });
    }
}
