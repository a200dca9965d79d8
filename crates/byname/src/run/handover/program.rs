//! The program of this process, and how it was started.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The option of a process that takes over.
const TAKEOVER: &str = "--takeover";

/// How this process was started.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// Notes how this process was started. Must be called before the working folder changes.
    pub fn of_process() -> Self {
        let mut arguments = std::env::args_os();
        let path = path_of(arguments.next().unwrap_or_default(), std::env::current_dir().ok().as_deref());
        Program { path, arguments: arguments.filter(|argument| argument != TAKEOVER).collect() }
    }

    /// Starts the program again, as it is on disk now, with a socket as its standard input. An upgrade has replaced the
    /// file, so this process's own file is not asked for.
    pub fn start_successor(&self, socket: OwnedFd) -> io::Result<Child> {
        Command::new(&self.path)
            .args(&self.arguments)
            .arg(TAKEOVER)
            // The service manager's watchdog is for the process that is the service now, and so are its descriptors.
            .env_remove("WATCHDOG_PID")
            .env_remove("LISTEN_PID")
            .stdin(Stdio::from(socket))
            .spawn()
    }

    /// The program's file, or a name that is looked for in PATH.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The path to start again what was started by this name. A name without a folder is looked for in PATH.
fn path_of(name: OsString, folder: Option<&Path>) -> PathBuf {
    let path = PathBuf::from(name);
    match folder {
        Some(folder) if path.components().count() > 1 => folder.join(path),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_looked_for_again_where_it_was_found() {
        let folder = Some(Path::new("/home/me"));
        assert_eq!(path_of("byname".into(), folder), Path::new("byname"));
        assert_eq!(path_of("./byname".into(), folder), Path::new("/home/me/./byname"));
        assert_eq!(path_of("target/byname".into(), folder), Path::new("/home/me/target/byname"));
        assert_eq!(path_of("/usr/bin/byname".into(), folder), Path::new("/usr/bin/byname"));
    }
}
