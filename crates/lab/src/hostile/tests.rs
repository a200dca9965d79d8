use byname_forward::Ticks;
use byname_forward::face_table::FaceCounters;
use byname_forward::stages::Stopwatch;

use super::attack::attacker;
use super::measure::{Attacked, attacker_room};
use super::*;
use crate::forward::{self, Run, TURN};
use crate::options::defaults;
use crate::prefix::Tuning;
use crate::progress::Progress;

fn tiny(attacks: &[Attack]) -> Options {
    let options = defaults::<Options>();
    let attacks = attacks.to_vec();
    Options { attacks, fib: 2000, pit: 3000, cs: 500, draws: 1000, seconds: 0.05, ..options }
}

/// Runs `check` on a worker with this data plane, and an attacker that has not begun.
fn attacked(attack: Attack, plane: &str, tuning: Tuning, check: impl FnOnce(&forward::Options, Attacked<'_>)) {
    let mut options = tiny(&[]).ordinary().expect("small tables");
    (options.compare, options.tuning) = (vec![plane.parse().expect("a data plane")], tuning);
    let run = Run::open(&options, Progress::HIDDEN).expect("a made-up workload");
    let (packets, fibs) = (run.packets().expect("small packets"), run.fibs().expect("small tables"));
    let mut threads = Attacked::of_all(attack, &run, &options, &fibs[0], &packets, 4).expect("a made-up workload");
    check(&options, threads.remove(0));
}

/// All attacks that must fail: one of them knows the router's key.
fn without_the_key() -> impl Iterator<Item = Attack> {
    Attack::ALL.into_iter().filter(|attack| *attack != Attack::ForgedWithKey)
}

#[test]
fn others_are_answered_beside_each_attack() {
    for attack in without_the_key() {
        attacked(attack, "compact/all/64", Tuning::default(), |options, mut attacked| {
            // The attack alone fills the attacker's room in the PIT. The other turns take longer than a lifetime. In
            // each of their bursts, 60 of 64 packets are ordinary, and half of these are Data.
            (0..8).for_each(|_| _ = attacked.turn(64));
            (0..100).for_each(|_| _ = attacked.turn(4));
            let bursts = 100 * attacked.traffic.bursts();
            let traffic = &attacked.traffic;
            assert_eq!((traffic.consumers().arrived(), traffic.answered()), (bursts * 30, bursts * 30), "{attack:?}");
            check_that_it_was_in_vain(attack, options, &attacked);
        });
    }
}

/// Checks what became of each packet of the attack: nothing was answered, and nothing took the place of others.
fn check_that_it_was_in_vain(attack: Attack, options: &forward::Options, attacked: &Attacked<'_>) {
    let (sent, worker) = (attacked.attacker.sent(), attacked.traffic.worker());
    let (counters, face) = (worker.counters(), worker.face_counters(attacker(0, 1)).expect("it is up"));
    let drops = |reason| counters.drops.iter().find(|(known, _)| *known == reason).expect("a reason").1;
    let pending = counters.pit_entries - options.pit;
    let routed = counters.faces.out_interests - options.pit - attacked.traffic.consumers().arrived();
    // Evicted, expired, or refused.
    let ended = counters.unsatisfied_interests;
    assert_eq!(face.out_data, 0, "{attack:?}");
    match attack {
        Attack::Unanswerable | Attack::Garbage => {
            assert_eq!((face.in_interests, routed, pending + ended), (sent, sent, sent), "{attack:?}");
            assert!(drops("pit-full") > 0 && pending <= attacker_room(options), "{attack:?}: {pending} pending");
        }
        // Its names repeat after they have expired, so the PIT does not fill up.
        Attack::Forged | Attack::ForgedWithKey => {
            assert_eq!((face.in_interests, routed, pending + ended), (sent, sent, sent), "{attack:?}");
        }
        Attack::Unroutable => {
            assert_eq!((face.in_interests, face.out_nacks, routed, pending), (sent, sent, 0, 0), "{attack:?}");
        }
        Attack::Unsolicited => {
            assert_eq!((face.in_data, drops("unsolicited-data"), pending), (sent, sent, 0), "{attack:?}");
        }
        Attack::Fragments => {
            let kept = sent - attacked.attacker.link_drops();
            assert!(kept <= 128 && face == FaceCounters::default(), "{attack:?}: {kept} kept, {face:?}");
        }
    }
}

/// Lookups in the FIB, and the cache lines that they read, in a turn of ordinary packets and in one of garbage.
fn lookups_and_lines(plane: &str, tuning: Tuning) -> [(u64, u64); 2] {
    let mut counted = [(0, 0); 2];
    attacked(Attack::Garbage, plane, tuning, |_, mut attacked| {
        // Only timed bursts count lines.
        attacked.traffic.worker_mut().time_stages(Stopwatch::new(1, || Ticks(0)));
        counted = [0, 64].map(|of_burst| {
            let before = attacked.traffic.worker().counters().fib_lines;
            _ = attacked.turn(of_burst);
            let after = attacked.traffic.worker().counters().fib_lines;
            (after.lookups - before.lookups, after.lines - before.lines)
        });
    });
    counted
}

/// [So §2.3]: garbage of any length costs no more than the rules' depths. The paper's longest-first, which also probes
/// depths without rules, reads a line for each component.
#[test]
fn garbage_costs_the_fib_no_more_than_an_ordinary_name() {
    let (defaults, papers) = (Tuning::default(), Tuning { probe_empty_depths: true, ..Tuning::default() });
    let planes = ["compact", "two_stage", "longest_first", "binary_search", "level_pulling", "learned"];
    for (engine, tuning) in planes.map(|engine| (engine, &defaults)).into_iter().chain([("two_stage", &papers)]) {
        let [ordinary, garbage] = lookups_and_lines(&format!("{engine}/all/64"), tuning.clone());
        assert_eq!((ordinary.0, garbage.0), (TURN / 2, TURN), "{engine}: one lookup for each Interest");
        assert!(garbage.1 * 4 <= ordinary.1 * 2 * 5, "{engine}: {ordinary:?} and {garbage:?} lookups and lines");
    }
    let [_, (lookups, lines)] = lookups_and_lines("longest_first/all/64", papers);
    assert!(lines > 20 * lookups, "{lookups} lookups read {lines} lines");
}

#[test]
fn a_record_says_how_each_attack_went() {
    let attacks: Vec<_> = without_the_key().collect();
    let records = measure(&tiny(&attacks), Progress::HIDDEN).expect("small tables");
    assert_eq!(records.iter().map(|r| r.attack).collect::<Vec<_>>(), attacks);
    for record in records {
        assert!(record.answered > 0 && record.lost == 0 && record.attacker_share == 0.0625, "{record:?}");
        assert!(record.times > 0.0 && record.rate_left > 0.0, "{record:?}");
    }
}

#[test]
fn names_are_forged_in_vain_without_the_key() {
    let options = tiny(&[Attack::Forged, Attack::ForgedWithKey]);
    let records = measure(&options, Progress::HIDDEN).expect("small tables");
    let [without, with] = records.as_slice() else { panic!("two records") };
    assert!(without.attacked_longest_chain <= without.longest_chain + 2, "{without:?}");
    assert!(with.attacked_longest_chain > 10 * with.longest_chain, "{with:?}");
}

#[test]
fn an_attacker_is_one_of_several() {
    assert!(measure(&Options { of_burst: 64, ..tiny(&[Attack::Garbage]) }, Progress::HIDDEN).is_err());
    assert!(measure(&Options { pit: 0, ..tiny(&[Attack::Garbage]) }, Progress::HIDDEN).is_err());
    assert_eq!(defaults::<Options>().attacks, Attack::ALL);
}

#[test]
fn two_threads_answer_others_beside_each_attack() {
    // Finding forged names takes seconds for each attacker.
    let attacks: Vec<_> = without_the_key().filter(|attack| *attack != Attack::Forged).collect();
    let records = measure(&Options { threads: 2, ..tiny(&attacks) }, Progress::HIDDEN).expect("two cores");
    assert_eq!(records.len(), attacks.len());
    for record in records {
        assert!(record.threads == 2 && record.answered > 0, "{record:?}");
        // A thread that the system stops for long leaves a ring full.
        assert!(record.lost <= record.shed, "{record:?}");
        assert!(record.times > 0.0 && record.rate_left > 0.0 && record.attack_packets > 0, "{record:?}");
    }
}
