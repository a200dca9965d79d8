//! Names: converts bytes and text to a name, to a URI and back. Compares prefix hashes with `siphasher`.
#![no_main]

use std::hash::Hasher;

use byname_wire::{Name, NameHashKey, NameRef, NameView, PrefixHashes};
use libfuzzer_sys::fuzz_target;
use siphasher::sip128::{Hasher128, SipHasher13};

fn check(name: NameRef<'_>) {
    assert_eq!(name.to_string().parse::<Name>(), Ok(name.to_name()));
    assert_eq!(Name::from_components(name.components()), name.to_name());
    let mut prefixes = PrefixHashes::default();
    let view = NameView::new(&NameHashKey::new([3, 4]), name, &mut prefixes);
    assert_eq!(view.len(), name.len());
    for depth in 0..=view.len() {
        let prefix = view.prefix(depth);
        assert!(prefix.is_prefix_of(&name) && prefix <= name && prefix == name.prefix(depth));
        let mut reference = SipHasher13::new_with_keys(3, 4);
        reference.write(prefix.value());
        let reference = reference.finish128();
        assert_eq!((view.hash(depth), view.check(depth)), (reference.h1, reference.h2));
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(name) = NameRef::new(bytes) {
        check(name);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(name) = text.parse::<Name>()
    {
        assert_eq!(NameRef::new(name.value()), Ok(name.as_ref()));
        check(name.as_ref());
    }
});
