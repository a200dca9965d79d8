//! Which key may sign which packet.

use std::sync::Arc;

use byname_wire::NameRef;

use super::has_key_at;
use super::schema::Schema;

/// Components of a certificate's name after the identity: KEY, the key's id, the issuer and the version.
const CERTIFICATE_SUFFIX: usize = 4;

/// The rule that each link of a chain must keep.
#[derive(Debug, Clone)]
pub enum Rule {
    /// NFD's rule `hierarchical`: a key may sign what is at or below its identity.
    Hierarchical,
    /// A trust schema.
    Schema(Arc<Schema>),
}

impl Rule {
    /// Whether the key of this certificate may sign a packet with this name.
    pub fn permits(&self, packet: NameRef<'_>, certificate: NameRef<'_>) -> bool {
        match self {
            Rule::Hierarchical => is_below(packet, certificate, CERTIFICATE_SUFFIX),
            Rule::Schema(schema) => schema.permits(packet, certificate),
        }
    }

    /// Whether some certificate that a KeyLocator may mean would be permitted. The locator is the prefix of a
    /// certificate's name. If this is false, the certificate need not be fetched.
    pub fn may_permit(&self, packet: NameRef<'_>, locator: NameRef<'_>) -> bool {
        match self {
            // The locator may be the name of a key, or that of a certificate with or without its version.
            Rule::Hierarchical => (2..=CERTIFICATE_SUFFIX).any(|suffix| is_below(packet, locator, suffix)),
            Rule::Schema(schema) => schema.may_permit(packet, locator),
        }
    }
}

/// Whether a packet is at or below the identity of a key. `suffix` is the number of components after the identity.
fn is_below(packet: NameRef<'_>, key: NameRef<'_>, suffix: usize) -> bool {
    has_key_at(key, suffix) && key.prefix(key.len() - suffix).is_prefix_of(&packet)
}

#[cfg(test)]
mod tests {
    use byname_wire::Name;

    use super::*;

    fn names(uris: [&str; 2]) -> [Name; 2] {
        uris.map(|uri| uri.parse().expect("a name"))
    }

    #[test]
    fn hierarchical_keys_sign_what_is_below_their_identity() {
        for (packet, certificate, permits) in [
            ("/net/alice/file", "/net/alice/KEY/1/self/v=1", true),
            ("/net/alice", "/net/alice/KEY/1/self/v=1", true),
            ("/net/alice/KEY/1/net/v=1", "/net/KEY/1/self/v=1", true),
            ("/net/alicia/file", "/net/alice/KEY/1/self/v=1", false),
            ("/net", "/net/alice/KEY/1/self/v=1", false),
            ("/net/KEY/1/x/v=1", "/net/alice/KEY/1/self/v=1", false),
            ("/net/alice/KEY/b/c", "/net/alice/KEY/b/KEY/1/self/v=1", true),
            ("/net/alice/file", "/net/alice/KEY/b/KEY/1/self/v=1", false),
            ("/net/alice/file", "/net/alice/KEY/KEY/KEY/KEY", true),
            ("/net/file", "/net/alice/KEY/KEY/KEY/KEY", false),
        ] {
            let [packet, certificate] = names([packet, certificate]);
            assert_eq!(Rule::Hierarchical.permits(packet.as_ref(), certificate.as_ref()), permits, "{packet}");
            // A locator may mean several certificates: it is refused only if none of them is permitted.
            for depth in [0, 1, 2] {
                let locator = certificate.as_ref().prefix(certificate.as_ref().len() - depth);
                let may = Rule::Hierarchical.may_permit(packet.as_ref(), locator);
                assert!(may || !permits, "{packet} {depth}");
            }
        }
        for (packet, locator) in [("/net/alicia", "/net/alice/KEY/1"), ("/net", "/net/alice/KEY/1/x")] {
            let [packet, locator] = names([packet, locator]);
            assert!(!Rule::Hierarchical.may_permit(packet.as_ref(), locator.as_ref()), "{packet}");
        }
        let [packet, locator] = names(["/net/alice/file", "/net/alice"]);
        assert!(!Rule::Hierarchical.may_permit(packet.as_ref(), locator.as_ref()), "it names no key");
    }
}
