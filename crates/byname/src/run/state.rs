//! The folder for the state that must survive a restart.

use std::path::PathBuf;
use std::time::SystemTime;

use byname_control::config::Config;
use byname_control::security::Authorizer;
use byname_control::security::marks::{Marks, MarksError};

use crate::exit;

/// Folder where Linux services keep their state.
const SYSTEM_FOLDER: &str = "/var/lib/byname";

/// The environment that the choice of a folder depends on.
#[derive(Debug, Clone, Default)]
struct Surroundings {
    /// `STATE_DIRECTORY`.
    service: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    state_home: Option<PathBuf>,
    /// `HOME`.
    home: Option<PathBuf>,
}

impl Surroundings {
    fn of_process() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        // systemd separates several folders by colons.
        let service = variable("STATE_DIRECTORY").and_then(|list| std::env::split_paths(&list).next());
        Surroundings {
            service,
            state_home: variable("XDG_STATE_HOME").map(PathBuf::from),
            home: variable("HOME").map(PathBuf::from),
        }
    }

    /// Folders to try, in order.
    fn candidates(&self) -> Vec<PathBuf> {
        let of_user = self.home.as_ref().map(|home| home.join(".local/state"));
        let of_user = self.state_home.clone().or(of_user).map(|folder| folder.join("byname"));
        self.service.clone().into_iter().chain([SYSTEM_FOLDER.into()]).chain(of_user).collect()
    }
}

/// What lets the authorizer remember accepted commands across restarts; `None` if it knows no keys. `started` is a time
/// before this process listened. Commands that already wait in its sockets were signed later.
///
/// # Errors
/// The configured folder cannot be used, or a file in it is damaged.
pub fn marks(
    authorizer: &Authorizer,
    config: &Config,
    started: SystemTime,
    notes: &mut Vec<String>,
) -> anyhow::Result<Option<Marks>> {
    if !authorizer.knows_keys() {
        return Ok(None);
    }
    let since_epoch = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let unix_ms = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
    let configured = &config.general.state_folder;
    let marks = if configured.as_os_str().is_empty() {
        in_first_of(&Surroundings::of_process().candidates(), unix_ms, notes)
    } else {
        Marks::in_folder(&config.folder.join(configured), unix_ms)
    };
    let marks = marks.map_err(|error| exit::Failure::new(exit::USAGE, format!("state_folder: {error}")))?;
    Ok(Some(marks))
}

/// Opens the marks in the first usable folder. If there is none, adds a note that explains the consequences.
fn in_first_of(folders: &[PathBuf], unix_ms: u64, notes: &mut Vec<String>) -> Result<Marks, MarksError> {
    let mut problems = Vec::new();
    for folder in folders {
        match Marks::in_folder(folder, unix_ms) {
            Err(error @ (MarksError::Io { .. } | MarksError::InUse { .. })) => problems.push(error.to_string()),
            marks_or_damage => return marks_or_damage,
        }
    }
    let problem = format!(
        "no state folder ({}): commands signed by keys are refused in the first 2 seconds, and if their time is more \
         than 2 seconds ahead of this clock; set `state_folder` under [general]",
        problems.join("; ")
    );
    tracing::warn!("{problem}");
    notes.push(problem);
    Ok(Marks::without_folder(unix_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn services_have_their_folder_and_users_theirs() {
        let here = Surroundings { service: Some("/s".into()), state_home: None, home: Some("/home/me".into()) };
        let expected = ["/s", SYSTEM_FOLDER, "/home/me/.local/state/byname"].map(PathBuf::from);
        assert_eq!(here.candidates(), expected);
        let here = Surroundings { state_home: Some("/x".into()), ..here };
        assert_eq!(here.candidates()[2], Path::new("/x/byname"));
        assert_eq!(Surroundings::default().candidates(), [Path::new(SYSTEM_FOLDER)]);
    }

    #[test]
    fn a_folder_in_use_is_passed_over_and_without_any_there_is_a_note() {
        let folder = tempfile::tempdir().expect("a folder");
        let folders = [folder.path().join("a"), folder.path().join("b")];
        let mut notes = Vec::new();
        let first = in_first_of(&folders, 1, &mut notes).expect("a folder");
        let second = in_first_of(&folders, 1, &mut notes).expect("another folder");
        assert!(notes.is_empty());
        let _third = in_first_of(&folders, 1, &mut notes).expect("none");
        assert!(notes.len() == 1 && notes[0].contains("another router"), "{notes:?}");
        drop((first, second));
        std::fs::write(folders[0].join("commands"), "damage").expect("written");
        assert!(matches!(in_first_of(&folders, 1, &mut notes), Err(MarksError::Damaged { .. })));
    }
}
