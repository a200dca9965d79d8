//! Which ways of sets of tags the agent has told its router: in a file, because descriptors have no origin.
//!
//! The file is a log, since there may be many: a line for each that came or went. It is not forced onto the disk. If the host loses
//! its power, the router has lost them too: it has them back from its own state for a while, and then withdraws those that
//! nobody tells it again.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byname_wire::{Descriptor, TagDigest};

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The file is written anew when it has so many lines more than twice those that count.
const LINES_SPARE: usize = 4_096;

/// A set of tags, and the address that it leads to.
type Way = (Descriptor, Arc<str>);

/// The file.
#[derive(Debug)]
pub(super) struct Told {
    path: PathBuf,
    file: File,
    lines: usize,
    told: BTreeSet<Way>,
    /// What the router had already, from somebody else. `None`: it was not asked yet.
    others: Option<BTreeSet<Way>>,
    /// Those of `others` that the intent wants, too. They are not the agent's to withdraw.
    shared: BTreeSet<Way>,
}

impl Told {
    /// Reads the file, if it exists.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let text = super::read_if_there(path, FILE_BYTES_MAX)?.unwrap_or_default();
        let mut told = BTreeSet::new();
        // What stands after the last end of a line was cut off when the agent was killed, and was not told.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (at, line) in whole.lines().enumerate() {
            let (sign, way) = parse(line).ok_or_else(|| io::Error::other(format!("its line {} is damaged", at + 1)))?;
            if sign == '+' {
                told.insert(way);
            } else {
                told.remove(&way);
            }
        }
        let (file, lines) = (write_anew(path, &told)?, told.len());
        Ok(Told { path: path.to_owned(), file, lines, told, others: None, shared: BTreeSet::new() })
    }

    /// Whether the router was asked what it has.
    pub(super) fn has_asked(&self) -> bool {
        self.others.is_some()
    }

    /// Whether there is nothing in the file.
    pub(super) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// The agent is about to tell the router this.
    pub(super) fn note(&mut self, tags: &Descriptor, uri: &Arc<str>) -> io::Result<()> {
        let way = (tags.clone(), uri.clone());
        if self.others.as_ref().is_some_and(|others| others.contains(&way)) {
            self.shared.insert(way);
            return Ok(());
        }
        if self.told.contains(&way) {
            return Ok(());
        }
        self.append('+', &way)?;
        self.told.insert(way);
        Ok(())
    }

    /// Whether the agent may withdraw this.
    pub(super) fn is_own(&self, tags: &Descriptor, uri: &Arc<str>) -> bool {
        self.told.contains(&(tags.clone(), uri.clone()))
    }

    /// The intent does not want this any more, and the router does not have it any more, unless it is somebody else's.
    pub(super) fn forget(&mut self, tags: &Descriptor, uri: &Arc<str>) -> io::Result<()> {
        let way = (tags.clone(), uri.clone());
        self.shared.remove(&way);
        if self.told.remove(&way) {
            self.append('-', &way)?;
        }
        Ok(())
    }

    /// A new connection begins: the router may be another process.
    pub(super) fn begin(&mut self) {
        self.others = None;
        self.shared.clear();
    }

    /// The router has these ways, each with whatever belongs to it. Returns those that the agent has told it, or that the
    /// intent shares with somebody. What is not there any more is forgotten.
    pub(super) fn still_there<T>(&mut self, there: Vec<(Way, T)>) -> io::Result<Vec<(Way, T)>> {
        let mut others = BTreeSet::new();
        let mut own = BTreeSet::new();
        let mut still = Vec::new();
        for (way, with) in there {
            let is_own = self.told.contains(&way);
            if is_own {
                own.insert(way.clone());
            } else {
                others.insert(way.clone());
            }
            if is_own || self.shared.contains(&way) {
                still.push((way, with));
            }
        }
        self.shared.retain(|way| others.contains(way));
        self.others = Some(others);
        if own.len() != self.told.len() {
            self.told = own;
            self.file = write_anew(&self.path, &self.told)?;
            self.lines = self.told.len();
        }
        Ok(still)
    }

    /// All that the agent has told the router, which cannot say what it has.
    pub(super) fn all_in_doubt(&mut self) -> impl Iterator<Item = &Way> {
        self.others.get_or_insert_default();
        self.told.iter()
    }

    fn append(&mut self, sign: char, way: &Way) -> io::Result<()> {
        if self.lines > 2 * self.told.len() + LINES_SPARE {
            self.file = write_anew(&self.path, &self.told)?;
            self.lines = self.told.len();
        }
        self.file.write_all(line(sign, way).as_bytes())?;
        self.lines += 1;
        Ok(())
    }
}

