//! The router's certificate: from files, or made here.
//!
//! Connections that exist do not notice a change: TLS reads a certificate only in a handshake.
//!
//! A web page may connect by WebTransport to a router without a certificate of a known authority, if it knows the SHA-256
//! hash of the router's certificate (`serverCertificateHashes`). Browsers then demand an ECDSA key on P-256, and a
//! validity of at most 14 days. [`Certificate::make`] makes such certificates.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use byname_trust::tls::Fingerprint;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;

use crate::x509;

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How long a certificate that is made here is valid. Browsers allow 14 days; clocks differ.
const VALIDITY: Duration = Duration::from_secs(12 * 24 * 3600);
/// The validity begins this long before, for peers whose clocks are late.
const BEFORE: Duration = Duration::from_secs(3600);
/// A certificate that is made here is replaced at this age.
const RENEWAL_AGE: Duration = Duration::from_secs(6 * 24 * 3600);

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate, and those of the authorities between it and the root, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

impl Files {
    /// When they have changed last, as far as the system tells. Another value means another certificate.
    pub(crate) fn changed(&self) -> [Option<SystemTime>; 2] {
        [&self.certificate, &self.key].map(|path| path.metadata().and_then(|data| data.modified()).ok())
    }
}

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{path} has no {what} in PEM form (it begins with \"-----BEGIN\"): {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// What the file should have.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The files do not belong together, or TLS cannot use them.
    #[error("{certificate} and {key} cannot be used together: {reason}")]
    Unusable {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
        /// What is wrong.
        reason: rustls::Error,
    },
    /// No certificate could be made.
    #[error("cannot make a certificate: {0}")]
    Make(String),
    /// A certificate of an authority is not what was asked for.
    #[error("{0}")]
    Unfit(String),
}

/// A certificate with its key.
#[derive(Debug, Clone)]
pub struct Certificate {
    key: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
    /// When it was made, if it was made here.
    made: Option<SystemTime>,
    /// Its end, unless its form is odd.
    ends: Option<SystemTime>,
}

impl Certificate {
    /// Reads a certificate from files.
    ///
    /// # Errors
    /// If a file cannot be read, is not in PEM, or the key is not that of the certificate.
    pub fn read(files: &Files) -> Result<Self, CertificateError> {
        let form = |path: &Path, what, reason: String| CertificateError::Form { path: path.to_owned(), what, reason };
        let text = read_bounded(&files.certificate)?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&text)
            .collect::<Result<_, _>>()
            .map_err(|error| form(&files.certificate, "certificate", error.to_string()))?;
        let Some(first) = chain.first() else {
            return Err(form(&files.certificate, "certificate", "there is none".to_owned()));
        };
        let (fingerprint, ends) = (Fingerprint::of(first), x509::validity(first).map(|of| of.end));
        let key = PrivateKeyDer::from_pem_slice(&read_bounded(&files.key)?)
            .map_err(|error| form(&files.key, "private key", error.to_string()))?;
        let key = CertifiedKey::from_der(chain, key, &default_provider()).map_err(|reason| {
            CertificateError::Unusable { certificate: files.certificate.clone(), key: files.key.clone(), reason }
        })?;
        Ok(Certificate { key: Arc::new(key), fingerprint, made: None, ends })
    }

    /// A chain and a key in PEM.
    ///
    /// # Errors
    /// If they are not that, or do not belong together.
    pub(crate) fn parse(chain: &str, key: &str) -> Result<Self, CertificateError> {
        let fail = |error: &dyn fmt::Display| CertificateError::Unfit(error.to_string());
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>().map_err(|error| fail(&error))?;
        let first = chain.first().ok_or_else(|| fail(&"there is none"))?;
        let (fingerprint, ends) = (Fingerprint::of(first), x509::validity(first).map(|of| of.end));
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| fail(&error))?;
        let key = CertifiedKey::from_der(chain, key, &default_provider()).map_err(|error| fail(&error))?;
        Ok(Certificate { key: Arc::new(key), fingerprint, made: None, ends })
    }

    /// Whether it has all of these names and addresses, and is valid now.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn is_for(&self, names: &[String], now: SystemTime) -> Result<(), CertificateError> {
        let fit = self.key.cert.first().ok_or("there is none".to_owned()).and_then(|first| {
            let of = x509::validity(first).ok_or("it is not in the form of X.509")?;
            if !(of.begin..of.end).contains(&now) {
                return Err("it is not valid now; compare the clocks".to_owned());
            }
            x509::check_names(first, names)
        });
        fit.map_err(CertificateError::Unfit)
    }

    /// When a third of its time is left.
    pub(crate) fn renewal(&self) -> Option<SystemTime> {
        let of = x509::validity(self.key.cert.first()?)?;
        let whole = of.end.duration_since(of.begin).ok()?;
        Some(of.end - whole / 3)
    }

    /// Makes a key and a certificate for these names and addresses, which is valid from now on for less than 14 days.
    ///
    /// # Errors
    /// If a name cannot be in a certificate, or the system has no random numbers.
    pub fn make(names: &[String], now: SystemTime) -> Result<Self, CertificateError> {
        let fail = |error: rcgen::Error| CertificateError::Make(error.to_string());
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(fail)?;
        let mut params = CertificateParams::new(names).map_err(fail)?;
        (params.not_before, params.not_after) = ((now - BEFORE).into(), (now + VALIDITY).into());
        let certificate = params.self_signed(&pair).map_err(fail)?.der().clone();
        let fingerprint = Fingerprint::of(&certificate);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.serialize_der()));
        let key = CertifiedKey::from_der(vec![certificate], key, &default_provider())
            .map_err(|error| CertificateError::Make(error.to_string()))?;
        Ok(Certificate { key: Arc::new(key), fingerprint, made: Some(now), ends: Some(now + VALIDITY) })
    }
}

