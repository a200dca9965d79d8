use super::*;
use crate::options::defaults;
use crate::progress::Progress;

fn tiny(attacks: &[Attack]) -> Options {
    let options = defaults::<Options>();
    let attacks = attacks.to_vec();
    Options { attacks, fib: 2000, pit: 3000, cs: 500, draws: 1000, seconds: 0.05, ..options }
}

#[test]
fn others_are_answered_beside_each_attack() {
    let attacks: Vec<_> = Attack::ALL.into_iter().filter(|attack| *attack != Attack::ForgedWithKey).collect();
    let records = measure(&tiny(&attacks), Progress::HIDDEN).expect("small tables");
    assert_eq!(records.iter().map(|r| r.attack).collect::<Vec<_>>(), attacks);
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