/// Writes a new file and puts it in the place of the old one, so that one of them is always whole.
fn write_anew(path: &Path, told: &BTreeSet<Way>) -> io::Result<File> {
    let mut next = path.to_owned().into_os_string();
    next.push(".new");
    let text: String = told.iter().map(|way| line('+', way)).collect();
    fs::write(&next, text)?;
    fs::rename(&next, path)?;
    OpenOptions::new().append(true).open(path)
}

/// `+ DIGESTS URI`, with eight hexadecimal digits for each tag.
fn line(sign: char, (tags, uri): &Way) -> String {
    let digests: String = tags.tags().iter().map(|tag| format!("{:08x}", tag.0)).collect();
    format!("{sign} {digests} {uri}\n")
}

fn parse(line: &str) -> Option<(char, Way)> {
    let mut words = line.split(' ');
    let (sign, digests, uri) = (words.next()?, words.next()?, words.next()?);
    let sign = sign.parse().ok().filter(|sign| ['+', '-'].contains(sign))?;
    if !digests.is_ascii() || !digests.len().is_multiple_of(8) || words.next().is_some() {
        return None;
    }
    let digest = |at: usize| u32::from_str_radix(&digests[at..at + 8], 16).ok().map(TagDigest);
    let digests: Option<Vec<TagDigest>> = (0..digests.len()).step_by(8).map(digest).collect();
    Some((sign, (Descriptor::from_digests(digests?).ok()?, uri.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(tag: &str, uri: &str) -> Way {
        (Descriptor::of([tag, "x"]).unwrap(), uri.into())
    }

    #[test]
    fn what_was_told_is_known_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("told");
        let mut told = Told::open(&path).unwrap();
        let (a, b) = (way("a", "udp4://192.0.2.1:1"), way("b", "udp4://192.0.2.1:1"));
        for way in [&a, &b, &a] {
            told.note(&way.0, &way.1).unwrap();
        }
        told.forget(&a.0, &a.1).unwrap();
        drop(told);
        // A line that was cut off.
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3);
        fs::write(&path, format!("{text}+ 0123")).unwrap();
        let mut told = Told::open(&path).unwrap();
        assert!(!told.has_asked());
        assert_eq!(told.all_in_doubt().cloned().collect::<Vec<_>>(), std::slice::from_ref(&b));
        assert!(told.is_own(&b.0, &b.1) && !told.is_own(&a.0, &a.1) && told.has_asked());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1, "written anew");
        for damaged in ["? 00000000 x\n", "+ 0000000g x\n", "+ 000 x\n", "+ 00000000\n", "+ 00000000 x y\n", "\n\n"] {
            fs::write(&path, damaged).unwrap();
            assert!(Told::open(&path).is_err(), "{damaged}");
        }
    }

    #[test]
    fn what_others_have_told_is_not_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        let mut told = Told::open(&folder.path().join("told")).unwrap();
        let (own, theirs, gone) = (way("a", "u://1"), way("b", "u://1"), way("c", "u://1"));
        told.note(&own.0, &own.1).unwrap();
        told.note(&gone.0, &gone.1).unwrap();
        let there = || vec![(own.clone(), 1), (theirs.clone(), 2)];
        assert_eq!(told.still_there(there()).unwrap(), [(own.clone(), 1)]);
        assert!(told.has_asked() && told.is_own(&own.0, &own.1) && !told.is_own(&gone.0, &gone.1));
        // The intent wants what somebody else has told: it is there, and stays.
        told.note(&theirs.0, &theirs.1).unwrap();
        assert_eq!(told.still_there(there()).unwrap().len(), 2);
        assert!(!told.is_own(&theirs.0, &theirs.1));
        // When the other one takes it back, the agent tells it.
        assert_eq!(told.still_there(vec![(own, 1)]).unwrap().len(), 1);
        told.note(&theirs.0, &theirs.1).unwrap();
        assert!(told.is_own(&theirs.0, &theirs.1));
    }

    #[test]
    fn the_file_does_not_grow_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("told");
        let mut told = Told::open(&path).unwrap();
        let one = way("a", "u://1");
        for _ in 0..LINES_SPARE {
            told.note(&one.0, &one.1).unwrap();
            told.forget(&one.0, &one.1).unwrap();
        }
        assert!(fs::read_to_string(&path).unwrap().lines().count() < LINES_SPARE + 10);
    }
}
