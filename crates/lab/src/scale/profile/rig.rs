//! One worker, and the packets of its exchanges.

use byname_forward::crossing::Parcel;
use byname_forward::dispatch::Dispatcher;
use byname_forward::face_table::{LinkType, Scope};
use byname_forward::worker::Worker;
use byname_forward::{FaceId, LinkFields, Outgoing, Received, Ticks};
use byname_wire::PitToken;

use super::samples::{Samples, Step};
use crate::balance::traffic::{Packets, Shards, workers};

pub const CONSUMER: FaceId = FaceId(256);
/// Asks for names that are pending.
const OTHER: FaceId = FaceId(257);
pub const PRODUCER: FaceId = FaceId(258);

/// The first worker of some, its dispatcher, and the packets for it.
pub struct Rig {
    pub makes: Makes,
    /// `None`: the worker is alone.
    pub dispatcher: Option<Dispatcher>,
    spreading: Option<Dispatcher>,
    pub worker: Worker,
    /// Names that were answered, in the order of their answers.
    known: Vec<u64>,
    /// Number of known names behind the newest from which hits are drawn.
    back: usize,
    outgoing: Vec<Outgoing>,
}

/// Makes packets of names whose home is one worker.
pub struct Makes {
    packets: Packets,
    burst: usize,
    home: usize,
    next: u64,
    nonce: u32,
    /// Finds homes; `None` if there is one worker.
    probe: Option<Dispatcher>,
}

impl Makes {
    /// Makes packets of all names.
    pub fn new(packets: Packets, burst: usize) -> Self {
        Makes { packets, burst, home: 0, next: 0, nonce: 0, probe: None }
    }

    /// Packets in a burst.
    pub fn burst(&self) -> usize {
        self.burst
    }

    /// Names that are new, for one burst.
    pub fn new_names(&mut self) -> Vec<u64> {
        let mut names = Vec::with_capacity(self.burst);
        while names.len() < self.burst {
            let name = self.next;
            self.next += 1;
            let interest = self.interest(CONSUMER, name);
            let mut home = self.home;
            if let Some(probe) = &mut self.probe {
                probe.dispatch(interest, |worker, _| home = worker);
            }
            if home == self.home {
                names.push(name);
            }
        }
        names
    }

    pub fn interest(&mut self, face: FaceId, name: u64) -> Received {
        self.nonce = self.nonce.wrapping_add(1);
        Received { face, fields: LinkFields::default(), packet: self.packets.interest(name, self.nonce) }
    }

    pub fn data(&self, name: u64, pit_token: PitToken) -> Received {
        let fields = LinkFields { pit_token, ..LinkFields::default() };
        Received { face: PRODUCER, fields, packet: self.packets.data(name) }
    }

    /// Names and tokens of Interests that a worker sent.
    pub fn asked(&self, outgoing: &[Outgoing]) -> Vec<(u64, PitToken)> {
        outgoing.iter().map(|sent| (self.packets.name_of(&sent.packet), sent.fields.pit_token)).collect()
    }
}

/// The worker learns of a face.
pub fn face_up(worker: &mut Worker, face: FaceId) {
    worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint);
}

/// Packets for a worker, in either form.
enum Burst {
    Received(Vec<Received>),
    Parcels(Vec<Parcel>),
}

impl Rig {
    /// The worker `home` of `count`, each with a content store for `cs` packets.
    pub fn new(count: usize, home: usize, cs: u64, burst: usize, seed: u64) -> anyhow::Result<Self> {
        let shards = |window| Shards { count, cs: cs * count as u64, window, seed };
        let (dispatcher, mut all) = workers(&shards(None), &[PRODUCER])?;
        let mut worker = all.swap_remove(home);
        [CONSUMER, OTHER, PRODUCER].into_iter().for_each(|face| face_up(&mut worker, face));
        let mut spreading = dispatcher.of_thread(0);
        spreading.spread_hot_names(byname_forward::hot::WINDOW);
        let several = count > 1;
        let probe = several.then(|| dispatcher.of_thread(0));
        let makes = Makes { home, probe, ..Makes::new(Packets::new(1), burst) };
        let (dispatcher, spreading) = (several.then_some(dispatcher), several.then_some(spreading));
        Ok(Rig { makes, dispatcher, spreading, worker, known: Vec::new(), back: cs as usize / 2, outgoing: Vec::new() })
    }

