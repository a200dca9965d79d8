//! Files of the account and of the certificate.
//!
//! Their names depend on the directory, and for the certificate on the names in it. So other settings find no files of
//! earlier ones. A key and its certificate are one file, which is replaced at once.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use instant_acme::AccountCredentials;
use ring::digest::{SHA256, digest};

use super::{AcmeConfig, AcmeError};
use crate::certificate::{Certificate, CertificateError, Files, read_bounded};

/// Bytes of a hash that are in a file's name.
const NAME_BYTES: usize = 8;

/// The files for some settings.
pub(super) struct Folder {
    folder: PathBuf,
    account: PathBuf,
    certificate: PathBuf,
}

impl Folder {
    pub(super) fn of(config: &AcmeConfig) -> Folder {
        let folder = config.folder.clone();
        let name =
            |parts: &[String]| HEXLOWER.encode(&digest(&SHA256, parts.join("\n").as_bytes()).as_ref()[..NAME_BYTES]);
        let mut names = config.names.clone();
        names.sort();
        names.insert(0, config.directory.clone());
        Folder {
            account: folder.join(format!("account-{}.json", name(&names[..1]))),
            certificate: folder.join(format!("certificate-{}.pem", name(&names))),
            folder,
        }
    }

    /// The account. A file that is none is as good as no file: a new account costs nothing.
    pub(super) fn account(&self) -> Option<AccountCredentials> {
        serde_json::from_slice(&read_bounded(&self.account).ok()?).ok()
    }

    pub(super) fn keep_account(&self, credentials: &AccountCredentials) -> Result<(), AcmeError> {
        let written = serde_json::to_vec(credentials).map_err(io::Error::other);
        self.told(written.and_then(|bytes| self.write(&self.account, &bytes)))
    }

    /// The authority does not know it.
    pub(super) fn forget_account(&self) {
        let _ = fs::remove_file(&self.account);
    }

    pub(super) fn certificate(&self) -> Result<Certificate, CertificateError> {
        Certificate::read(&Files { certificate: self.certificate.clone(), key: self.certificate.clone() })
    }

    /// Replaces the certificate with its key.
    pub(super) fn keep_certificate(&self, chain: &str, key: &str) -> Result<(), AcmeError> {
        self.told(self.write(&self.certificate, format!("{}\n{}\n", key.trim_end(), chain.trim_end()).as_bytes()))
    }

    /// Only the owner may read the file. It has its old content or the new one.
    fn write(&self, path: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut file = tempfile::Builder::new().prefix(".new").tempfile_in(&self.folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }

    fn told(&self, written: io::Result<()>) -> Result<(), AcmeError> {
        written.map_err(|error| AcmeError::Folder { folder: self.folder.clone(), error })
    }
}
