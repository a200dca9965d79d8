use super::*;
use crate::state::records::RouteRecord;
use proptest::prelude::*;

fn change(n: u64) -> Change {
    Change::Route(RouteRecord { name: "/a".parse().expect("a literal name"), face: n, ..RouteRecord::default() })
}

#[test]
fn a_log_begins_again_and_again_and_has_the_groups_of_its_generation_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let (mut log, changes) = Log::open(&path, 7).expect("a new log");
    assert!(changes.is_empty());
    for n in 0..100 {
        log.append(&[change(n)]).expect("written");
    }
    let next = log.next(30).expect("read");
    assert_eq!((next.changes, next.is_last), ((0..30).map(change).collect(), false));
    let (again, changes) = Log::open(&path, 7).expect("the log");
    assert_eq!(changes, (0..100).map(change).collect::<Vec<_>>());
    assert_eq!(again.bytes(), log.bytes());
    log.begin(8).expect("written");
    assert_eq!(log.bytes(), 0);
    log.append(&[change(500), change(501)]).expect("written");
    assert_eq!(Log::open(&path, 8).expect("the log").1, [change(500), change(501)]);
    assert!(Log::open(&path, 9).expect("another database").1.is_empty());
}

#[test]
fn many_changes_at_once_are_several_groups_and_the_file_is_short_again_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let (mut log, _) = Log::open(&path, 7).expect("a new log");
    let many: Vec<Change> = (0..200_000).map(change).collect();
    log.append(&many).expect("written");
    assert_eq!(log.next(1).expect("read").changes.len(), GROUP_CHANGES_MAX);
    assert!(Log::open(&path, 7).expect("the log").1 == many);
    assert!(fs::metadata(&path).expect("a file").len() > KEPT_BYTES);
    log.begin(8).expect("written");
    assert_eq!(fs::metadata(&path).expect("a file").len(), KEPT_BYTES);

    // Of groups that are written together, a later one may reach the disk first. That is no damage.
    log.append(&many[..2 * GROUP_CHANGES_MAX]).expect("written");
    log.file.write_all_at(&[0; 8], HEADER_BYTES as u64 + 100).expect("written");
    assert!(Log::open(&path, 8).expect("a log without a whole group").1.is_empty());
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_a_log(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..300) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        fs::write(&path, &bytes).expect("written");
        let random = Log::open(&path, 7);
        prop_assert!(bytes.len() < HEADER_BYTES || random.is_err(), "{random:?}");
        fs::remove_file(&path).expect("removed");
        let (mut log, _) = Log::open(&path, 7).expect("a new log");
        log.append(&[change(1)]).expect("written");
        log.append(&[change(2)]).expect("written");
        let mut good = fs::read(&path).expect("a file");
        let at = at.min(good.len());
        let end = (at + bytes.len()).min(good.len());
        good[at..end].copy_from_slice(&bytes[..end - at]);
        fs::write(&path, &good).expect("written");
        if let Ok((_, changes)) = Log::open(&path, 7) {
            prop_assert!([change(1), change(2)].starts_with(&changes), "{changes:?}");
        }
    }
}
