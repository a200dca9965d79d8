//! Members of a group, in virtual time.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

const START: Now = Now { elapsed: Duration::ZERO, unix: Duration::from_secs(1_795_000_000) };
const MS: Duration = Duration::from_millis(1);

fn name(uri: &str) -> Name {
    uri.parse().expect("a test's own name")
}

fn member(uri: &str) -> StateVectorSync {
    StateVectorSync::new(name(uri), SyncOptions::default(), START)
}

fn vector(entries: &[(&str, u64, u64)]) -> StateVector {
    let mut vector = StateVector::default();
    entries.iter().for_each(|(node, boot, number)| vector.set(name(node), *boot, *number));
    vector
}

/// A group whose members hear each other after 5 ms. Returns the number of vectors that were sent.
fn run(members: &mut [StateVectorSync], from: Now, wait: Duration) -> usize {
    let mut sent = 0;
    for step in 0..wait.as_millis() as u32 {
        let now = from.after(MS * step);
        for at in 0..members.len() {
            if members[at].poll(now.elapsed) {
                sent += 1;
                let state = members[at].state().clone();
                let others = members.iter_mut().enumerate().filter(|(other, _)| *other != at);
                others.for_each(|(_, other)| drop(other.on_vector(&state, now)));
            }
        }
    }
    sent
}

#[test]
fn all_members_come_to_the_same_state_with_few_packets() {
    let mut members: Vec<_> = (0..20).map(|i| member(&format!("/member/{i}"))).collect();
    for member in &mut members {
        member.publish(START.elapsed);
    }
    run(&mut members, START, 2000 * MS);
    let state = members[0].state().clone();
    assert_eq!(state.entries().count(), 20);
    assert!(members.iter().all(|member| *member.state() == state));
    // Nobody has anything to tell for a while.
    let quiet = run(&mut members, START.after(2000 * MS), 10_000 * MS);
    assert_eq!(quiet, 0);
}

#[test]
fn one_of_many_tells_a_member_that_knows_less() {
    let mut members: Vec<_> = (0..20).map(|i| member(&format!("/member/{i}"))).collect();
    members[0].publish(START.elapsed);
    run(&mut members, START, 2000 * MS);
    let newcomer = member("/newcomer");
    let later = START.after(2000 * MS);
    members.iter_mut().for_each(|member| drop(member.on_vector(newcomer.state(), later)));
    let sent = run(&mut members, later, 300 * MS);
    assert!((1..=5).contains(&sent), "{sent} of 20 tell it");
}

/// A group of which a part of the packets is lost, and of which the links between its parts may be cut.
struct Lossy {
    members: Vec<StateVectorSync>,
    /// What each member has been told of: nodes and numbers.
    told: Vec<Vec<(Name, u64)>>,
    loss: f64,
    random: SmallRng,
    now: Now,
    sent: usize,
}

impl Lossy {
    fn new(members: usize, loss: f64, seed: u64) -> Self {
        let members: Vec<_> = (0..members).map(|i| member(&format!("/member/{i}"))).collect();
        let told = vec![Vec::new(); members.len()];
        Lossy { members, told, loss, random: SmallRng::seed_from_u64(seed), now: START, sent: 0 }
    }

    /// Lets time pass. `joins` says which members hear which.
    fn run(&mut self, wait: Duration, joins: impl Fn(usize, usize) -> bool) {
        for _ in 0..wait.as_millis() {
            self.now = self.now.after(MS);
            for at in 0..self.members.len() {
                if !self.members[at].poll(self.now.elapsed) {
                    continue;
                }
                self.sent += 1;
                let state = self.members[at].state().clone();
                for other in (0..self.members.len()).filter(|other| *other != at) {
                    if joins(at, other) && !self.random.random_bool(self.loss) {
                        let updates = self.members[other].on_vector(&state, self.now);
                        let numbers = |update: Update| {
                            (update.first..=update.last).map(move |number| (update.node.clone(), number))
                        };
                        self.told[other].extend(updates.into_iter().flat_map(numbers));
                    }
                }
            }
        }
    }

    /// Asserts that each member was told of each publication of the others exactly once, in order.
    fn all_were_told(&mut self, publications: u64) {
        for at in 0..self.members.len() {
            self.told[at].sort();
            let others = (0..self.members.len()).filter(|other| *other != at);
            let mut expected: Vec<(Name, u64)> = others
                .flat_map(|other| (1..=publications).map(move |number| (name(&format!("/member/{other}")), number)))
                .collect();
            expected.sort();
            assert!(self.told[at] == expected, "member {at} was told {:?}", self.told[at]);
        }
    }
}

