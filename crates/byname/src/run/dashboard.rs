//! What the dashboard needs from the configuration: its token, and who may use it.
//!
//! The token is in a file that only its owner may read. A router that finds none makes one. So pages that are open go on
//! after a restart, and another process that takes over has the same token.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use byname_control::config::Config;
use byname_control::service::ControlHandle;
use byname_web::dashboard::COMMANDS_KEPT;
use byname_web::{Access, DashboardConfig, RoutingMap};
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

use super::state;
use byname_client::fetch::resume::hex;

/// Name of the file in the folder for state.
const FILE: &str = "dashboard.token";
/// Shortest token.
const CHARACTERS_MIN: usize = 16;
/// Longest token.
const CHARACTERS_MAX: usize = 256;
/// Random bytes of a new token.
const RANDOM_BYTES: usize = 24;

/// Why there is no token.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Others may read the file.
    #[error("{}: others may read it (mode {mode:o}); chmod 600 makes it private", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file has no token.
    #[error("{}: a token has {CHARACTERS_MIN} to {CHARACTERS_MAX} letters, digits, \"-\" or \"_\"", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

/// What the web server needs. `None`: the configuration wants no dashboard.
pub fn wanted(
    config: &Config,
    control: &ControlHandle,
    routing: RoutingMap,
    notes: &mut Vec<String>,
) -> Option<DashboardConfig> {
    let settings = &config.dashboard;
    let kept = if settings.enabled { COMMANDS_KEPT } else { 0 };
    // Fails if the control thread has ended, as the process soon will.
    let _ = control.with_management(move |management| management.remember_commands(kept));
    if !settings.enabled {
        return None;
    }
    let token = find_or_make(&token_files(config)).map_err(|error| {
        tracing::warn!("nothing can be changed by the dashboard: {error}");
        notes.push(format!("nothing can be changed by the dashboard: {error}"));
    });
    let access = Access { token: token.ok(), remote: settings.remote, hosts: settings.hosts.clone() };
    Some(DashboardConfig { door: control.door(), access, routing })
}

/// Files that may have the token, in order.
pub fn token_files(config: &Config) -> Vec<PathBuf> {
    let configured = &config.dashboard.token_file;
    if !configured.as_os_str().is_empty() {
        return vec![config.folder.join(configured)];
    }
    state::folders(config).into_iter().map(|folder| folder.join(FILE)).collect()
}

/// The token in the first file that exists, or else a new one in the first file that can be made.
fn find_or_make(files: &[PathBuf]) -> Result<String, TokenError> {
    let mut problem = None;
    for path in files {
        let found = match read(path) {
            Err(TokenError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => make(path),
            found => found,
        };
        match found {
            Err(error @ TokenError::Io { .. }) => problem = problem.or(Some(error)),
            token_or_damage => return token_or_damage,
        }
    }
    Err(problem.expect("there is a file to try"))
}

/// The token in a file.
///
/// # Errors
/// If there is none, or others may read it.
pub fn read(path: &Path) -> Result<String, TokenError> {
    let io = |error| TokenError::Io { path: path.to_owned(), error };
    let file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if metadata.is_dir() {
        return Err(io(io::ErrorKind::IsADirectory.into()));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(TokenError::Exposed { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    // What is longer is no token, and need not be read.
    file.take(CHARACTERS_MAX as u64 + 2).read_to_string(&mut text).map_err(io)?;
    let token = text.trim_end();
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_token = (CHARACTERS_MIN..=CHARACTERS_MAX).contains(&token.len()) && token.bytes().all(is_of_token);
    if is_token { Ok(token.to_owned()) } else { Err(TokenError::Malformed { path: path.to_owned() }) }
}

fn make(path: &Path) -> Result<String, TokenError> {
    let io = |error| TokenError::Io { path: path.to_owned(), error };
    let mut random = [0; RANDOM_BYTES];
    SystemRandom::new().fill(&mut random).map_err(|_| io(io::Error::other("the system has no random numbers")))?;
    let token = hex(&random);
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(io)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
    writeln!(file, "{token}").map_err(io)?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_is_private() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let files = [folder.path().join("new/dashboard.token"), folder.path().join("other.token")];
        let token = find_or_make(&files).expect("made");
        assert_eq!(fs::metadata(&files[0]).expect("it exists").mode() & 0o777, 0o600);
        assert!(token.len() == 2 * RANDOM_BYTES && !files[1].exists());
        assert_eq!(find_or_make(&files).expect("found"), token);
        assert_ne!(find_or_make(&files[1..]).expect("made"), token);
    }

    #[test]
    fn a_file_that_is_not_private_or_no_token_is_refused() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let path = folder.path().join("token");
        for (text, mode, is_good) in [
            ("0123456789abcdef\n", 0o600, true),
            ("0123456789abcdef\n", 0o640, false),
            ("0123456789abcde\n", 0o600, false),
            ("0123456789abcde !\n", 0o600, false),
            (&*"x".repeat(300), 0o600, false),
            ("", 0o600, false),
        ] {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            assert_eq!(find_or_make(std::slice::from_ref(&path)).is_ok(), is_good, "{text:?} {mode:o}");
        }
        // A folder cannot be read as a file, and the next file is tried.
        let next = folder.path().join("next");
        assert!(find_or_make(&[folder.path().to_owned(), next.clone()]).is_ok() && next.exists());
    }
}
