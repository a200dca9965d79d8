//! Names that are hashed in two steps: down to the first probe, and deeper if that finds something.
//!
//! Pays if few names have deep rules and nobody needs their other hashes. The router does, for the
//! PIT, so only measurements and tests look up this way.

use byname_wire::{NameHashKey, NameRef, NameView, PrefixHashes};
use smallvec::SmallVec;

use super::{Query, Search, fattest};
use crate::prefix::hash_room::{HashRoom, views};
use crate::prefix::{BURST_MAX, PrefixFib, PrefixMatch};

/// Up to this many components are hashed together, because leaving some out does not pay.
const HASHED_TOGETHER: usize = 4;
/// If one in this many names has a deep rule, hashing in two steps does not pay.
const DEEP_SHARE: usize = 8;

impl Query {
    /// If few names of the last burst had a deep rule, hashes names only down to the first probe,
    /// and deeper if that finds something.
    pub(super) fn longest_match_hashing(
        &self,
        key: &NameHashKey,
        names: &[NameRef<'_>],
        room: &mut HashRoom,
        out: &mut [Option<PrefixMatch>],
    ) {
        let depth_max = self.depth_max();
        // The first probe of all names with at least this depth.
        let first = fattest(0, depth_max.max(1));
        let no_gain = depth_max <= HASHED_TOGETHER || first == depth_max || self.exact.is_some();
        let at_once = no_gain || room.deep;
        let hashes = room.hashes(names.len());
        if at_once {
            PrefixHashes::fill_burst_to(depth_max, key, names, hashes);
            self.longest_match_burst(&views(names, hashes), out);
        } else {
            self.longest_match_in_steps((first, depth_max), key, names, hashes, out);
        }
        let deep = out.iter().flatten().filter(|found| found.depth >= first).count();
        room.deep = deep * DEEP_SHARE > names.len();
    }

    /// Hashes names down to the first probe's depth, and those for which it found something down to
    /// the deepest rule.
    fn longest_match_in_steps(
        &self,
        (first, depth_max): (usize, usize),
        key: &NameHashKey,
        names: &[NameRef<'_>],
        hashes: &mut [PrefixHashes],
        out: &mut [Option<PrefixMatch>],
    ) {
        assert_eq!(names.len(), out.len());
        PrefixHashes::fill_burst_to(first, key, names, hashes);
        let begun = views(names, hashes);
        let mut searches = self.begin_all(&begun);
        // Read after the change counters, so that a deeper rule that came before them is noticed below.
        let deepest = self.depth_max();
        for (i, (begun, name)) in begun.iter().zip(names).enumerate() {
            searches.searches[i].cut = begun.name().value().len() < name.value().len();
        }
        self.search_all(&begun, &mut searches);
        let waiting: SmallVec<[usize; BURST_MAX]> = (0..names.len()).filter(|i| searches.searches[*i].waits).collect();
        drop(begun);
        PrefixHashes::go_on_burst_to(depth_max, key, names, hashes, waiting.iter().copied());
        let further = views(names, hashes);
        for i in waiting {
            searches.active[searches.left] = i as u8;
            searches.left += usize::from(self.resume(&further[i], &mut searches.searches[i]));
        }
        self.search_all(&further, &mut searches);
        let mut outdated = SmallVec::<[usize; BURST_MAX]>::new();
        for (i, (name, found)) in further.iter().zip(&mut *out).enumerate() {
            *found = self.answer(name, &searches.searches[i]);
            // If a deeper rule arrived meanwhile, the first probe may have another depth.
            if self.is_outdated(name, searches.changes[i]) || deepest > depth_max {
                outdated.push(i);
            }
        }
        drop(further);
        for i in outdated {
            out[i] = self.longest_match(&NameView::new(key, names[i], &mut hashes[i]));
        }
    }

    /// Continues a search that waited, now that `name` is hashed down to the deepest rule. Returns
    /// whether there is a probe to make.
    #[inline(always)]
    fn resume(&self, name: &NameView<'_>, search: &mut Search) -> bool {
        (search.cut, search.waits, search.high) = (false, false, name.len() as u8);
        let depth = usize::from(search.handle) + search.candidate.extent();
        let mask = self.shared.fingerprint_mask;
        match depth <= name.len() && search.candidate.is_of(name.check(depth), mask) {
            true => self.descend(name, search, search.candidate),
            // The line does not have it, or has one that only looked alike. Probe it again.
            false => true,
        }
    }
}
