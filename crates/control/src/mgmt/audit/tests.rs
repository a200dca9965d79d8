use std::os::unix::net::UnixDatagram;
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::mgmt::tlv::{ControlParameters, Element};

fn entry(prefix: &str) -> Box<Entry> {
    let parameters = ControlParameters { name: Some(prefix.parse().unwrap()), cost: Some(7), ..Default::default() };
    Box::new(Entry {
        unix_ms: 1_795_183_500_123,
        command: Command::RibRegister,
        face: FaceId(300),
        remote: Some("fd://9".into()),
        key: None,
        claimed_key: Some("/someone/KEY/1".parse().unwrap()),
        parameters: parameters.encode().into(),
    })
}

fn refused() -> Outcome {
    Outcome { code: 403, text: Some("no\nright".to_owned()) }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn file(path: &Path, bytes_max: u64, old_files: usize) -> AuditDestination {
    AuditDestination::File { path: path.to_owned(), bytes_max, old_files }
}

#[test]
fn a_line_says_who_did_what_and_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    let mut audit = Audit::start(file(&path, 1 << 20, 1), 8).unwrap();
    audit.note(entry("/a\u{0}b"), refused());
    drop(audit);
    let expected = serde_json::json!({
        "time": "2026-11-20T14:05:00.123Z",
        "command": "rib/register",
        "face": 300,
        "remote": "fd://9",
        "key": null,
        "claimed_key": "/someone/KEY/1",
        "code": 403,
        "text": "no\nright",
        "parameters": { "name": "/a%00b", "cost": 7 },
    });
    assert_eq!(lines(&path), [expected]);
}

#[test]
fn files_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    for _ in 0..2 {
        let mut audit = Audit::start(file(&path, 2000, 2), 1000).unwrap();
        (0..60).for_each(|i| audit.note(entry(&format!("/{i}")), refused()));
        assert_eq!(audit.lost(), 0);
    }
    let mut found: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
    found.sort_by_key(std::fs::DirEntry::file_name);
    let names: Vec<_> = found.iter().map(|file| file.file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["audit", "audit.1", "audit.2"]);
    assert!(found.iter().all(|file| file.metadata().unwrap().len() <= 2000));
    assert_eq!(lines(&path).last().unwrap()["parameters"]["name"], "/59");
    let (newer, older) = (lines(&folder.path().join("audit.1")), lines(&folder.path().join("audit.2")));
    assert!(!newer.is_empty() && !older.is_empty(), "they are in order: {newer:?} {older:?}");
}

/// A writer that makes no progress: nobody reads the journal.
#[test]
fn a_full_queue_loses_lines_and_says_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("journal");
    let journal = UnixDatagram::bind(&socket).unwrap();
    let output = Output::open_journal(&socket).unwrap();
    let (queue, receiver) = bounded(4);
    let lost = Arc::<AtomicU64>::default();
    let writer = Writer::new(output, receiver, Arc::clone(&lost));
    let mut audit = Audit::through(queue, lost);
    (0..10).for_each(|i| audit.note(entry(&format!("/{i}")), refused()));
    assert_eq!(audit.lost(), 6);
    let writing = std::thread::spawn(move || writer.run());
    let next = || {
        let mut entry = vec![0; 4096];
        let len = journal.recv(&mut entry).unwrap();
        let entry = String::from_utf8(entry[..len].to_vec()).unwrap();
        assert!(entry.ends_with("\nPRIORITY=6\nSYSLOG_IDENTIFIER=byname-audit\n"), "{entry}");
        let message = entry.lines().next().unwrap().strip_prefix("MESSAGE=").unwrap().to_owned();
        serde_json::from_str::<Value>(&message).unwrap()
    };
    for i in 0..4 {
        assert_eq!(next()["parameters"]["name"], format!("/{i}"));
    }
    audit.note(entry("/after"), Outcome { code: 200, text: None });
    assert_eq!(next()["lost"], 6);
    let after = next();
    assert_eq!((after["code"].as_u64(), after.get("text")), (Some(200), None));
    drop(audit);
    writing.join().unwrap();
}

#[test]
fn an_output_that_fails_is_counted_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    let mut audit = Audit::start(file(&path, 1, 1), 100).unwrap();
    // Each line needs a new file, and the old one cannot be renamed.
    std::fs::create_dir_all(folder.path().join("audit.1/full")).unwrap();
    (0..3).for_each(|i| audit.note(entry(&format!("/{i}")), refused()));
    let lost = Arc::clone(&audit.lost);
    drop(audit);
    assert_eq!(lost.load(Ordering::Relaxed), 2, "the first had room");
    std::fs::remove_dir_all(folder.path().join("audit.1")).unwrap();
    let mut audit = Audit::start(file(&path, 1, 1), 100).unwrap();
    audit.note(entry("/again"), refused());
    drop(audit);
    assert_eq!(lines(&path)[0]["parameters"]["name"], "/again");
}

#[test]
fn a_destination_that_cannot_be_opened_is_an_error() {
    let Err(error) = Audit::start(file(Path::new("/nonexistent/audit"), 1, 1), 1) else { panic!("it opened") };
    assert!(error.to_string().starts_with("cannot open the audit log /nonexistent/audit: "), "{error}");
}
