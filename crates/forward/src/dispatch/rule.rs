//! The home of a name by its hash.

use byname_wire::name::component_type;
use byname_wire::name_hash::digest_name;
use byname_wire::{NameHashKey, NameRef, NameView};

/// How a hash selects the homes of names.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    key: NameHashKey,
    workers: usize,
    /// Number of components that select the home.
    components: usize,
}

impl Rule {
    pub(super) fn new(key: NameHashKey, workers: usize, components: usize) -> Self {
        Rule { key, workers, components }
    }

    /// The dispatchers' key. That of a worker may be another one.
    pub(super) fn key(&self) -> &NameHashKey {
        &self.key
    }

    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    pub(super) fn components(&self) -> usize {
        self.components
    }

    /// Number of components that select the home of a name.
    pub fn deciding_depth(&self, name: NameRef<'_>) -> usize {
        let mut components = name.components();
        let (mut depth, mut is_digest) = (0, false);
        for component in components.by_ref().take(self.components) {
            depth += 1;
            is_digest = component.typ == component_type::IMPLICIT_SHA256_DIGEST;
        }
        depth - usize::from(is_digest && components.next().is_none())
    }

    /// As [`Rule::deciding_depth`], for a name whose components' ends are known.
    #[inline]
    pub fn deciding_depth_of(&self, name: &NameView<'_>) -> usize {
        (name.len() - usize::from(name.ends_in_implicit_digest())).min(self.components)
    }

    /// What selects the home of a name that is hashed under `key`, at least at its deciding depth.
    #[inline]
    pub fn check(&self, name: &NameView<'_>, key: &NameHashKey) -> u64 {
        let depth = self.deciding_depth_of(name);
        if *key == self.key { name.check(depth) } else { digest_name(&self.key, name.prefix(depth)).check }
    }

    /// As [`Rule::check`], for a name that is not hashed.
    pub(super) fn check_of(&self, name: NameRef<'_>) -> u64 {
        digest_name(&self.key, name.prefix(self.deciding_depth(name))).check
    }

    /// Uses the second half of the digest, because the PIT and CS take their buckets and tags from the first.
    #[inline]
    pub(super) fn worker_of(&self, check: u64) -> usize {
        (((check >> 32) * self.workers as u64) >> 32) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use byname_wire::{Name, PrefixHashes};

    use super::*;

    #[test]
    fn a_digest_at_the_end_selects_no_home_and_one_elsewhere_does() {
        let digest = format!("sha256digest={}", "ab".repeat(32));
        let key = NameHashKey::new([1, 2]);
        for (text, whole) in [
            ("/".to_string(), 0),
            ("/a".to_string(), 1),
            ("/a/b/c".to_string(), 3),
            (format!("/a/{digest}"), 1),
            (format!("/{digest}"), 0),
            (format!("/a/{digest}/b"), 3),
            (format!("/a/{digest}/{digest}"), 2),
        ] {
            let name: Name = text.parse().expect("a name");
            let mut hashes = PrefixHashes::default();
            let view = NameView::new(&key, name.as_ref(), &mut hashes);
            for components in 1..5 {
                let rule = Rule::new(key, 2, components);
                let depth = rule.deciding_depth(name.as_ref());
                assert_eq!(depth, whole.min(components), "{text}");
                assert_eq!(rule.deciding_depth_of(&view), depth, "{text}");
                assert_eq!(rule.check(&view, &key), rule.check_of(name.as_ref()));
                assert_eq!(rule.check(&view, &NameHashKey::new([3, 4])), rule.check_of(name.as_ref()));
            }
        }
    }
}
