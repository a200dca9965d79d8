//! Keys, certificates, and who may sign what.
//!
//! A packet is trusted if a chain of certificates leads from its signature to a *trust anchor*, and if the rules of that
//! anchor permit every link of the chain. The rules do not know who asks: management, and later tag updates and routing,
//! share one [`Validator`].
//!
//! - [`Certificate`], [`VerifyingKey`], [`Signer`], [`NewKey`] and [`issue()`]: certificates [NDN Certificate Format v2]
//!   and keys.
//! - [`safe_bag`]: a certificate with its encrypted private key, in the format of `ndnsec export`.
//! - [`schema`]: trust schemas in LightVerSec. [`Rule`] is a schema, or NFD's rule `hierarchical`.
//! - [`validator`]: follows chains. It has no sockets and no clock.
//! - [`Revocations`]: the list of keys and certificates that are not trusted any more.

mod certificate;
mod issue;
mod keys;
mod new_key;
mod revocations;
mod rule;

pub mod safe_bag;
pub mod schema;
mod signer;
pub mod validator;

use byname_wire::signature::KeyLocator;
use byname_wire::{Component, Name, NameRef};

pub(crate) use certificate::decode_validity_period;
pub use certificate::{Certificate, CertificateError, read_packet_file};
pub use issue::{Terms, issue};
pub use keys::{KeyError, KeyType, VerifyingKey, pem, read_private_key, wrapped_base64};
pub use new_key::NewKey;
pub use revocations::{Revocations, RevocationsError};
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
pub(crate) fn locator_names(locator: KeyLocator<'_>, key_name: &Name) -> bool {
    match locator {
        KeyLocator::Name(name) => key_name.as_ref().is_prefix_of(&name),
        KeyLocator::Digest(_) => false,
    }
}
