//! Packets that cross from one core to another and back, on two processors.
//!
//! One thread has the faces, and the other is the home of all names. They take turns with a burst, so each reads what the
//! other has just written.

use std::time::Instant;

use anyhow::ensure;
use byname_forward::Outgoing;

use super::Setting;
use super::rig::{self, CONSUMER, Makes, Seats, Thread};
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
    /// It has the faces.
    Ports(Box<Makes>, Thread),
    /// It is the home of all names.
    Home(Thread),
}

const HOME: usize = 1;
const PORTS: usize = 0;

/// Sends bursts from one core through the home on another, after some for warming up. Returns the times of both threads.
pub fn cross(setting: &Setting, warming: usize) -> anyhow::Result<[Both; 2]> {
    cores::ensure_enough(2, "packets that cross between cores")?;
    let (makes, all) = rig::threads(&Seats { count: 2, home: HOME, spreads: false }, setting)?;
    let [ports, home]: [Thread; 2] = all.try_into().map_err(|_| anyhow::anyhow!("there are two threads"))?;
    let mut sides = [Side::Ports(Box::new(makes), ports), Side::Home(home)];
    let all = on_cores(&mut sides, |side| {
        let mut times = Both::default();
        for burst in 0..warming + setting.bursts {
            if burst == warming {
                times = Both::default();
            }
            match side {
                Side::Ports(makes, thread) => exchange(makes, thread, &mut times),
                Side::Home(thread) => {
                    serve(thread, &mut times.interests);
                    serve(thread, &mut times.data);
                }
            }
        }
        times
    });
    let all: [Both; 2] = all.try_into().map_err(|_| anyhow::anyhow!("there are two threads"))?;
    ensure!(all[PORTS].data.ns(Step::Give) > 0.0, "no Data crossed");
    Ok(all)
}

/// Gives a burst of Interests and then their Data, and sends what comes back.
fn exchange(makes: &mut Makes, thread: &mut Thread, times: &mut Both) {
    let names = makes.new_names();
    let mut received = Vec::with_capacity(names.len());
    times.interests.time(Step::Give, || {
        received.extend(names.iter().map(|name| makes.interest(CONSUMER, *name)));
        thread.poll(&mut received);
        names.len()
    });
    let asked = send(thread, &mut times.interests, |outgoing| makes.asked(outgoing));
    times.data.time(Step::Give, || {
        received.extend(asked.iter().map(|(name, token)| makes.data(*name, *token)));
        thread.poll(&mut received);
        asked.len()
    });
    send(thread, &mut times.data, |_| ());
}

/// Takes a burst from its home and sends it. `look` sees it before; that takes no time.
fn send<T>(thread: &mut Thread, samples: &mut Samples, look: impl FnOnce(&[Outgoing]) -> T) -> T {
    wait(thread);
    let begin = Instant::now();
    let count = thread.poll(&mut Vec::new());
    let taken = begin.elapsed();
    let found = look(&thread.outgoing);
    let begin = Instant::now();
    thread.outgoing.clear();
    samples.add(Step::TakeAndSend, taken + begin.elapsed(), count);
    found
}

/// Handles one burst at its home, and gives what is to be sent to the other core.
fn serve(thread: &mut Thread, samples: &mut Samples) {
    wait(thread);
    samples.time(Step::TakeAndForward, || thread.poll(&mut Vec::new()));
    samples.time(Step::PushOutput, || {
        let Thread { seat, outgoing, .. } = thread;
        let count = outgoing.len();
        outgoing.iter_mut().for_each(|outgoing| seat.send_to(PORTS, outgoing));
        outgoing.clear();
        seat.publish_output();
        count
    });
}

/// Waits for a burst, which the other thread publishes at once.
fn wait(thread: &mut Thread) {
    let mut looks = 0_u32;
    while !thread.seat.has_input() {
        looks += 1;
        // Another process may need this processor.
        if looks.is_multiple_of(10_000) { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}
