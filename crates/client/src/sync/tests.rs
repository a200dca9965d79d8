//! Members of a group, in virtual time.

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