    /// Asks for new names, and answers them. Then asks for names that were answered some time ago. If `doubly`, a second
    /// face asks while the names are pending; Data is not timed then, because two packets leave for each.
    pub fn cycle(&mut self, doubly: bool, interests: &mut Samples, data: &mut Samples) {
        let names = self.makes.new_names();
        let mut received = Vec::with_capacity(names.len());
        let makes = &mut self.makes;
        interests.time(Step::Receive, || {
            received.extend(names.iter().map(|name| makes.interest(CONSUMER, *name)));
            names.len()
        });
        let burst = self.dispatch(received, interests);
        self.forward(burst, Step::Forward, interests);
        let asked = self.makes.asked(&self.outgoing);
        self.send(interests);
        if doubly {
            let received = names.iter().map(|name| self.makes.interest(OTHER, *name)).collect();
            let burst = self.dispatch(received, &mut Samples::default());
            self.forward(burst, Step::Pending, interests);
            self.outgoing.clear();
            self.dispatch_spreading(&names, interests);
        }
        let mut answers = Vec::with_capacity(asked.len());
        let makes = &self.makes;
        data.time(Step::Receive, || {
            answers.extend(asked.iter().map(|(name, token)| makes.data(*name, *token)));
            asked.len()
        });
        let burst = self.dispatch(answers, data);
        let untimed = &mut Samples::default();
        self.forward(burst, Step::Forward, if doubly { untimed } else { data });
        self.send(data);
        self.ask_known(interests);
        self.known.extend(names);
    }

    fn ask_known(&mut self, interests: &mut Samples) {
        let Some(from) = self.known.len().checked_sub(self.back.max(self.makes.burst)) else { return };
        let names = self.known[from..][..self.makes.burst].to_vec();
        let received = names.iter().map(|name| self.makes.interest(CONSUMER, *name)).collect();
        let burst = self.dispatch(received, &mut Samples::default());
        self.forward(burst, Step::Hit, interests);
        self.outgoing.clear();
    }

    /// Finds the homes of packets, which is this worker.
    fn dispatch(&mut self, received: Vec<Received>, samples: &mut Samples) -> Burst {
        let Some(dispatcher) = &mut self.dispatcher else { return Burst::Received(received) };
        let (count, mut parcels) = (received.len(), Vec::with_capacity(received.len()));
        samples.time(Step::Dispatch, || {
            for received in received {
                dispatcher.dispatch(received, |_, parcel| parcels.push(parcel));
            }
            count
        });
        Burst::Parcels(parcels)
    }

    fn forward(&mut self, burst: Burst, step: Step, samples: &mut Samples) {
        let Rig { worker, outgoing, .. } = self;
        match burst {
            Burst::Received(mut received) => samples.time(step, || {
                let count = received.len();
                worker.poll(Ticks(0), &mut received, outgoing);
                count
            }),
            Burst::Parcels(mut parcels) => samples.time(step, || {
                let count = parcels.len();
                worker.poll_parcels(Ticks(0), &mut parcels, outgoing);
                count
            }),
        }
    }

    /// A port in memory sends by dropping.
    fn send(&mut self, samples: &mut Samples) {
        let outgoing = &mut self.outgoing;
        samples.time(Step::Send, || {
            let count = outgoing.len();
            outgoing.clear();
            count
        });
    }

    /// Finds the homes of Interests while counting how popular their names are.
    fn dispatch_spreading(&mut self, names: &[u64], samples: &mut Samples) {
        let Some(dispatcher) = &mut self.spreading else { return };
        let received: Vec<_> = names.iter().map(|name| self.makes.interest(CONSUMER, *name)).collect();
        let mut parcels = Vec::with_capacity(names.len());
        samples.time(Step::SpreadDispatch, || {
            received.into_iter().for_each(|received| dispatcher.dispatch(received, |_, parcel| parcels.push(parcel)));
            names.len()
        });
    }
}