/// What people are told of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Its hash.
    pub fingerprint: Fingerprint,
    /// Its end. `None`: it could not be read.
    pub expires: Option<SystemTime>,
    /// How often, since the start, no other certificate could be got though it was due.
    pub failures: u64,
}

/// The certificate of the moment, and where the next one comes from. TLS asks it in each handshake.
#[derive(Debug)]
pub(crate) struct Current {
    certificate: RwLock<Certificate>,
    /// Names for a certificate that is made here.
    names: Vec<String>,
    source: Mutex<Source>,
    failures: AtomicU64,
}

#[derive(Debug)]
struct Source {
    /// `None`: it is made here.
    files: Option<Files>,
    /// When the files had changed last, when they were read.
    changed: Option<[Option<SystemTime>; 2]>,
}

impl Source {
    /// Gets a certificate.
    fn open(
        files: Option<Files>,
        names: &[String],
        now: SystemTime,
    ) -> Result<(Source, Certificate), CertificateError> {
        // Before it is read: a change between the two must be seen later.
        let changed = files.as_ref().map(Files::changed);
        let certificate = match &files {
            Some(files) => Certificate::read(files)?,
            None => Certificate::make(names, now)?,
        };
        Ok((Source { files, changed }, certificate))
    }
}

impl Current {
    pub(crate) fn open(files: Option<Files>, names: Vec<String>, now: SystemTime) -> Result<Self, CertificateError> {
        let (source, certificate) = Source::open(files, &names, now)?;
        Ok(Current {
            certificate: RwLock::new(certificate),
            names,
            source: Mutex::new(source),
            failures: AtomicU64::new(0),
        })
    }

    /// Uses a certificate that an authority has given, unless files have been named meanwhile.
    pub(crate) fn adopt(&self, certificate: Certificate) {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        if source.files.is_none() {
            self.set(certificate);
        }
    }

    /// No other certificate could be got.
    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the certificate from these files now. `None`: from now on it is made here.
    pub(crate) fn reload(&self, files: Option<Files>, now: SystemTime) -> Result<(), CertificateError> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        if files.is_some() || source.files.is_some() {
            let (opened, certificate) = Source::open(files, &self.names, now)?;
            *source = opened;
            self.set(certificate);
        }
        Ok(())
    }

    /// Replaces the certificate if that is due: it was made here some time ago, or its files have changed. Returns whether
    /// it has another now. If its files are wrong, that is said once.
    pub(crate) fn look(&self, now: SystemTime) -> Result<bool, CertificateError> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = source.files.as_ref().map(Files::changed);
        let is_due = match &source.files {
            Some(_) => changed != source.changed,
            None => self.certificate().made.is_some_and(|made| now > made + RENEWAL_AGE),
        };
        if is_due {
            source.changed = changed;
            let (opened, certificate) = Source::open(source.files.clone(), &self.names, now)?;
            *source = opened;
            self.set(certificate);
        }
        Ok(is_due)
    }

    fn set(&self, certificate: Certificate) {
        *self.certificate.write().unwrap_or_else(PoisonError::into_inner) = certificate;
    }

    fn certificate(&self) -> Certificate {
        self.certificate.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn summary(&self) -> Summary {
        let Certificate { fingerprint, ends, .. } = self.certificate();
        Summary { fingerprint, expires: ends, failures: self.failures.load(Ordering::Relaxed) }
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certificate().key)
    }
}

