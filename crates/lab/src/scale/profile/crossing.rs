//! Packets that cross from one core to another and back, on two processors.
//!
//! One thread receives, dispatches and sends. The other has the worker. They take turns with a burst, so each reads what
//! the other has just written.

use std::time::Instant;

use anyhow::ensure;
use byname_forward::crossing::{Departure, Parcel};
use byname_forward::dispatch::Dispatcher;
use byname_forward::ring::{Consumer, Producer, ring};
use byname_forward::worker::Worker;
use byname_forward::{Outgoing, Received, Ticks};

use super::rig::{CONSUMER, Makes, Rig};
use super::samples::{Samples, Step};
use crate::machine::cores;
use crate::timing::on_cores;

/// Times of Interests and of Data.
#[derive(Default)]
pub struct Both {
    pub interests: Samples,
    pub data: Samples,
}

/// The two threads.
enum Side {
    Ports { makes: Box<Makes>, dispatcher: Box<Dispatcher>, to_home: Producer<Parcel>, sending: Consumer<Departure> },
    Home { worker: Box<Worker>, arriving: Consumer<Parcel>, to_owner: Producer<Departure> },
}

/// Sends `bursts` bursts through the rig's worker on another core, after some for warming up. Returns the times of both
/// threads.
pub fn cross(rig: Rig, bursts: usize, warming: usize) -> anyhow::Result<[Both; 2]> {
    cores::ensure_enough(2, "packets that cross between cores")?;
    let Rig { makes, dispatcher, worker, .. } = rig;
    let Some(dispatcher) = dispatcher else { anyhow::bail!("a worker that is alone has no other core") };
    let ring_packets = 2 * makes.burst();
    let (to_home, arriving) = ring(ring_packets)?;
    let (to_owner, sending) = ring(ring_packets)?;
    let mut sides = [
        Side::Ports { makes: Box::new(makes), dispatcher: Box::new(dispatcher), to_home, sending },
        Side::Home { worker: Box::new(worker), arriving, to_owner },
    ];
    let all = on_cores(&mut sides, |side| {
        let mut times = Both::default();
        for burst in 0..warming + bursts {
            if burst == warming {
                times = Both::default();
            }
            match side {
                Side::Ports { makes, dispatcher, to_home, sending } => {
                    exchange(makes, dispatcher, to_home, sending, &mut times);
                }
                Side::Home { worker, arriving, to_owner } => {
                    serve(worker, arriving, to_owner, &mut times.interests);
                    serve(worker, arriving, to_owner, &mut times.data);
                }
            }
        }
        times
    });
    let all: [Both; 2] = all.try_into().map_err(|_| anyhow::anyhow!("there are two threads"))?;
    ensure!(all[0].data.ns(Step::Give) > 0.0, "no Data crossed");
    Ok(all)
}

/// Gives a burst of Interests and then their Data, and sends what comes back.
fn exchange(
    makes: &mut Makes,
    dispatcher: &mut Dispatcher,
    to_home: &mut Producer<Parcel>,
    sending: &mut Consumer<Departure>,
    times: &mut Both,
) {
    let names = makes.new_names();
    times.interests.time(Step::Give, || {
        for name in &names {
            give(makes.interest(CONSUMER, *name), dispatcher, to_home);
        }
        to_home.publish();
        names.len()
    });
    let asked = send(sending, names.len(), &mut times.interests, |outgoing| makes.asked(outgoing));
    times.data.time(Step::Give, || {
        for (name, token) in &asked {
            give(makes.data(*name, *token), dispatcher, to_home);
        }
        to_home.publish();
        asked.len()
    });
    send(sending, names.len(), &mut times.data, |_| ());
}

fn give(received: Received, dispatcher: &mut Dispatcher, to_home: &mut Producer<Parcel>) {
    dispatcher.dispatch(received, |_, parcel| {
        // The ring has room for two bursts, and one is under way.
        let _ = to_home.push(parcel);
    });
}

/// Takes a burst from the worker's core and sends it. `look` sees it before; that takes no time.
fn send<T>(
    sending: &mut Consumer<Departure>,
    count: usize,
    samples: &mut Samples,
    look: impl FnOnce(&[Outgoing]) -> T,
) -> T {
    wait(sending, count);
    let (mut departing, mut outgoing) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let begin = Instant::now();
    sending.pop_into(&mut departing, count);
    departing.iter_mut().for_each(|departure: &mut Departure| departure.append_to(&mut outgoing));
    let taken = begin.elapsed();
    let found = look(&outgoing);
    let begin = Instant::now();
    outgoing.clear();
    samples.add(Step::TakeAndSend, taken + begin.elapsed(), count);
    found
}

/// Handles one burst at its home, and gives what the worker sends to the other core.
fn serve(
    worker: &mut Worker,
    arriving: &mut Consumer<Parcel>,
    to_owner: &mut Producer<Departure>,
    samples: &mut Samples,
) {
    // A burst is published at once.
    wait(arriving, 1);
    let (mut parcels, mut outgoing) = (Vec::new(), Vec::new());
    samples.time(Step::TakeAndForward, || {
        let count = arriving.pop_into(&mut parcels, usize::MAX);
        worker.poll_parcels(Ticks(0), &mut parcels, &mut outgoing);
        count
    });
    samples.time(Step::PushOutput, || {
        let count = outgoing.len();
        for outgoing in &mut outgoing {
            // As above.
            if let Ok(place) = to_owner.append(Departure::empty()) {
                place.fill_from(outgoing);
            }
        }
        to_owner.publish();
        count
    });
}

/// Waits until so many items are there.
fn wait<T: Send>(ring: &mut Consumer<T>, count: usize) {
    let mut looks = 0_u32;
    while ring.available() < count {
        looks += 1;
        // Another process may need this processor.
        if looks.is_multiple_of(10_000) { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}
