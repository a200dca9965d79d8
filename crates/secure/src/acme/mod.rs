//! Gets certificates from an authority by ACME [RFC 8555], and renews them.
//!
//! The authority asks over HTTP, on port 80 of each name, whether this router has the name (`http-01`, §8.3). Names and
//! addresses are all proved in that way; wildcards cannot be, because they need DNS.
//!
//! A certificate is renewed when a third of its time is left. A failure changes nothing: the former certificate stays in
//! use, or the one that byname makes until there is another. The next attempt waits, longer after each failure.
//!
//! The authority is a stranger, too. [`client`] bounds what it may send and [`Bounds`] how long it may take, so that it can
//! only refuse. A certificate is used if it is for this key and these names, and valid now.

mod challenge;
mod client;
mod folder;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256};
use thiserror::Error;

use self::challenge::Answers;
use self::client::Client;
use self::folder::Folder;
use crate::certificate::{Certificate, CertificateError, Current};

/// Longest text of an authority in a log, in characters.
const TOLD_CHARS_MAX: usize = 300;
/// The authority does not know the account.
const UNKNOWN_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Where certificates come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeConfig {
    /// URL of the authority's directory; it begins with `https://`.
    pub directory: String,
    /// How the authority reaches the operator: URLs, such as `mailto:`.
    pub contact: Vec<String>,
    /// Names and addresses of this router, at least one.
    pub names: Vec<String>,
    /// Where the account and the certificate are kept. Only the owner may read what is in it.
    pub folder: PathBuf,
    /// Where the authority's question is answered.
    pub listen: SocketAddr,
    /// File with the roots that vouch for the directory's own certificate, in PEM. `None`: those of the system.
    pub roots: Option<PathBuf>,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// One request, with its answer.
    request: Duration,
    /// All of it, until there is a certificate.
    whole: Duration,
    /// The pause after a first failure. Each further one doubles it, up to [`PAUSE_MAX`].
    pause: Duration,
}

/// Longest pause after a failure.
const PAUSE_MAX: Duration = Duration::from_secs(12 * 3600);
/// How often the age of the certificate is looked at; the clock may be set meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_secs(600);

impl Default for Bounds {
    fn default() -> Self {
        // Let's Encrypt allows five failures an hour for a name.
        Bounds {
            request: Duration::from_secs(20),
            whole: Duration::from_secs(180),
            pause: Duration::from_secs(15 * 60),
        }
    }
}

/// Why there is no certificate from the authority.
#[derive(Debug, Error)]
pub(crate) enum AcmeError {
    /// The authority refuses, does not answer, or answers nonsense.
    #[error("the authority at {directory}: {reason}")]
    Authority {
        /// Its directory.
        directory: String,
        /// What went wrong.
        reason: String,
    },
    /// It took too long.
    #[error("the authority at {0} gave no certificate in time")]
    Slow(String),
    /// The question of the authority cannot be answered.
    #[error("cannot answer the authority on {at} (`listen` under [tls.acme]): {error}")]
    Listen {
        /// The address.
        at: SocketAddr,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The folder cannot be used.
    #[error("cannot keep the account and the certificate in {folder}: {error}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The roots cannot be read.
    #[error("no roots vouch for {directory}: {reason}")]
    Roots {
        /// The directory.
        directory: String,
        /// What is wrong.
        reason: String,
    },
    /// The authority's certificate is not one for this router.
    #[error("the authority's certificate cannot be used: {0}")]
    Certificate(#[from] CertificateError),
}

/// The certificate that was got before, if it is still valid.
pub(crate) fn kept(config: &AcmeConfig, now: SystemTime) -> Option<Certificate> {
    let certificate = Folder::of(config).certificate().ok()?;
    certificate.is_for(&config.names, now).ok()?;
    Some(certificate)
}

/// Keeps a certificate, for ever.
pub(crate) async fn keep(config: AcmeConfig, bounds: Bounds, current: Arc<Current>) {
    let mut pause = bounds.pause;
    loop {
        if let Some(due) = kept(&config, SystemTime::now()).and_then(|certificate| certificate.renewal())
            && let Ok(left) = due.duration_since(SystemTime::now())
        {
            tokio::time::sleep(left.min(LOOK_INTERVAL)).await;
            continue;
        }
        match obtain(&config, bounds).await {
            Ok(certificate) => {
                pause = bounds.pause;
                current.adopt(certificate);
                let fingerprint = current.summary().fingerprint;
                tracing::info!(%fingerprint, names = ?config.names, "the authority has given another certificate");
            }
            Err(error) => {
                current.count_failure();
                let again = humane(pause);
                tracing::error!("{error}; the former certificate stays in use, and byname tries again in {again}");
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(PAUSE_MAX.max(bounds.pause));
            }
        }
    }
}

fn humane(pause: Duration) -> String {
    match pause.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} minutes", seconds / 60),
    }
}

