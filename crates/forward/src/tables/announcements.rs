//! Prefix announcements that are ready to be sent with Data.

use std::collections::BTreeMap;
use std::sync::Arc;

use byname_wire::{Name, NameRef};

/// Announcements of some prefixes, at most one for each.
#[derive(Debug, Default)]
pub struct Announcements {
    /// Data packets by the encoded prefix.
    by_prefix: BTreeMap<Box<[u8]>, Arc<[u8]>>,
    deepest: usize,
}

impl Announcements {
    /// Takes announcements of prefixes. The last of several for one prefix counts.
    pub fn new(announcements: impl IntoIterator<Item = (Name, Arc<[u8]>)>) -> Self {
        let mut all = Announcements::default();
        for (prefix, packet) in announcements {
            all.deepest = all.deepest.max(prefix.as_ref().len());
            all.by_prefix.insert(prefix.value().into(), packet);
        }
        all
    }

    /// The announcement of the longest prefix of a name.
    pub fn covering(&self, name: NameRef<'_>) -> Option<&Arc<[u8]>> {
        let deepest = name.len().min(self.deepest);
        (0..=deepest).rev().find_map(|depth| self.by_prefix.get(name.prefix(depth).value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_announces() {
        let name = |uri: &str| uri.parse::<Name>().expect("a name in a test");
        let of = |uri: &str| (name(uri), Arc::from(uri.as_bytes()));
        let all = Announcements::new([of("/a"), of("/a/b/c"), of("/d/e")]);
        let found = |uri: &str| all.covering(name(uri).as_ref()).map(|packet| packet.to_vec());
        assert_eq!(found("/a/b"), Some(b"/a".to_vec()));
        assert_eq!(found("/a/b/c"), Some(b"/a/b/c".to_vec()));
        assert_eq!(found("/a/b/c/d/e"), Some(b"/a/b/c".to_vec()));
        assert_eq!(found("/d"), None);
        assert_eq!(found("/"), None);
    }
}
