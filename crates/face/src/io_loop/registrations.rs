//! Makes an application get the answer to its prefix registration before it gets Interests for the prefix.
//!
//! A route works before the answer to its registration leaves, so an application that has the answer can rely on the
//! route. But an Interest may take the new route and overtake the answer. ndn-cxx sets the filter for a prefix only
//! when the answer comes. It drops earlier Interests, and they time out. So this module holds Interests below the
//! prefix back on their way to the face, and sends them after the answer.
//!
//! Cost: one look at an empty channel per round while nobody registers.

use std::time::Duration;

use byname_forward::{FaceId, Outgoing, Ticks};
use byname_wire::tlv::types;
use byname_wire::{Data, Interest, Name};
use crossbeam_channel::Receiver;

/// Maximum number of registrations that wait for their answers. Interests of further registrations are not held back.
const REGISTRATIONS_MAX: usize = 256;
/// Maximum number of Interests held back for one registration. Further ones are sent at once.
const INTERESTS_MAX: usize = 1024;
/// Time to wait for an answer: as long as an application waits for it by default.
const ANSWER_TIME: Duration = Duration::from_secs(4);

/// A command by which an application registers a prefix for its own face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Face of the application.
    pub face: FaceId,
    /// Prefix that it registers.
    pub prefix: Name,
    /// Name of the command, and of its answer.
    pub command: Name,
}

/// A registration whose answer has not been sent yet, with the Interests that it holds back.
pub(super) struct Waiting {
    registration: Registration,
    until: Ticks,
    interests: Vec<Outgoing>,
}

/// Registrations whose answers have not been sent yet.
pub(super) struct Registrations {
    new: Receiver<Registration>,
    waiting: Vec<Waiting>,
}

impl Registrations {
    pub fn new(new: Receiver<Registration>) -> Self {
        Registrations { new, waiting: Vec::new() }
    }

    /// Takes Interests that have to wait out of `outgoing`. Puts them back behind their answer, or when the answer does
    /// not come in time.
    #[inline]
    pub fn sort(&mut self, now: Ticks, outgoing: &mut Vec<Outgoing>) {
        // The control side announces a registration before it makes the route. So a packet that took the route comes
        // after the announcement.
        if !self.waiting.is_empty() || !self.new.is_empty() {
            self.sort_all(now, outgoing);
        }
    }

    /// Takes out the registrations of a face that moves to another thread, with the Interests that they hold back.
    pub fn take(&mut self, now: Ticks, face: FaceId) -> Vec<Waiting> {
        self.listen(now);
        self.waiting.extract_if(.., |waiting| waiting.registration.face == face).collect()
    }

    /// Whether a registration of this face waits for its answer.
    pub fn concern(&mut self, now: Ticks, face: FaceId) -> bool {
        self.listen(now);
        self.waiting.iter().any(|waiting| waiting.registration.face == face)
    }

    /// Adds the registrations of a face that comes from another thread.
    pub fn add(&mut self, registrations: Vec<Waiting>) {
        self.waiting.extend(registrations);
    }

    fn listen(&mut self, now: Ticks) {
        for registration in self.new.try_iter() {
            if self.waiting.len() < REGISTRATIONS_MAX {
                self.waiting.push(Waiting { registration, until: now + ANSWER_TIME, interests: Vec::new() });
            }
        }
    }

    /// Time at which the first held Interests have waited long enough.
    pub fn next_deadline(&self) -> Option<Ticks> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    #[cold]
    fn sort_all(&mut self, now: Ticks, outgoing: &mut Vec<Outgoing>) {
        self.listen(now);
        let mut sorted = Vec::with_capacity(outgoing.len());
        for mut packet in outgoing.drain(..) {
            let answers = self.waiting.iter().position(|waiting| waiting.is_answered_by(&packet));
            match self.waiting.iter_mut().find(|waiting| waiting.holds_back(&packet)) {
                Some(waiting) => waiting.interests.push(packet.take()),
                None => sorted.push(packet),
            }
            if let Some(answered) = answers {
                sorted.append(&mut self.waiting.remove(answered).interests);
            }
        }
        self.waiting.retain_mut(|waiting| {
            let waits = waiting.until > now;
            if !waits {
                sorted.append(&mut waiting.interests);
            }
            waits
        });
        *outgoing = sorted;
    }
}

impl Waiting {
    fn is_answered_by(&self, packet: &Outgoing) -> bool {
        packet.face == self.registration.face
            && is_of_type(packet, types::DATA)
            && Data::decode(&packet.packet).is_ok_and(|data| data.name == self.registration.command.as_ref())
    }

    fn holds_back(&self, packet: &Outgoing) -> bool {
        packet.face == self.registration.face
            && self.interests.len() < INTERESTS_MAX
            && is_of_type(packet, types::INTEREST)
            && packet.fields.nack.is_none()
            && Interest::decode(&packet.packet)
                .is_ok_and(|interest| self.registration.prefix.as_ref().is_prefix_of(&interest.name))
    }
}

fn is_of_type(packet: &Outgoing, typ: u64) -> bool {
    packet.packet.first().is_some_and(|&first| u64::from(first) == typ)
}