/// Gets a certificate now, and keeps it in the folder.
pub(crate) async fn obtain(config: &AcmeConfig, bounds: Bounds) -> Result<Certificate, AcmeError> {
    let slow = || AcmeError::Slow(config.directory.clone());
    tokio::time::timeout(bounds.whole, order(config, bounds)).await.map_err(|_| slow())?
}

async fn order(config: &AcmeConfig, bounds: Bounds) -> Result<Certificate, AcmeError> {
    let told = |error: instant_acme::Error| refusal(config, &error.to_string());
    let folder = Folder::of(config);
    let client = Client::new(config, bounds.request)?;
    let account = account(config, &folder, &client).await?;
    let identifiers: Vec<Identifier> = config.names.iter().map(|name| identifier(name)).collect();
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await.map_err(|error| {
        if matches!(&error, instant_acme::Error::Api(problem) if problem.r#type.as_deref() == Some(UNKNOWN_ACCOUNT)) {
            folder.forget_account();
        }
        told(error)
    })?;
    let mut answers = Answers::default();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(told)?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let challenge = authorization.challenge(ChallengeType::Http01);
        let mut challenge = challenge.ok_or_else(|| refusal(config, "it does not offer the challenge http-01"))?;
        let listening = answers.add(&challenge.token, challenge.key_authorization().as_str(), config.listen);
        listening.map_err(|error| AcmeError::Listen { at: config.listen, error })?;
        challenge.set_ready().await.map_err(told)?;
    }
    let retries = RetryPolicy::new().timeout(bounds.whole);
    if order.poll_ready(&retries).await.map_err(told)? != OrderStatus::Ready {
        let listen = config.listen;
        let reason = format!("it does not believe that this router has these names (it asked over HTTP; see {listen})");
        return Err(refusal(config, &reason));
    }
    drop(answers);
    let (key, request) = request(&config.names)?;
    order.finalize_csr(&request).await.map_err(told)?;
    let chain = order.poll_certificate(&retries).await.map_err(told)?;
    let certificate = Certificate::parse(&chain, &key)?;
    certificate.is_for(&config.names, SystemTime::now())?;
    folder.keep_certificate(&chain, &key)?;
    Ok(certificate)
}

/// The account: the one that is kept, or else a new one.
async fn account(config: &AcmeConfig, folder: &Folder, client: &Client) -> Result<Account, AcmeError> {
    let told = |error: instant_acme::Error| refusal(config, &error.to_string());
    let builder = Account::builder_with_http(Box::new(client.clone()));
    if let Some(credentials) = folder.account() {
        return builder.from_credentials(credentials).await.map_err(told);
    }
    let contact: Vec<&str> = config.contact.iter().map(String::as_str).collect();
    let account = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let (account, credentials) = builder.create(&account, config.directory.clone(), None).await.map_err(told)?;
    folder.keep_account(&credentials)?;
    Ok(account)
}

/// An error with what the authority said, which may be long and of any characters.
fn refusal(config: &AcmeConfig, reason: &str) -> AcmeError {
    let reason = reason.chars().flat_map(char::escape_debug).take(TOLD_CHARS_MAX).collect();
    AcmeError::Authority { directory: config.directory.clone(), reason }
}

fn identifier(name: &str) -> Identifier {
    match name.parse::<IpAddr>() {
        Ok(address) => Identifier::Ip(address),
        Err(_) => Identifier::Dns(name.to_ascii_lowercase()),
    }
}

/// A new key in PEM, and a request for its certificate in DER.
fn request(names: &[String]) -> Result<(String, Vec<u8>), CertificateError> {
    let fail = |error: rcgen::Error| CertificateError::Make(error.to_string());
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(fail)?;
    let mut params = CertificateParams::new(names).map_err(fail)?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&pair).map_err(fail)?;
    Ok((pair.serialize_pem(), request.der().to_vec()))
}
