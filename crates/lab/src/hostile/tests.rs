use super::*;
use crate::forward::Options;
use crate::options::defaults;
use crate::progress::Progress;

fn tiny() -> Options {
    let mut options = defaults::<Options>();
    (options.fib, options.pit, options.cs, options.draws) = (2000, 3000, 500, 1000);
    options.measuring.seconds = 0.05;
    options
}

const ALL: [Attack; 6] =
    [Attack::Unanswerable, Attack::Unroutable, Attack::Garbage, Attack::Forged, Attack::Unsolicited, Attack::Fragments];

#[test]
fn others_are_answered_beside_each_attack() {
    let records = measure(&tiny(), &ALL, 4, Progress::HIDDEN).expect("small tables");
    assert_eq!(records.iter().map(|r| r.attack).collect::<Vec<_>>(), ALL);
    for record in records {
        assert!(record.answered > 0 && record.lost == 0 && record.attacker_share == 0.0625, "{record:?}");
        // All of it comes to nothing, but for what the PIT has room for, and what is refused.
        let in_vain = record.drops + record.pit + 4000 >= record.attack_packets;
        assert!(in_vain || matches!(record.attack, Attack::Unroutable | Attack::Forged), "{record:?}");
        assert!(record.times > 0.0 && record.rate_left > 0.0, "{record:?}");
    }
}

#[test]
fn names_are_forged_in_vain_without_the_key() {
    let records =
        measure(&tiny(), &[Attack::Forged, Attack::ForgedWithKey], 4, Progress::HIDDEN).expect("small tables");
    let [without, with] = records.as_slice() else { panic!("two records") };
    assert!(without.attacked_longest_chain <= without.longest_chain + 2, "{without:?}");
    assert!(with.attacked_longest_chain > 10 * with.longest_chain, "{with:?}");
}

#[test]
fn an_attacker_is_one_of_several() {
    assert!(measure(&tiny(), &ALL, 64, Progress::HIDDEN).is_err());
}
