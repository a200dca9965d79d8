use byname_wire::{HashFunction, NameHashKey};

use super::*;

/// A folder that is removed with its files.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("byname-file-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the system's folder for such files");
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("x.table")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const PLACES: [Place; 2] = [Place::Mapped, Place::Copied(Pages::Small)];

fn sample(path: &Path) {
    let key = NameHashKey::with_function(HashFunction::Aes, [3, 5]);
    let lines = Lines::zeroed(70, Pages::Small).expect("little memory");
    lines.iter().zip(1..).for_each(|(line, i)| line.0[3].store(i, Ordering::Relaxed));
    let mut writer = TableWriter::create(path, Kind::Compact, &key).expect("a new file");
    writer.bytes(1, b"some").expect("little");
    writer.lines(2, [&lines[..]]).expect("little");
    writer.finish().expect("a name");
}

#[test]
fn a_file_gives_back_what_was_written() {
    let folder = Folder::new("same");
    sample(&folder.file());
    for place in PLACES {
        let path = folder.file();
        let file = TableFile::open(&path, Kind::Compact, Opening { place, checked: true }).expect("ours");
        assert!(file.key() == NameHashKey::with_function(HashFunction::Aes, [3, 5]));
        assert_eq!(file.bytes(1).expect("there"), b"some");
        let lines = file.lines(2).expect("there");
        assert_eq!(lines.len(), 70);
        let words = lines.iter().flat_map(|line| line.0.iter().map(|word| word.load(Ordering::Relaxed)));
        assert!(words.eq((1..=70).flat_map(|i| [0, 0, 0, i, 0, 0, 0, 0])));
        // The mapping is this process's own: the file stays as it is.
        lines[0].0[0].store(77, Ordering::Relaxed);
        assert!(matches!(file.bytes(3), Err(FileError::Malformed { .. })));
    }
    assert_eq!(std::fs::read_dir(&folder.0).expect("there").count(), 1, "nothing is left behind");
    let path = folder.file();
    let open = TableFile::open(&path, Kind::Line, Opening::default());
    assert!(matches!(open, Err(FileError::Kind { found: 1, wanted: Kind::Line })));
}

