//! The folder of keys: for each key, `NAME.key` (PKCS#8 in PEM, mode 0600) and `NAME.ndncert` (base64).
//!
//! NAME is made of the identity and a digest of the key's name. The names that count are those in the certificates.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use byname_trust::{Certificate, Signer, identity_of_key, pem, read_private_key, wrapped_base64};
use byname_wire::{Name, digest};

use crate::exit;

/// Most certificates in a folder.
const ENTRIES_MAX: usize = 100_000;
/// Most characters of an identity in the name of a file.
const SLUG_CHARS_MAX: usize = 40;

/// A folder with keys.
pub struct Folder {
    path: PathBuf,
}

/// A key of the folder, with its certificate.
pub struct Entry {
    pub certificate: Certificate,
    pub certificate_path: PathBuf,
    pub key_path: PathBuf,
}

impl Entry {
    pub fn has_key(&self) -> bool {
        self.key_path.exists()
    }

    /// The private key in PKCS#8.
    pub fn private_key(&self) -> anyhow::Result<Vec<u8>> {
        let path = self.key_path.display();
        read_private_key(&self.key_path)
            .with_context(|| format!("the private key of {}: {path}", self.certificate.key_name))
    }

    /// Signs certificates. The KeyLocator is the name of the certificate without its version, so that it leads to the
    /// renewed one, too; that of an anchor is the name of its key.
    pub fn signer(&self) -> anyhow::Result<Signer> {
        let name = &self.certificate.name;
        let without_version = name.as_ref().prefix(name.as_ref().len() - 1).to_name();
        let locator =
            if self.certificate.is_self_signed() { self.certificate.key_name.clone() } else { without_version };
        let signer = Signer::from_pkcs8(self.certificate.key_name.clone(), &self.private_key()?)?;
        Ok(signer.named(locator))
    }
}

/// The time since the Unix epoch.
pub fn now() -> anyhow::Result<Duration> {
    SystemTime::now().duration_since(UNIX_EPOCH).context("the system clock is set before 1970")
}

impl Folder {
    /// The folder that the user named, or the default one. It need not exist.
    pub fn new(named: Option<PathBuf>) -> anyhow::Result<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let of_user =
            || Some(variable("XDG_CONFIG_HOME").or(variable("HOME")?.join(".config").into())?.join("byname/keys"));
        let is_root = || rustix::process::geteuid().is_root().then(|| PathBuf::from("/etc/byname/keys"));
        let path = named.or_else(|| variable("BYNAME_KEYS")).or_else(is_root).or_else(of_user);
        let path = path.ok_or_else(|| exit::Failure::new(exit::USAGE, "no folder for keys: give --folder"))?;
        Ok(Folder { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All keys and certificates, in the order of their names.
    pub fn entries(&self) -> anyhow::Result<Vec<Entry>> {
        let files = match fs::read_dir(&self.path) {
            Ok(files) => files,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| self.path.display().to_string()),
        };
        let mut entries = Vec::new();
        for file in files {
            let certificate_path = file.with_context(|| self.path.display().to_string())?.path();
            if certificate_path.extension().is_none_or(|extension| extension != "ndncert") {
                continue;
            }
            if entries.len() == ENTRIES_MAX {
                bail!("{} has more than {ENTRIES_MAX} certificates", self.path.display());
            }
            let certificate =
                Certificate::load(&certificate_path).with_context(|| certificate_path.display().to_string())?;
            entries.push(Entry { certificate, key_path: certificate_path.with_extension("key"), certificate_path });
        }
        entries.sort_by(|a, b| a.certificate.name.cmp(&b.certificate.name));
        Ok(entries)
    }

    /// The key with this name, or that of this certificate, or the newest one of this identity.
    pub fn find(&self, name: &Name) -> anyhow::Result<Entry> {
        let is_meant = |entry: &Entry| {
            let certificate = &entry.certificate;
            certificate.name == *name || certificate.key_name == *name || certificate.identity() == *name
        };
        let newest = self.entries()?.into_iter().filter(is_meant).max_by_key(|entry| entry.certificate.not_before_ms);
        let missing = || format!("{} has no key {name}; see `byname key list`", self.path.display());
        Ok(newest.ok_or_else(|| exit::Failure::new(exit::NOT_FOUND, missing()))?)
    }

    /// The key that signs for an identity: the named one, or the one with the longest identity above it.
    pub fn signer_for(&self, identity: &Name, named: Option<&Name>) -> anyhow::Result<Entry> {
        if let Some(name) = named {
            return self.find(name);
        }
        let is_above = |entry: &Entry| {
            let above = entry.certificate.identity();
            above != *identity && above.as_ref().is_prefix_of(&identity.as_ref()) && entry.has_key()
        };
        let worth = |entry: &Entry| (entry.certificate.identity().as_ref().len(), entry.certificate.not_before_ms);
        let closest = self.entries()?.into_iter().filter(is_above).max_by_key(worth);
        let missing = || {
            let folder = self.path.display();
            format!("{folder} has no key above {identity} that could sign; make one with `byname key anchor`")
        };
        Ok(closest.ok_or_else(|| exit::Failure::new(exit::NOT_FOUND, missing()))?)
    }

    /// The places of a key's files. Makes the folder.
    fn place(&self, certificate: Certificate) -> anyhow::Result<Entry> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
            .with_context(|| format!("cannot make {}", self.path.display()))?;
        let base = self.path.join(file_name(&certificate.key_name));
        let (key_path, certificate_path) = (base.with_extension("key"), base.with_extension("ndncert"));
        Ok(Entry { certificate, certificate_path, key_path })
    }

    /// Writes a certificate without its private key, in place of an earlier one for the same key.
    pub fn add_certificate(&self, certificate: &Certificate) -> anyhow::Result<()> {
        let entry = self.place(certificate.clone())?;
        self.replace_certificate(&entry, &certificate.packet)
    }

    /// Writes a new private key and its certificate.
    pub fn add(&self, pkcs8: &[u8], certificate: &[u8]) -> anyhow::Result<Entry> {
        let entry = self.place(Certificate::decode(certificate)?)?;
        let fail = || format!("cannot write {}", entry.key_path.display());
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&entry.key_path).with_context(fail)?;
        file.write_all(pem(pkcs8).as_bytes()).and_then(|()| file.sync_all()).with_context(fail)?;
        self.replace_certificate(&entry, &entry.certificate.packet)?;
        Ok(entry)
    }

    /// Writes the certificate of a key, in place of the earlier one.
    pub fn replace_certificate(&self, entry: &Entry, packet: &[u8]) -> anyhow::Result<()> {
        let path = &entry.certificate_path;
        let new = path.with_extension("ndncert.new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(wrapped_base64(packet).as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The name of a key's files without their extension. It has no dots.
fn file_name(key: &Name) -> String {
    let identity = identity_of_key(key.as_ref()).to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let slug = identity.trim_start_matches('/').chars().map(|c| if is_plain(c) { c } else { '_' });
    let slug: String = slug.take(SLUG_CHARS_MAX).collect();
    let digest: String = digest::sha256(&[key.value()])[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{slug}-{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_plain_names_that_differ() {
        let name = |uri: &str| file_name(&uri.parse().expect("a name"));
        assert!(name("/net/r1/32=DV/KEY/1").starts_with("net_r1_32_DV-"));
        assert!(name("/...../..%2F/KEY/1").chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)));
        assert_ne!(name("/net/a/KEY/1"), name("/net/a/KEY/2"));
        assert!(name(&format!("/{}/KEY/1", "x".repeat(500))).len() < 80);
    }
}
