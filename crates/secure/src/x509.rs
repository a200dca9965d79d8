//! What a certificate says of itself.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// From when until when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) begin: SystemTime,
    pub(crate) end: SystemTime,
}

/// The time of a certificate. `None`: it has an odd form.
pub(crate) fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let of = certificate.validity();
    let time = |seconds: i64| Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?));
    Some(Validity { begin: time(of.not_before.timestamp())?, end: time(of.not_after.timestamp())? })
}

/// Whether a certificate has all of these names and addresses. If not, says which it lacks.
pub(crate) fn check_names(certificate: &CertificateDer<'_>, names: &[String]) -> Result<(), String> {
    let odd = || "it is not in the form of X.509".to_owned();
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| odd())?;
    let alternatives = certificate.subject_alternative_name().map_err(|_| odd())?;
    let has = |name: &String| {
        let address = name.parse::<IpAddr>().ok().map(|address| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        });
        alternatives.as_ref().is_some_and(|of| {
            of.value.general_names.iter().any(|has| match (has, &address) {
                (GeneralName::IPAddress(bytes), Some(address)) => bytes == address,
                (GeneralName::DNSName(has), None) => has.eq_ignore_ascii_case(name),
                _ => false,
            })
        })
    };
    match names.iter().find(|name| !has(name)) {
        Some(lacks) => Err(format!("it is not for {lacks}")),
        None => Ok(()),
    }
}
