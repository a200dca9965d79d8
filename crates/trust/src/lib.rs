// Links that lead to source files in README.md lead to documentation on this page.
//! [`validator`]: validator
//! [`schema`]: schema
//! [`safe_bag`]: safe_bag
//! [`rights`]: rights
//! [`tls`]: tls
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod certificate;
mod issue;
mod keys;
mod moment;
mod new_key;
mod revocations;
pub mod rights;
mod rule;
pub mod safe_bag;
pub mod schema;
mod signer;
pub mod tls;
pub mod validator;

use byname_wire::signature::KeyLocator;
use byname_wire::{Component, Name, NameRef};

pub use certificate::decode_validity_period;
pub use certificate::{Certificate, CertificateError, read_packet_file};
pub use issue::{Terms, issue, issue_bound};
pub use keys::{KeyError, KeyType, VerifyingKey, pem, read_private_key, wrapped_base64};
pub use moment::Moment;
pub use new_key::NewKey;
pub use revocations::{Revocations, RevocationsError};
pub use rights::Rights;
pub use rule::Rule;
pub use signer::{Signer, SignerError};
pub use validator::Validator;

/// The component of key names that stands before the key's id.
pub const KEY_COMPONENT: Component<'static> = Component { typ: 8, value: b"KEY" };

/// The identity to which a key belongs. `name` is that of the key, `/<identity>/KEY/<key id>`, or of its certificate,
/// `/<identity>/KEY/<key id>/<issuer>/<version>`. A name of another form is the identity itself.
pub fn identity_of_key(name: NameRef<'_>) -> Name {
    name.prefix(name.len() - [2, 4].into_iter().find(|back| has_key_at(name, *back)).unwrap_or(0)).to_name()
}

/// Whether the component so many places from the end is that before a key's id.
fn has_key_at(name: NameRef<'_>, back: usize) -> bool {
    name.component(-(back as isize)) == Some(KEY_COMPONENT)
}

/// Whether a locator names this key or one of its certificates.
pub fn locator_names(locator: KeyLocator<'_>, key_name: &Name) -> bool {
    match locator {
        KeyLocator::Name(name) => key_name.as_ref().is_prefix_of(&name),
        KeyLocator::Digest(_) => false,
    }
}
