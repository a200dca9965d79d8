//! Replays of recorded commands before and after restarts, with clocks that advance, stand still or are set back.

use super::*;

/// An authorizer with rights for one shared secret, and a signer with that secret.
fn home() -> (Authorizer, Signer) {
    let key_name = name("/home/KEY/1");
    let signer = TrustedSigner::Hmac { key_name: key_name.clone(), key: VerifyingKey::from_hmac_secret(b"secret") };
    let rule = Rule { remote: true, signer, modules: vec![Module::Rib], prefixes: None };
    (Authorizer::new(vec![rule], TimeWindow::default()), Signer::hmac(key_name, b"secret"))
}

/// An authorizer of a router that starts with this state folder.
fn started(folder: &std::path::Path, at_ms: u64) -> Authorizer {
    let (mut authorizer, _) = home();
    authorizer.keep_marks(marks::Marks::in_folder(folder, at_ms).expect("a folder"));
    authorizer
}

#[test]
fn nothing_that_a_key_signed_is_accepted_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, signer) = home();
    let sign = |at_ms| signer.sign_command(&command(), at_ms).expect("signed");
    let second = 1_000;
    let start = NOW_MS - 10 * second;
    let mut authorizer = started(folder.path(), start);
    let old = sign(start - 1);
    assert_eq!(authorize_at(&mut authorizer, &old, Scope::NonLocal, start), Err(Refusal::BeforeStart), "no file yet");
    // Commands that a stranger has recorded: accepted ones, some ahead of the clock, and ones refused for their times.
    let accepted = [0, 3 * second, 1_800 * second].map(|ahead| sign(NOW_MS + ahead));
    let (stale, early) = (sign(NOW_MS - 121 * second), sign(NOW_MS + 3_601 * second));
    for wire in &accepted {
        assert!(authorize(&mut authorizer, wire, Scope::NonLocal).is_ok());
    }
    assert_eq!(authorize(&mut authorizer, &stale, Scope::NonLocal), Err(Refusal::TooOld));
    assert_eq!(authorize(&mut authorizer, &early, Scope::NonLocal), Err(Refusal::TooFarAhead));
    let all = || accepted.iter().chain([&old, &stale, &early]);
    // Clocks that advance, stand still or were set back.
    let moments = [2, 0, -122, 30 * 60, 59 * 60, -3600].map(|s: i64| NOW_MS.saturating_add_signed(s * 1_000));
    for at_ms in moments {
        for wire in all() {
            assert!(authorize_at(&mut authorizer, wire, Scope::NonLocal, at_ms).is_err(), "in this run, at {at_ms}");
        }
    }
    for at_ms in moments {
        drop(authorizer);
        authorizer = started(folder.path(), at_ms);
        for wire in all() {
            assert!(authorize_at(&mut authorizer, wire, Scope::NonLocal, at_ms).is_err(), "after a start at {at_ms}");
        }
    }
    // Half an hour later than any recorded command that was accepted.
    let later = NOW_MS + 1_900 * second;
    assert!(authorize_at(&mut authorizer, &sign(later), Scope::NonLocal, later).is_ok(), "a new one");
}

#[test]
fn without_a_folder_less_is_accepted_and_nothing_twice() {
    let (_, signer) = home();
    let started = |at_ms| {
        let (mut authorizer, _) = home();
        authorizer.keep_marks(marks::Marks::without_folder(at_ms));
        authorizer
    };
    let mut authorizer = started(NOW_MS - 10_000);
    let sign = |at_ms| signer.sign_command(&command(), at_ms).expect("signed");
    let accepted = [0, 1_000, 2_000].map(|ahead| sign(NOW_MS + ahead));
    for wire in &accepted {
        assert!(authorize(&mut authorizer, wire, Scope::NonLocal).is_ok());
    }
    assert_eq!(authorize(&mut authorizer, &sign(NOW_MS + 2_001), Scope::NonLocal), Err(Refusal::TooFarAhead));
    let mut authorizer = started(NOW_MS);
    for wire in &accepted {
        assert_eq!(authorize(&mut authorizer, wire, Scope::NonLocal), Err(Refusal::BeforeStart));
    }
    assert!(authorize_at(&mut authorizer, &sign(NOW_MS + 2_001), Scope::NonLocal, NOW_MS + 2_001).is_ok());
}
