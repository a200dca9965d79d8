//! Management commands and datasets of the router, as any application asks for them.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use byname_control::mgmt::tlv::{ControlParameters, ControlResponse, Element};
use byname_trust::Signer;
use byname_wire::data::content_type;
use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::{Component, Data, Name, NameRef};

use super::{places, registrations, suspensions};

/// How long to wait for an answer to a command or for a segment.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Lifetime of the Interest for the next event of a face.
const EVENT_LIFETIME: Duration = Duration::from_secs(60);
/// Most bytes of a dataset.
const DATASET_BYTES_MAX: usize = 1 << 30;

/// What an Interest is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// A route.
    Route(registrations::Command),
    /// A face that is suspended or used again.
    Suspension(suspensions::Command),
    /// A place on a tree.
    Place(places::Command),
    /// A face to this URI.
    CreateFace {
        /// As it was asked for.
        uri: String,
    },
    /// The end of a face.
    DestroyFace,
    /// Data leaves the content store.
    Erase {
        /// Its name.
        name: Name,
    },
    /// A strategy, or the fields of this face. It is repeated until it succeeds.
    Setting {
        /// Module and verb.
        what: (&'static str, &'static str),
        /// Its parameters.
        parameters: Box<ControlParameters>,
    },
    /// A segment of a dataset.
    Segment {
        /// Which dataset.
        of: Dataset,
        /// The segments before it.
        before: Vec<u8>,
    },
    /// The next event of a face; `None`: the latest one.
    FaceEvent(Option<u64>),
}

/// A dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dataset {
    /// `faces/list`
    Faces,
    /// `rib/list`
    Routes,
}

impl Dataset {
    fn module(self) -> &'static str {
        match self {
            Dataset::Faces => "faces",
            Dataset::Routes => "rib",
        }
    }
}

/// An answer of the router.
#[derive(Debug)]
pub enum Answer {
    /// To a command.
    Response(Purpose, ControlResponse),
    /// A whole dataset.
    Dataset(Dataset, Vec<u8>),
    /// An event of a face, with its number.
    FaceEvent(u64, Vec<u8>),
    /// The next segment must be asked for first.
    Incomplete,
}

struct InFlight {
    purpose: Purpose,
    until: Instant,
}

/// Interests for management that wait for their answers.
pub struct Commands {
    signer: Signer,
    in_flight: HashMap<Name, InFlight>,
}

impl Commands {
    /// Commands that are signed so.
    pub fn new(signer: Signer) -> Self {
        Commands { signer, in_flight: HashMap::new() }
    }

    /// The Interest of a command.
    pub fn command(
        &mut self,
        (module, verb): (&str, &str),
        parameters: &ControlParameters,
        purpose: Purpose,
        now: Instant,
    ) -> Vec<u8> {
        let name = management(module, verb).join(Component::generic(&parameters.encode()));
        self.signed(name, Vec::new(), purpose, now)
    }

    /// The Interest of a command whose parameters are in ApplicationParameters.
    pub fn command_with(
        &mut self,
        (module, verb): (&str, &str),
        parameters: Vec<u8>,
        purpose: Purpose,
        now: Instant,
    ) -> Vec<u8> {
        self.signed(management(module, verb), parameters, purpose, now)
    }

    fn signed(&mut self, name: Name, parameters: Vec<u8>, purpose: Purpose, now: Instant) -> Vec<u8> {
        let interest = InterestBuilder::new(name, rand::random())
            .must_be_fresh(true)
            .lifetime_ms(TIMEOUT.as_millis() as u64)
            .application_parameters(parameters);
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let Ok(wire) = self.signer.sign_command(&interest, unix_ms) else { return Vec::new() };
        if let Ok(interest) = byname_wire::Interest::decode(&wire) {
            self.in_flight.insert(interest.name.to_name(), InFlight { purpose, until: now + TIMEOUT });
        }
        wire
    }

    /// The first Interest for a dataset.
    pub fn dataset(&mut self, of: Dataset, now: Instant) -> Vec<u8> {
        let name = management(of.module(), "list");
        let purpose = Purpose::Segment { of, before: Vec::new() };
        self.ask(name, true, TIMEOUT, purpose, now)
    }

    /// The Interest for the event after this one; `None`: for the latest.
    pub fn face_event(&mut self, after: Option<u64>, now: Instant) -> Vec<u8> {
        let events = management("faces", "events");
        match after {
            None => self.ask(events, true, TIMEOUT, Purpose::FaceEvent(None), now),
            Some(after) => {
                let name = events.join_number(component_type::SEQUENCE_NUM, after + 1);
                self.ask(name, false, EVENT_LIFETIME, Purpose::FaceEvent(Some(after)), now)
            }
        }
    }

    fn ask(&mut self, name: Name, is_prefix: bool, lifetime: Duration, purpose: Purpose, now: Instant) -> Vec<u8> {
        let interest = InterestBuilder::new(name.clone(), rand::random()).lifetime_ms(lifetime.as_millis() as u64);
        self.in_flight.insert(name, InFlight { purpose, until: now + lifetime });
        interest.can_be_prefix(is_prefix).must_be_fresh(is_prefix).encode()
    }

