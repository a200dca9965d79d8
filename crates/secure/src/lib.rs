#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod acme;
pub mod certificate;
mod handshakes;
mod limits;
mod network;
mod peers;
mod quic;
mod relay;
mod shared;
mod thread;
mod tls;
mod x509;

pub use acme::AcmeConfig;
pub use byname_trust::tls::Fingerprint;
pub use certificate::{CertificateError, Files, Summary};
pub use limits::Limits;
pub use network::{Binding, NetworkKeys};
pub use peers::Trusted;
pub use thread::{Calls, Farewell, Secure, SecureConfig, Service, StartError, calls};
