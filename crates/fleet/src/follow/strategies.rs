//! Which strategies the agent has set, and what was there before: in a file, because strategies have no origin.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use byname_wire::Name;
use serde::{Deserialize, Serialize};

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// One strategy that the agent has set, or was about to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SetOnce {
    /// The choice that exactly this prefix had before.
    pub before: Option<String>,
    /// What the intent asks for.
    pub asked: String,
    /// How the router calls it: it adds a version.
    pub got: Option<String>,
}

/// The file, by prefix.
#[derive(Debug)]
pub(super) struct SetByFleet {
    path: PathBuf,
    set: BTreeMap<String, SetOnce>,
}

impl SetByFleet {
    /// Reads the file, if it exists.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let set = match super::read_if_there(path, FILE_BYTES_MAX)? {
            None => BTreeMap::new(),
            Some(text) => serde_json::from_str(&text)?,
        };
        let file = SetByFleet { path: path.to_owned(), set };
        // A folder in which nothing can be written should be known now.
        file.save()?;
        Ok(file)
    }

    pub(super) fn of(&self, prefix: &Name) -> Option<&SetOnce> {
        self.set.get(&prefix.to_string())
    }

    /// Notes a strategy, on the disk before this returns.
    pub(super) fn note(&mut self, prefix: &Name, set: SetOnce) -> io::Result<()> {
        self.set.insert(prefix.to_string(), set);
        self.save()
    }

    pub(super) fn forget(&mut self, prefix: &Name) -> io::Result<()> {
        self.set.remove(&prefix.to_string());
        self.save()
    }

    /// The strategies of these that the router still has, given its choices; in the intent's words where the router's mean
    /// the same. Others are forgotten.
    pub(super) fn still_set(&mut self, choices: &BTreeMap<Name, Name>) -> io::Result<Vec<(Name, Name)>> {
        let mut still = Vec::new();
        let before = self.set.len();
        self.set.retain(|prefix, set| {
            let Ok(prefix) = prefix.parse::<Name>() else { return false };
            let Some(has) = choices.get(&prefix) else { return false };
            let text = has.to_string();
            if set.before.as_ref() == Some(&text) && set.got.as_ref() != Some(&text) {
                return false;
            }
            let asked = set.asked.parse().ok().filter(|_| set.got.as_ref() == Some(&text));
            still.push((prefix, asked.unwrap_or_else(|| has.clone())));
            true
        });
        if self.set.len() != before {
            self.save()?;
        }
        Ok(still)
    }

    /// Writes a new file and puts it in the place of the old one, so that one of them is always whole.
    fn save(&self) -> io::Result<()> {
        let mut next = self.path.clone().into_os_string();
        next.push(".new");
        let mut file = File::create(&next)?;
        file.write_all(&serde_json::to_vec_pretty(&self.set)?)?;
        file.sync_all()?;
        fs::rename(&next, &self.path)
    }
}
