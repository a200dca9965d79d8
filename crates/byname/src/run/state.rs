//! State that must survive a restart: its folder, the times of accepted commands, and the store of faces and routes.

use std::path::PathBuf;
use std::time::SystemTime;

use byname_control::config::{Config, Source};
use byname_control::mgmt::Management;
use byname_control::mgmt::tlv::StrategyName;
use byname_control::rib::Route;
use byname_control::security::Authorizer;
use byname_control::security::marks::{Marks, MarksError};
use byname_control::service::ControlHandle;
use byname_control::state::records::{Snapshot, StrategyRecord};
use byname_control::state::{Opened, Store, StoreError};
use byname_face::ForwarderHandle;
use byname_wire::Name;

use crate::exit;

/// Folder where Linux services keep their state.
const SYSTEM_FOLDER: &str = "/var/lib/byname";
/// Name of the store in such a folder.
const STORE: &str = "state.db";

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

/// Opens the files of the state after another process has closed them.
pub fn opener(config: Config) -> impl FnOnce(&mut Management) + Send + 'static {
    move |management| {
        let (authorizer, mut notes) = (management.authorizer_mut(), Vec::new());
        match marks(authorizer, &config, SystemTime::now(), &mut notes) {
            Ok(marks) => marks.into_iter().for_each(|marks| authorizer.keep_marks(marks)),
            // Without marks, the time window of commands is narrow.
            Err(error) => tracing::error!("{}", exit::message_of(&error)),
        }
    }
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

/// The state of the process before this one.
#[derive(Debug, Default)]
pub struct Earlier {
    store: Option<Store>,
    /// Its records.
    pub records: Snapshot,
    /// Why nothing is kept.
    why_not: String,
}

impl Earlier {
    /// Opens the store. If it cannot be used, the router runs without, and a note says why.
    pub fn open(config: &Config, is_ephemeral: bool, notes: &mut Vec<String>) -> Earlier {
        if is_ephemeral || !config.state.enabled {
            let setting = if is_ephemeral { "--ephemeral" } else { "[state] enabled = false" };
            return Earlier { why_not: format!("not kept: {setting}"), ..Earlier::default() };
        }
        let paths = store_paths(config, &Surroundings::of_process());
        match open_first(&paths) {
            Ok(Opened { store, records, set_aside }) => {
                if let Some((aside, why)) = set_aside {
                    let path = store.path().display();
                    let note =
                        format!("{path} was damaged ({why}): it is now {}, and a new one begins", aside.display());
                    tracing::error!("{note}");
                    notes.push(note);
                }
                Earlier { store: Some(store), records, why_not: String::new() }
            }
            Err(error) => {
                let note = format!("faces and routes are forgotten at the next restart: {error}");
                tracing::error!("{note}");
                notes.push(note);
                let is_unwritable = matches!(error, StoreError::Io { .. });
                let read = is_unwritable.then(|| paths.iter().find_map(|path| Store::read_only(path))).flatten();
                Earlier { store: None, records: read.unwrap_or_default(), why_not: format!("not kept: {error}") }
            }
        }
    }

    /// The file; `None` if nothing is kept.
    pub fn path(&self) -> Option<PathBuf> {
        self.store.as_ref().map(|store| store.path().to_owned())
    }

    /// Strategy choices: those that the file sets rule over those of commands, which rule over defaults.
    pub fn strategies(&self, config: &Config, source: &Source) -> Vec<(Name, Name)> {
        let choice =
            |StrategyRecord { prefix, strategy: StrategyName(name) }: &StrategyRecord| (prefix.clone(), name.clone());
        let kept = self.records.strategies.iter().map(choice);
        let configured = config.tables.strategies.clone().into_iter();
        // The last choice of a prefix counts.
        if source.has("tables.strategies") {
            kept.chain(configured).collect()
        } else {
            configured.chain(kept).collect()
        }
    }

    /// Sets what commands have set of the content store, except what the file sets.
    pub fn set_content_store(&self, source: &Source, handle: &ForwarderHandle) {
        let Some(kept) = self.records.content_store.first() else { return };
        let unless = |key: &str, value: Option<u64>| value.filter(|_| !source.has(key));
        let packets = unless("tables.cs_packets", kept.capacity_packets);
        let flag = |key, value| unless(key, value).map(|value| value != 0);
        let packets = packets.map(|packets| usize::try_from(packets).unwrap_or(usize::MAX));
        handle.cs_config(packets, flag("tables.cs_admit", kept.admit), flag("tables.cs_serve", kept.serve));
    }