#[test]
fn all_hear_all_once_although_most_packets_are_lost() {
    for seed in 0..10 {
        let mut group = Lossy::new(6, 0.6, seed);
        for _ in 0..5 {
            for at in 0..6 {
                let now = group.now.elapsed;
                group.members[at].publish(now);
                group.run(50 * MS, |_, _| true);
            }
        }
        // Some periods, each of which tells five others, of whom two hear it.
        group.run(600_000 * MS, |_, _| true);
        group.all_were_told(5);
    }
}

#[test]
fn two_halves_of_a_group_agree_again_after_a_partition() {
    for seed in 0..5 {
        let mut group = Lossy::new(8, 0.1, seed);
        let halves = |a: usize, b: usize| a % 2 == b % 2;
        for _ in 0..3 {
            for at in 0..8 {
                let now = group.now.elapsed;
                group.members[at].publish(now);
            }
            group.run(20_000 * MS, halves);
        }
        for at in 0..8 {
            assert!(group.told[at].iter().all(|(node, _)| halves(at, node.to_string()[8..].parse().unwrap())));
        }
        let (sent, before) = (group.sent, group.now);
        group.run(300_000 * MS, |_, _| true);
        group.all_were_told(3);
        // The end of the partition makes no storm: at most a few packets a member and a period of 30 s.
        let periods = (group.now.elapsed - before.elapsed).as_secs() as usize / 30 + 1;
        assert!(group.sent - sent <= 8 * periods * 2, "{} packets", group.sent - sent);
        let state = group.members[0].state().clone();
        assert!(group.members.iter().all(|member| *member.state() == state));
    }
}

#[test]
fn an_update_names_what_is_new() {
    let mut alice = member("/alice");
    let updates = alice.on_vector(&vector(&[("/bob", 5, 3), ("/carol", 6, 1)]), START);
    let update = |node: &str, boot, first, last| Update { node: name(node), boot, first, last };
    assert_eq!(updates, [update("/bob", 5, 1, 3), update("/carol", 6, 1, 1)]);
    // Less changes nothing. A later boot time has numbers of its own.
    let updates = alice.on_vector(&vector(&[("/bob", 5, 2), ("/bob", 9, 1), ("/carol", 6, 4)]), START);
    assert_eq!(updates, [update("/bob", 9, 1, 1), update("/carol", 6, 2, 4)]);
}

#[test]
fn hostile_vectors_are_bounded() {
    let mut alice = member("/alice");
    alice.publish(START.elapsed);
    for i in 0..100_000 {
        alice.on_vector(&vector(&[(&format!("/stranger/{i}"), 1, u64::MAX)]), START);
    }
    let size = alice.state().encode().len();
    assert!(size <= VECTOR_BYTES_MAX && alice.refused() > 99_000, "{size}");
    // Others do not count this member's publications, and its numbers do not run out.
    let own = vector(&[("/alice", alice.boot(), u64::MAX)]);
    assert_eq!(alice.on_vector(&own, START), []);
    assert_eq!(alice.publish(START.elapsed), 2);
    // A clock that is wrong by years.
    let mut bob = member("/bob");
    assert_eq!(bob.on_vector(&vector(&[("/x", START.unix.as_secs() + 100_000, 1)]), START), []);
    assert_eq!(bob.state().entries().count(), 0);
}

#[test]
fn vectors_are_encoded_as_ndnd_does() {
    // A StateVector with /a at boot time 1 and number 2.
    let wire = [0xc9, 15, 0xca, 13, 7, 3, 8, 1, b'a', 0xd2, 6, 0xd4, 1, 1, 0xd6, 1, 2];
    assert_eq!(vector(&[("/a", 1, 2)]).encode(), wire);
    assert_eq!(StateVector::decode(&wire), Ok(vector(&[("/a", 1, 2)])));
    for len in 0..wire.len() {
        assert!(StateVector::decode(&wire[..len]).is_err(), "{len}");
    }
    for at in 0..wire.len() {
        let mut altered = wire;
        altered[at] ^= 0xff;
        let _ = StateVector::decode(&altered);
    }
    // Numbers of 0 are no publications.
    assert_eq!(StateVector::decode(&[0xc9, 0]), Ok(StateVector::default()));
}
