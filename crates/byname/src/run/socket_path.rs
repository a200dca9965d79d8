//! The path of the Unix socket: where clients look first, or else where this user may create it.

use std::path::{Path, PathBuf};

/// The path where ndn-cxx, ndnd, python-ndn and NDNts look without configuration.
pub use byname_client::transport::SYSTEM_SOCKET;

/// The environment that the choice depends on.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
}

impl Surroundings {
    /// Reads the environment of this process.
    pub fn of_process() -> Self {
        let path = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Surroundings { runtime_dir: path("XDG_RUNTIME_DIR"), home: path("HOME") }
    }

    /// Paths to try, in order.
    pub fn candidates(&self, configured: &Path) -> Vec<PathBuf> {
        if !configured.as_os_str().is_empty() {
            return vec![configured.to_owned()];
        }
        let mut paths = vec![PathBuf::from(SYSTEM_SOCKET)];
        paths.extend(self.runtime_dir.iter().map(|dir| dir.join("nfd/nfd.sock")));
        paths.extend(self.home.iter().map(|home| home.join(".ndn/nfd.sock")));
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_path_is_the_only_one() {
        let here = Surroundings { runtime_dir: Some("/run/user/7".into()), home: Some("/home/me".into()) };
        assert_eq!(here.candidates(Path::new("/tmp/x.sock")), [Path::new("/tmp/x.sock")]);
        assert_eq!(
            here.candidates(Path::new("")),
            [Path::new(SYSTEM_SOCKET), Path::new("/run/user/7/nfd/nfd.sock"), Path::new("/home/me/.ndn/nfd.sock")]
        );
        assert_eq!(Surroundings::default().candidates(Path::new("")), [Path::new(SYSTEM_SOCKET)]);
    }
}