#[test]
#[cfg(unix)]
fn files_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("mode");
    sample(&folder.file());
    assert_eq!(std::fs::metadata(folder.file()).expect("there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_is_not_finished_never_has_its_name() {
    let folder = Folder::new("unfinished");
    let key = NameHashKey::new([1, 2]);
    let first = TableWriter::create(&folder.file(), Kind::Compact, &key).expect("a new file");
    let mut second = TableWriter::create(&folder.file(), Kind::Compact, &key).expect("another one");
    second.bytes(1, b"second").expect("little");
    second.finish().expect("a name");
    drop(first);
    let path = folder.file();
    let file = TableFile::open(&path, Kind::Compact, Opening::default()).expect("the second");
    assert_eq!(file.bytes(1).expect("there"), b"second");
    std::fs::remove_file(folder.file()).expect("there");
    assert_eq!(std::fs::read_dir(&folder.0).expect("there").count(), 0);
    let nowhere = folder.0.join("none/x.table");
    assert!(matches!(TableWriter::create(&nowhere, Kind::Compact, &key), Err(FileError::Io { .. })));
    assert!(matches!(TableFile::open(&nowhere, Kind::Compact, Opening::default()), Err(FileError::Io { .. })));
    assert!(matches!(TableFile::open(&folder.0, Kind::Compact, Opening::default()), Err(FileError::Foreign)));
}

/// Everything that a table reads from its file.
fn read_all(path: &Path, opening: Opening) -> Result<(), FileError> {
    let file = TableFile::open(path, Kind::Compact, opening)?;
    file.bytes(1)?;
    file.lines(2).map(drop)
}

#[test]
fn files_cut_at_any_length_are_refused() {
    let folder = Folder::new("cut");
    sample(&folder.file());
    let whole = std::fs::read(folder.file()).expect("ours");
    for len in (0..whole.len()).step_by(61).chain([whole.len() - 1]) {
        std::fs::write(folder.file(), &whole[..len]).expect("a shorter one");
        let refused = read_all(&folder.file(), Opening::default());
        let expected = match refused {
            Err(FileError::Foreign) => len < 8,
            Err(FileError::Length { bytes, .. }) => len >= 8 && bytes == len as u64,
            _ => false,
        };
        assert!(expected, "{len}: {refused:?}");
    }
    std::fs::write(folder.file(), [&*whole, b"x"].concat()).expect("a longer one");
    assert!(matches!(read_all(&folder.file(), Opening::default()), Err(FileError::Length { .. })));
}

#[test]
fn altered_bytes_are_found_by_the_checksums() {
    let folder = Folder::new("altered");
    sample(&folder.file());
    let whole = std::fs::read(folder.file()).expect("ours");
    // The padding behind a section belongs to nothing.
    let covered = |at: usize| at < PAGE + 4 || (2 * PAGE..2 * PAGE + 70 * 64).contains(&at);
    for at in (0..whole.len()).step_by(97).chain([0, 8, 9, PAGE - 1, PAGE, PAGE + 3, 2 * PAGE]) {
        let mut altered = whole.clone();
        altered[at] ^= 0x40;
        std::fs::write(folder.file(), altered).expect("ours");
        for place in PLACES {
            let read = read_all(&folder.file(), Opening { place, checked: true });
            assert_eq!(read.is_err(), covered(at), "byte {at}: {read:?}");
        }
    }
}

#[test]
fn forged_headers_lead_nowhere_else() {
    let folder = Folder::new("forged");
    sample(&folder.file());
    let whole = std::fs::read(folder.file()).expect("ours");
    // The offset and the length of the second section, and the number of sections.
    for (at, forged) in [
        (80, u64::MAX),
        (80, 4096 * 1000),
        (80, 64),
        (80, 0),
        (88, u64::MAX),
        (88, 1 << 40),
        (88, 65),
        (40, 9),
        (40, u64::MAX),
    ] {
        let mut page = whole.clone();
        page[at..at + 8].copy_from_slice(&forged.to_le_bytes());
        let crc = crc32c::crc32c(&page[..PAGE - 4]);
        page[PAGE - 4..PAGE].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(folder.file(), page).expect("ours");
        let read = read_all(&folder.file(), Opening { place: Place::Mapped, checked: false });
        assert!(matches!(read, Err(FileError::Malformed { .. })), "{at} {forged:x}: {read:?}");
    }
}

#[test]
fn a_file_without_its_secret_is_no_table_and_with_it_the_same() {
    use super::secret::Secret;
    let folder = Folder::new("secret");
    let path = folder.file();
    let key = NameHashKey::with_function(HashFunction::SipHash24, [0x1122_3344_5566_7788, 9]);
    let mut file = TableWriter::create(&path, Kind::Compact, &key).expect("created");
    file.bytes(1, b"a section").expect("written");
    file.finish().expect("written");
    let whole = std::fs::read(&path).expect("read");
    let mut blank = whole.clone();
    let secret = Secret::take(&mut blank).expect("a table");
    assert!(secret.key().expect("a function") == key && Secret::new(*secret.bytes()) == secret);
    // Nothing of the key is left, and nothing that depends on it: another key leaves the same bytes.
    let other = NameHashKey::with_function(HashFunction::SipHash24, [5, 6]);
    let mut file = TableWriter::create(&path, Kind::Compact, &other).expect("created");
    file.bytes(1, b"a section").expect("written");
    file.finish().expect("written");
    let mut others = std::fs::read(&path).expect("read");
    assert!(others != whole);
    Secret::take(&mut others).expect("a table");
    assert_eq!(others, blank);
    std::fs::write(&path, &blank).expect("written");
    assert!(TableFile::open(&path, Kind::Compact, Opening::default()).is_err());
    secret.put(&mut blank).expect("a table");
    assert_eq!(blank, whole);
    for mut foreign in [vec![], whole[..PAGE - 1].to_vec(), vec![0; PAGE]] {
        assert!(matches!(Secret::take(&mut foreign), Err(FileError::Foreign)));
        assert!(matches!(secret.put(&mut foreign), Err(FileError::Foreign)));
    }
    assert_eq!(format!("{secret:?}"), "Secret");
}