#[cfg(test)]
mod tests {
    use byname_forward::{LinkFields, Packet};
    use byname_wire::data::DataBuilder;
    use byname_wire::interest::InterestBuilder;
    use crossbeam_channel::{Sender, unbounded};

    use super::*;

    const APP: FaceId = FaceId(256);
    const OTHER: FaceId = FaceId(257);

    fn name(uri: &str) -> Name {
        uri.parse().expect("a name in a test")
    }

    fn interest(face: FaceId, uri: &str) -> Outgoing {
        let packet = Packet::copy_from(&InterestBuilder::new(name(uri), 1).encode());
        Outgoing { face, fields: LinkFields::default(), packet }
    }

    fn data(face: FaceId, uri: &str) -> Outgoing {
        Outgoing {
            face,
            fields: LinkFields::default(),
            packet: Packet::copy_from(&DataBuilder::new(name(uri)).encode()),
        }
    }

    fn registrations() -> (Sender<Registration>, Registrations) {
        let (sender, receiver) = unbounded();
        (sender, Registrations::new(receiver))
    }

    fn register(prefix: &str) -> Registration {
        Registration { face: APP, prefix: name(prefix), command: name("/register").join_number(50, 1) }
    }

    fn sent(registrations: &mut Registrations, now: Ticks, packets: Vec<Outgoing>) -> Vec<String> {
        let mut outgoing = packets;
        registrations.sort(now, &mut outgoing);
        let shown = |o: &Outgoing| match o.packet[0] {
            5 => format!("{} asks {}", o.face, Interest::decode(&o.packet).expect("built above").name),
            _ => format!("{} gets {}", o.face, Data::decode(&o.packet).expect("built above").name),
        };
        outgoing.iter().map(shown).collect()
    }

    #[test]
    fn interests_below_the_prefix_follow_the_answer() {
        let (sender, mut registrations) = registrations();
        let now = Ticks::from_ms(1);
        assert_eq!(sent(&mut registrations, now, vec![interest(APP, "/p/0")]), ["256 asks /p/0"]);
        sender.send(register("/p")).expect("open");
        let refused = {
            let mut refused = interest(APP, "/p/nack");
            refused.fields.nack = Some(byname_wire::NackReason::NoRoute);
            refused
        };
        let burst = vec![
            interest(APP, "/p/1"),
            interest(OTHER, "/p/1"),
            interest(APP, "/q"),
            data(APP, "/p/1"),
            data(OTHER, "/register/seg=1"),
            refused,
        ];
        let passed = sent(&mut registrations, now, burst);
        assert_eq!(
            passed,
            ["257 asks /p/1", "256 asks /q", "256 gets /p/1", "257 gets /register/seg=1", "256 asks /p/nack"]
        );
        assert!(registrations.next_deadline().is_some());
        let passed = sent(&mut registrations, now, vec![interest(APP, "/p/2"), data(APP, "/register/seg=1")]);
        assert_eq!(passed, ["256 gets /register/seg=1", "256 asks /p/1", "256 asks /p/2"]);
        assert_eq!(sent(&mut registrations, now, vec![interest(APP, "/p/3")]), ["256 asks /p/3"]);
        assert_eq!(registrations.next_deadline(), None);
    }

    #[test]
    fn interests_do_not_wait_for_ever_nor_without_bound() {
        let (sender, mut registrations) = registrations();
        let now = Ticks::from_ms(1);
        for _ in 0..2 * REGISTRATIONS_MAX {
            sender.send(register("/p")).expect("open");
        }
        assert!(sent(&mut registrations, now, vec![interest(APP, "/p/1")]).is_empty());
        assert_eq!(registrations.waiting.len(), REGISTRATIONS_MAX);
        let end = registrations.next_deadline().expect("they wait");
        assert_eq!(sent(&mut registrations, end, vec![interest(APP, "/p/2")]), ["256 asks /p/1", "256 asks /p/2"]);
        assert_eq!(registrations.next_deadline(), None);

        sender.send(register("/p")).expect("open");
        let flood = (0..INTERESTS_MAX + 10).map(|_| interest(APP, "/p/3")).collect();
        assert_eq!(sent(&mut registrations, now, flood).len(), 10);
    }

    #[test]
    fn a_face_that_moves_takes_its_registrations_along() {
        let (sender, mut old) = registrations();
        let (_, mut new) = registrations();
        let now = Ticks::from_ms(1);
        sender.send(register("/p")).expect("open");
        assert!(sent(&mut old, now, vec![interest(APP, "/p/1")]).is_empty());
        // This one has not been noticed yet.
        sender.send(Registration { prefix: name("/q"), ..register("/q") }).expect("open");
        assert!(old.take(now, OTHER).is_empty());
        new.add(old.take(now, APP));
        assert_eq!(old.next_deadline(), None);
        let passed = sent(&mut new, now, vec![interest(APP, "/q/1"), interest(APP, "/p/2")]);
        assert!(passed.is_empty(), "{passed:?}");
        let passed = sent(&mut new, now, vec![data(APP, "/register/seg=1")]);
        assert_eq!(passed, ["256 gets /register/seg=1", "256 asks /p/1", "256 asks /p/2"]);
    }
}