    /// Brings faces and routes back, and keeps the changes from now on. If this process took over from another one, it has
    /// them already, and the store gets all of them once more, without the routes of the configuration (`passed`).
    pub fn take_over(
        self,
        config: &Config,
        control: &ControlHandle,
        passed: Option<Vec<(Name, Route)>>,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        if self.store.is_none() {
            control.say_state(self.why_not)?;
        }
        let restored = control.take_over_state(self.store, self.records, config.state.stale_for)?;
        if let Some(configured) = passed {
            control.keep_all_routes(configured)?;
        } else if restored != Default::default() {
            let mut note = format!("{} faces and {} routes from the last run", restored.faces, restored.routes);
            if restored.faces_waiting > 0 {
                note += &format!("; {} faces are connecting", restored.faces_waiting);
            }
            if restored.descriptors > 0 {
                note += &format!("; {} descriptors", restored.descriptors);
            }
            if restored.dropped > 0 {
                note += &format!("; {} did not come back", restored.dropped);
            }
            tracing::info!("state: {note}");
            notes.push(note);
        }
        Ok(())
    }
}

/// Files to try for the store, in order.
fn store_paths(config: &Config, surroundings: &Surroundings) -> Vec<PathBuf> {
    let inside = |path: &PathBuf| config.folder.join(path);
    if !config.state.file.as_os_str().is_empty() {
        return vec![inside(&config.state.file)];
    }
    let configured = &config.general.state_folder;
    if !configured.as_os_str().is_empty() {
        return vec![inside(configured).join(STORE)];
    }
    // The service manager's folder is the right one, even if it fails.
    let folders = surroundings.service.clone().map_or_else(|| surroundings.candidates(), |folder| vec![folder]);
    folders.into_iter().map(|folder| folder.join(STORE)).collect()
}

/// Folders to try for what belongs to the state, in order.
pub fn folders(config: &Config) -> Vec<PathBuf> {
    let paths = store_paths(config, &Surroundings::of_process());
    paths.iter().filter_map(|path| path.parent()).map(ToOwned::to_owned).collect()
}

/// Opens the first store whose folder this user may write to. A store that another router uses, or that is of another
/// version, is not passed over: two routers of one user would otherwise change their stores with the order of their
/// starts.
fn open_first(paths: &[PathBuf]) -> Result<Opened, StoreError> {
    let mut problem = None;
    for path in paths {
        match Store::open(path) {
            Err(error @ StoreError::Io { .. }) => problem = problem.or(Some(error)),
            opened_or_not_ours => return opened_or_not_ours,
        }
    }
    Err(problem.expect("there is a path"))
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
    fn the_store_is_where_it_is_configured_or_in_the_folder_of_system_or_user() {
        let here = Surroundings { service: None, state_home: None, home: Some("/home/me".into()) };
        let paths = |text: &str, here: &Surroundings| {
            store_paths(&Config::parse(text, Path::new("/etc/b/byname.toml")).expect("a configuration"), here)
        };
        assert_eq!(paths("state.file = 's.db'", &here), [Path::new("/etc/b/s.db")]);
        assert_eq!(paths("general.state_folder = '/st'", &here), [Path::new("/st/state.db")]);
        assert_eq!(
            paths("", &here),
            ["/var/lib/byname/state.db", "/home/me/.local/state/byname/state.db"].map(PathBuf::from)
        );
        let service = Surroundings { service: Some("/s".into()), ..here };
        assert_eq!(paths("", &service), [Path::new("/s/state.db")]);
    }

    #[test]
    fn a_store_in_use_is_not_passed_over_but_a_folder_without_rights_is() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), "").expect("written");
        let paths = ["file/inside/state.db", "a/state.db", "b/state.db"].map(|path| folder.path().join(path));
        let first = open_first(&paths).expect("the second path is good");
        assert_eq!(first.store.path(), paths[1]);
        assert!(matches!(open_first(&paths), Err(StoreError::InUse { .. })));
        assert!(matches!(open_first(&paths[..1]), Err(StoreError::Io { .. })));
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