pub(crate) fn read_bounded(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| CertificateError::Read { path: path.to_owned(), error })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["localhost".to_owned(), "127.0.0.1".to_owned()]
    }

    #[test]
    fn fingerprints_are_read_as_tools_write_them() {
        let fingerprint = Fingerprint([0xab; 32]);
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        assert_eq!(vec!["AB"; 32].join(":").parse(), Ok(fingerprint));
        for wrong in ["", "ab", &"ab".repeat(33), &"zz".repeat(32)] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_made_is_replaced_before_it_ends() {
        let now = SystemTime::now();
        let current = Current::open(None, names(), now).expect("a certificate");
        let first = current.summary();
        assert_eq!(first.expires, Some(now + VALIDITY));
        assert!(BEFORE + VALIDITY <= Duration::from_secs(14 * 24 * 3600), "browsers refuse it");
        assert!(!current.look(now + RENEWAL_AGE).expect("nothing to do"));
        assert_eq!(current.summary(), first);
        let later = now + RENEWAL_AGE + Duration::from_secs(1);
        assert!(current.look(later).expect("another"));
        assert_eq!(current.summary().expires, Some(later + VALIDITY));
        assert_ne!(current.summary().fingerprint, first.fingerprint);
        current.reload(None, later).expect("nothing to do");
        assert!(!current.look(later).expect("nothing to do"));
    }

    #[test]
    fn files_that_are_wrong_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
        assert!(
            matches!(Certificate::read(&files), Err(CertificateError::Read { path, .. }) if path == files.certificate)
        );
        let write = |path: &Path, text: &str| std::fs::write(path, text).expect("a file");
        write(&files.certificate, "nothing");
        write(&files.key, "nothing");
        let told = Certificate::read(&files).expect_err("no certificate").to_string();
        assert!(told.contains("cert.pem has no certificate in PEM form"), "{told}");

        let [one, other] = [(); 2].map(|()| KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key"));
        let certificate = CertificateParams::new(names()).and_then(|params| params.self_signed(&one)).expect("signed");
        write(&files.certificate, &certificate.pem());
        let told = Certificate::read(&files).expect_err("no key").to_string();
        assert!(told.contains("key.pem has no private key in PEM form"), "{told}");
        write(&files.key, &other.serialize_pem());
        assert!(matches!(Certificate::read(&files), Err(CertificateError::Unusable { .. })), "another's key");
        write(&files.key, &one.serialize_pem());
        let now = SystemTime::now();
        let current = Current::open(Some(files.clone()), names(), now).expect("good files");
        let ends = x509::validity(certificate.der()).map(|of| of.end);
        let summary = Summary { fingerprint: Fingerprint::of(certificate.der()), expires: ends, failures: 0 };
        assert_eq!(current.summary(), summary);
        assert!(!current.look(now + VALIDITY).expect("nothing to do"), "files are their owner's");

        // A change in two steps: the key comes later.
        let next = CertificateParams::new(names()).and_then(|params| params.self_signed(&other)).expect("signed");
        let touch = |path: &Path, seconds| {
            let file = File::options().write(true).open(path).expect("a file");
            file.set_modified(now + Duration::from_secs(seconds)).expect("a time");
        };
        write(&files.certificate, &next.pem());
        touch(&files.certificate, 10);
        assert!(matches!(current.look(now), Err(CertificateError::Unusable { .. })));
        assert!(!current.look(now).expect("it was said"));
        assert_eq!(current.summary(), summary, "the former one stays");
        write(&files.key, &other.serialize_pem());
        touch(&files.key, 20);
        assert!(current.look(now).expect("both are there"));
        assert_eq!(current.summary().fingerprint, Fingerprint::of(next.der()));
        std::fs::remove_file(&files.key).expect("removed");
        assert!(matches!(current.look(now), Err(CertificateError::Read { .. })));
        assert_eq!(current.summary().fingerprint, Fingerprint::of(next.der()), "it stays");
    }
}
