//! What this host's applications and forwarder ask: `/localhost/nlsr/rib/{register,unregister}/<ControlParameters>`, as
//! NLSR and ndn-dv take it, and `/localhost/nlsr/status`. Only the forwarder itself may register prefixes, which it does
//! for those that applications have registered there.

use byname_trust::Signer;
use byname_wire::data::DataBuilder;
use byname_wire::interest::Interest;
use byname_wire::tlv::{Reader, decode_nni, decode_only, push_nested, push_nni, push_tlv, types};
use byname_wire::{DecodeError, FaceId, Name, NameRef};

use crate::action::Action;
use crate::ids::SELF;
use crate::note::Note;
use crate::tlv;

use super::{MS_MAX, Router};

const CONTROL_RESPONSE: u64 = 0x65;
const STATUS_CODE: u64 = 0x66;
const STATUS_TEXT: u64 = 0x67;
const CONTROL_PARAMETERS: u64 = 0x68;
const FACE_ID: u64 = 0x69;
const COST: u64 = 0x6a;
const ORIGIN: u64 = 0x6f;
/// Origin of an application's route, as ndn-dv answers.
const CLIENT: u64 = 65;
/// Freshness of answers.
const FRESH_MS: u64 = 1_000;

/// What a command is about.
#[derive(Debug, PartialEq, Eq)]
struct Parameters {
    name: Name,
    face: FaceId,
    cost: u64,
}

impl Parameters {
    fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        let (mut name, mut face, mut cost) = (None, FaceId::NONE, 0);
        let mut reader = Reader::new(decode_only(wire, CONTROL_PARAMETERS)?);
        while let Some(tlv) = reader.next_tlv()? {
            match tlv.typ {
                types::NAME => name = Some(NameRef::new(tlv.value)?.to_name()),
                FACE_ID => face = FaceId(decode_nni(FACE_ID, tlv.value)?),
                COST => cost = decode_nni(COST, tlv.value)?,
                _ => {}
            }
        }
        Ok(Parameters { name: name.ok_or(DecodeError::Missing(types::NAME))?, face, cost })
    }
}

fn response(code: u64, text: &str, name: Option<&Name>) -> Vec<u8> {
    let mut out = Vec::new();
    push_nested(&mut out, CONTROL_RESPONSE, |out| {
        push_nni(out, STATUS_CODE, code);
        push_tlv(out, STATUS_TEXT, text.as_bytes());
        if let Some(name) = name {
            push_nested(out, CONTROL_PARAMETERS, |out| {
                push_tlv(out, types::NAME, name.value());
                push_nni(out, FACE_ID, 1);
                push_nni(out, ORIGIN, CLIENT);
            });
        }
    });
    out
}

impl Router {
    pub(super) fn on_management(&mut self, interest: &Interest<'_>, face: FaceId) {
        // `/localhost` and one more component.
        let depth = 2;
        let words: Vec<_> = interest.name.components().skip(depth).collect();
        let content = match words.first().map(|word| word.value) {
            Some(b"status") => self.status_dataset(),
            // The forwarder has checked the rights of whoever registered the prefix. An application that tells us so by
            // itself would bypass them.
            Some(b"rib") if face != FaceId::INTERNAL => {
                self.counters.denied += 1;
                response(403, "Only the forwarder tells which prefixes applications serve", None)
            }
            Some(b"rib") => self.on_rib_command(&words[1..]),
            _ => return self.malformed(),
        };
        let data = DataBuilder::new(interest.name.to_name()).freshness_ms(FRESH_MS).content(content);
        // ndnd does the same: on one host, a digest is enough.
        if let Ok(wire) = Signer::digest().sign_data(&data) {
            self.act(Action::SendData { wire });
        }
    }

    fn status_dataset(&self) -> Vec<u8> {
        let reachable = self.routers.iter().filter(|(_, known)| known.best.is_some()).count();
        let numbers = [reachable, self.neighbours.len(), self.prefixes.installed()].map(|n| n as u64);
        let config = &self.config;
        tlv::encode_status(&config.software, config.network.as_ref(), config.router.as_ref(), numbers)
    }

    fn on_rib_command(&mut self, words: &[byname_wire::Component<'_>]) -> Vec<u8> {
        let [verb, parameters, _digest] = words else {
            return response(400, "A command has six components", None);
        };
        let Ok(parameters) = Parameters::decode(parameters.value) else {
            self.malformed();
            return response(400, "Malformed ControlParameters", None);
        };
        match verb.value {
            b"register" => {
                if let Err(why) = self.announce(&parameters.name, parameters.face, parameters.cost) {
                    return response(403, why, None);
                }
            }
            b"unregister" => self.withdraw(&parameters.name, parameters.face),
            _ => return response(501, "Unknown command", None),
        }
        response(200, "Readvertise command successful", Some(&parameters.name))
    }

    /// An application of this host serves a prefix.
    pub(super) fn announce(&mut self, prefix: &Name, face: FaceId, cost: u64) -> Result<(), &'static str> {
        if self.names.is_reserved(prefix.as_ref()) {
            self.counters.denied += 1;
            return Err("The prefix belongs to hosts or to the network itself");
        }
        let max = self.config.limits.local_prefixes;
        if !self.local.announce(prefix, face, cost.min(super::routes::PREFIX_INFINITY - 1), max) {
            self.counters.over_limit += 1;
            self.note(Note::LimitReached { limit: "local_prefixes" });
            return Err("There are too many prefixes");
        }
        self.on_local_changed(prefix);
        Ok(())
    }

    pub(super) fn withdraw(&mut self, prefix: &Name, face: FaceId) {
        self.local.withdraw(prefix, face);
        self.on_local_changed(prefix);
    }

    /// A prefix of this host has changed: tell the network soon, and look at its other ways.
    pub(super) fn on_local_changed(&mut self, prefix: &Name) {
        let cost = self.local.find(prefix).and_then(|local| local.cost());
        match cost {
            Some(cost) => {
                let id = self.prefixes.insert(prefix);
                self.prefixes.set_exit(id, SELF, cost);
                self.dirty_prefixes.insert(id);
            }
            None => {
                if let Some(id) = self.prefixes.find(prefix) {
                    self.prefixes.remove_exit(id, SELF);
                    self.dirty_prefixes.insert(id);
                }
            }
        }
        self.publish_soon();
    }

    /// Withdraws all, and does nothing afterwards.
    pub(super) fn stop(&mut self) {
        self.publish_reset();
        // Whoever uses this router for anything looks for another way.
        self.publish_advertisement(Vec::new());
        self.send_last_hellos();
        self.remove_all_routes();
        self.destroy_own_faces();
        self.is_stopped = true;
        self.due_ms = MS_MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_like_ndnd_does() {
        // The example in ndnd's dv/dv/mgmt.go: /cathy, origin 65.
        let wire = b"h\x0c\x07\x07\x08\x05cathyo\x01A";
        let parameters = Parameters::decode(wire).unwrap();
        assert_eq!(parameters, Parameters { name: "/cathy".parse().unwrap(), face: FaceId::NONE, cost: 0 });
        for cut in 0..wire.len() {
            assert!(Parameters::decode(&wire[..cut]).is_err());
        }
        assert!(Parameters::decode(&[CONTROL_PARAMETERS as u8, 3, COST as u8, 1, 5]).is_err());
    }
}