    /// Takes Data that may be an answer. `None`: nothing waits for it. Otherwise the answer, and the Interest to send
    /// next, if there is one.
    pub fn on_data(&mut self, data: &Data<'_>, now: Instant) -> Option<(Answer, Option<Vec<u8>>)> {
        let depths = (0..=data.name.len()).rev();
        let name =
            depths.map(|depth| data.name.prefix(depth).to_name()).find(|name| self.in_flight.contains_key(name))?;
        let InFlight { purpose, .. } = self.in_flight.remove(&name)?;
        let number = data.name.component(-1);
        match purpose {
            Purpose::FaceEvent(_) => {
                let seq = number.filter(|last| last.typ == component_type::SEQUENCE_NUM).and_then(|last| last.number());
                Some((Answer::FaceEvent(seq.unwrap_or(0), data.content.to_vec()), None))
            }
            Purpose::Segment { of, mut before } => {
                let segment = number.filter(|last| last.typ == component_type::SEGMENT).and_then(|last| last.number());
                let (Some(segment), true) = (segment, data.content_type != content_type::NACK) else {
                    return Some((Answer::Dataset(of, Vec::new()), None));
                };
                before.extend_from_slice(data.content);
                if data.final_block == number || before.len() > DATASET_BYTES_MAX {
                    return Some((Answer::Dataset(of, before), None));
                }
                let next = data.name.prefix(data.name.len() - 1).to_name();
                let next = next.join_number(component_type::SEGMENT, segment + 1);
                let interest = self.ask(next, false, TIMEOUT, Purpose::Segment { of, before }, now);
                Some((Answer::Incomplete, Some(interest)))
            }
            purpose => {
                let malformed = |_| ControlResponse::new(0, "a malformed answer");
                let response = ControlResponse::decode(data.content).unwrap_or_else(malformed);
                Some((Answer::Response(purpose, response), None))
            }
        }
    }

    /// An Interest was refused. Returns what it was for.
    pub fn on_nack(&mut self, name: NameRef<'_>) -> Option<Purpose> {
        self.in_flight.remove(&name.to_name()).map(|in_flight| in_flight.purpose)
    }

    /// What was not answered in time.
    pub fn expired(&mut self, now: Instant) -> Vec<Purpose> {
        let over: Vec<Name> =
            self.in_flight.iter().filter(|(_, of)| of.until <= now).map(|(name, _)| name.clone()).collect();
        over.into_iter().filter_map(|name| self.in_flight.remove(&name)).map(|of| of.purpose).collect()
    }

    /// When [`Commands::expired`] has something.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.in_flight.values().map(|of| of.until).min()
    }
}

fn management(module: &str, verb: &str) -> Name {
    let components = ["localhost", "nfd", module, verb];
    Name::from_components(components.iter().map(|component| Component::generic(component.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::Interest;
    use byname_wire::data::DataBuilder;

    fn name_of(wire: &[u8]) -> Name {
        Interest::decode(wire).expect("an Interest").name.to_name()
    }

    #[test]
    fn datasets_come_in_segments() {
        let (mut commands, now) = (Commands::new(Signer::digest()), Instant::now());
        let base = name_of(&commands.dataset(Dataset::Routes, now)).join_number(component_type::VERSION, 7);
        let segment = |n: u64, last: u64| {
            let data = DataBuilder::new(base.join_number(component_type::SEGMENT, n)).content(vec![n as u8; 2]);
            let last = Name::default().join_number(component_type::SEGMENT, last);
            data.final_block(last.as_ref().component(0).expect("one")).encode()
        };
        let first = segment(0, 1);
        let (answer, next) = commands.on_data(&Data::decode(&first).expect("Data"), now).expect("wanted");
        assert!(matches!(answer, Answer::Incomplete));
        assert_eq!(name_of(&next.expect("an Interest")), base.join_number(component_type::SEGMENT, 1));
        let second = segment(1, 1);
        let (answer, next) = commands.on_data(&Data::decode(&second).expect("Data"), now).expect("wanted");
        let Answer::Dataset(Dataset::Routes, content) = answer else { panic!("{answer:?}") };
        assert!(content == [0, 0, 1, 1] && next.is_none());
        assert!(commands.on_data(&Data::decode(&second).expect("Data"), now).is_none(), "nothing waits for it");
    }

    #[test]
    fn commands_are_answered_refused_or_expire() {
        let (mut commands, now) = (Commands::new(Signer::digest()), Instant::now());
        let parameters = ControlParameters { name: "/a".parse().ok(), ..Default::default() };
        let send = |commands: &mut Commands| {
            name_of(&commands.command(("faces", "destroy"), &parameters, Purpose::DestroyFace, now))
        };
        let (answered, refused, _lost) = (send(&mut commands), send(&mut commands), send(&mut commands));
        let data = DataBuilder::new(answered).content(ControlResponse::new(200, "OK").encode()).encode();
        let answer = commands.on_data(&Data::decode(&data).expect("Data"), now);
        assert!(
            matches!(answer, Some((Answer::Response(Purpose::DestroyFace, response), None)) if response.code == 200)
        );
        assert_eq!(commands.on_nack(refused.as_ref()), Some(Purpose::DestroyFace));
        assert_eq!(commands.expired(now), []);
        assert_eq!(commands.expired(now + TIMEOUT), [Purpose::DestroyFace]);
        assert_eq!(commands.next_deadline(), None);
    }
}
