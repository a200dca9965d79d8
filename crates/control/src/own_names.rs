//! Names that belong to the management of this router.

use byname_wire::{Name, NameRef};

/// Management prefix for requesters on this host.
pub fn localhost_prefix() -> Name {
    "/localhost/nfd".parse().expect("a literal name")
}

/// Management prefix for neighbours, and that of the hub.
pub fn localhop_prefix() -> Name {
    "/localhop/nfd".parse().expect("a literal name")
}

/// Whether a name is at or below one of the management prefixes.
pub fn is_own_name(name: NameRef<'_>) -> bool {
    [localhost_prefix(), localhop_prefix()].iter().any(|own| own.as_ref().is_prefix_of(&name))
}
