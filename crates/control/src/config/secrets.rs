//! Warns of secret files that other users can access.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Config, Finding, RightSigner};

/// Mode bits that grant access to users other than the owner.
const OTHERS: u32 = 0o077;

/// A warning with a remedy, if users other than the owner can access the file.
pub fn exposure(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.mode();
    let path = path.display();
    (mode & OTHERS != 0).then(|| {
        format!(
            "users other than its owner have access to {path}, which holds a secret (mode {:o}): `chmod 600 {path}`",
            mode & 0o7777
        )
    })
}

impl Config {
    /// Secret files that other users can access. `file` is the configuration file itself, which may contain secrets,
    /// too.
    pub fn exposed_secrets(&self, file: &Path) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (n, right) in self.authorizations.iter().enumerate() {
            if let RightSigner::Hmac { secret_file, .. } = &right.signer {
                let key = format!("authorization.{n}.hmac_secret_file");
                let exposed = exposure(&self.folder.join(secret_file));
                findings.extend(exposed.map(|text| Finding::warning(key, text)));
            }
        }
        let propagate = &self.rib.propagate;
        for (setting, path) in [("key_file", &propagate.key_file), ("hmac_secret_file", &propagate.hmac_secret_file)] {
            if propagate.enabled && !path.as_os_str().is_empty() {
                let exposed = exposure(&self.folder.join(path));
                findings.extend(exposed.map(|text| Finding::warning(format!("rib.propagate.{setting}"), text)));
            }
        }
        let tags = &self.tags;
        let neighbors = tags.neighbors.iter().enumerate().filter_map(|(n, neighbor)| {
            Some((format!("tags.neighbor.{n}.hmac_secret_file"), neighbor.hmac_secret_file.as_ref()?))
        });
        let own = (!tags.key_file.as_os_str().is_empty()).then(|| ("tags.key_file".to_owned(), &tags.key_file));
        for (setting, path) in own.into_iter().chain(neighbors) {
            let exposed = exposure(&self.folder.join(path));
            findings.extend(exposed.map(|text| Finding::warning(setting, text)));
        }
        let with_secret = self.faces.memif.iter().position(|memif| !memif.secret.is_empty());
        if let Some(n) = with_secret {
            let key = format!("faces.memif.{n}.secret");
            findings.extend(exposure(file).map(|text| Finding::warning(key, text)));
        }
        findings
    }
}
