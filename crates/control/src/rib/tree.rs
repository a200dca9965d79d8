//! The RIB as a tree of names, a page at a time, and a search through all names in bounded steps.
//!
//! Names with a common prefix are adjacent, and so are the names below each of its children. A page therefore costs a
//! few steps of the map for each child, and never a walk through all names.

use std::ops::Bound;
use std::sync::Arc;

use byname_lookup::EntryId;
use byname_wire::{Name, NameRef};

use super::{ListedRoute, Rib, RibEntryRef};

/// Most names below a child that are counted.
pub const BELOW_MAX: usize = 100;

/// A child of a prefix in the tree of names. It may have no routes of its own, but only names below it.
#[derive(Debug, Clone)]
pub struct Branch {
    /// Its name: that of the prefix, and one component more.
    pub name: Name,
    /// Its own routes.
    pub routes: Vec<ListedRoute>,
    /// The group of its rule in the FIB, if there is one.
    pub group: Option<EntryId>,
    /// Number of names below it that have routes, up to [`BELOW_MAX`].
    pub below: usize,
}

/// A part of a list, and where the next part begins.
#[derive(Debug, Clone)]
pub struct Page<T, P> {
    /// The items.
    pub items: Vec<T>,
    /// The place after which the list goes on. `None`: it ends here.
    pub next: Option<P>,
}

impl Rib {
    /// The first `count_max` children of a prefix that come after the child `after`.
    pub fn branches(&self, prefix: NameRef<'_>, after: Option<NameRef<'_>>, count_max: usize) -> Page<Branch, Name> {
        let mut from = match after {
            Some(child) => after_all_below(child.value()),
            None => Some(Bound::Excluded(prefix.value().to_vec())),
        };
        let mut items: Vec<Branch> = Vec::new();
        while let Some(bound) = from.take() {
            let Some((key, _)) = self.entries.range::<[u8], _>((as_slice(&bound), Bound::Unbounded)).next() else {
                break;
            };
            if !key.starts_with(prefix.value()) {
                break;
            }
            if items.len() == count_max {
                let last = items.last().map(|last| last.name.clone());
                return Page { items, next: last };
            }
            let child = NameRef::new(key).expect("the RIB's keys are names").prefix(prefix.len() + 1);
            from = after_all_below(child.value());
            items.push(self.branch(child));
        }
        Page { items, next: None }
    }

    /// What is at a name, and how much is below it.
    pub fn branch(&self, name: NameRef<'_>) -> Branch {
        let entry = self.entries.get_key_value(name.value());
        let own = entry.map(|(key, entry)| RibEntryRef { rib: self, name: key, entry });
        let later = self.entries.range::<[u8], _>((Bound::Excluded(name.value()), Bound::Unbounded));
        Branch {
            name: name.to_name(),
            routes: own.as_ref().map(|own| own.routes().collect()).unwrap_or_default(),
            group: own.and_then(|own| own.group()),
            below: later.take_while(|(key, _)| key.starts_with(name.value())).take(BELOW_MAX).count(),
        }
    }

    /// Names at or below `prefix` that contain these bytes, after the name of the key `after`. Examines at most
    /// `steps_max` names and finds at most `found_max`.
    pub fn find(
        &self,
        prefix: NameRef<'_>,
        part: &[u8],
        after: Option<&[u8]>,
        (found_max, steps_max): (usize, usize),
    ) -> Page<Branch, Arc<[u8]>> {
        let from = after.map_or(Bound::Included(prefix.value()), Bound::Excluded);
        let mut items = Vec::new();
        for (step, (key, _)) in self.entries.range::<[u8], _>((from, Bound::Unbounded)).enumerate() {
            if !key.starts_with(prefix.value()) {
                break;
            }
            if contains(&key[prefix.value().len()..], part) {
                items.push(self.branch(NameRef::new(key).expect("the RIB's keys are names")));
            }
            if items.len() == found_max || step + 1 == steps_max {
                return Page { items, next: Some(Arc::clone(key)) };
            }
        }
        Page { items, next: None }
    }
}

/// The place after a name and all names below it. `None`: there can be nothing.
fn after_all_below(name: &[u8]) -> Option<Bound<Vec<u8>>> {
    let mut beyond = name.to_vec();
    while let Some(last) = beyond.last_mut() {
        match last.checked_add(1) {
            Some(more) => {
                *last = more;
                return Some(Bound::Included(beyond));
            }
            None => drop(beyond.pop()),
        }
    }
    None
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(bytes) => Bound::Included(bytes),
        Bound::Excluded(bytes) => Bound::Excluded(bytes),
        Bound::Unbounded => Bound::Unbounded,
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use byname_forward::FaceId;
    use byname_forward::tables::Tables;
    use byname_lookup::oracle::Oracle;
    use byname_lookup::update::Control;

    use super::super::Route;
    use super::*;
    use crate::fib_writer::FibWriter;

    fn name(uri: &str) -> Name {
        uri.parse().expect("a test's own name")
    }

    /// A RIB with a route for each name.
    fn rib(uris: &[&str]) -> Rib {
        let engine = Oracle::new();
        let tables = Arc::new(Tables::new(engine.query()));
        let (mut fib, mut rib) = (FibWriter::new(Box::new(engine), tables), Rib::new(usize::MAX));
        let route = Route { face: FaceId(300), origin: 255, cost: 7, flags: 1, expires_at_ms: None };
        for uri in uris {
            rib.register(&mut fib, name(uri).as_ref(), &route).expect("there is room");
        }
        rib
    }

    fn listed(page: &Page<Branch, Name>) -> Vec<(String, usize, usize)> {
        page.items.iter().map(|branch| (branch.name.to_string(), branch.routes.len(), branch.below)).collect()
    }

    fn expected(branches: &[(&str, usize, usize)]) -> Vec<(String, usize, usize)> {
        branches.iter().map(|(name, routes, below)| ((*name).to_owned(), *routes, *below)).collect()
    }

    #[test]
    fn each_page_has_the_next_children() {
        let rib = rib(&["/", "/a", "/a/b/c", "/a/b/d", "/b/x", "/bb", "/%FF/y"]);
        let root = Name::default();
        let all = rib.branches(root.as_ref(), None, 10);
        assert_eq!(listed(&all), expected(&[("/a", 1, 2), ("/b", 0, 1), ("/%FF", 0, 1), ("/bb", 1, 0)]));
        assert!(all.next.is_none());
        let first = rib.branches(root.as_ref(), None, 3);
        let next = first.next.clone().expect("there are more");
        assert_eq!(listed(&first), listed(&all)[..3]);
        assert_eq!(listed(&rib.branches(root.as_ref(), Some(next.as_ref()), 3)), expected(&[("/bb", 1, 0)]));
        assert!(rib.branches(root.as_ref(), None, 4).next.is_none(), "the last page is known to be the last");
        assert_eq!(listed(&rib.branches(name("/a").as_ref(), None, 9)), expected(&[("/a/b", 0, 2)]));
        assert_eq!(
            listed(&rib.branches(name("/a/b").as_ref(), None, 9)),
            expected(&[("/a/b/c", 1, 0), ("/a/b/d", 1, 0)])
        );
        assert!(rib.branches(name("/a/b/c").as_ref(), None, 9).items.is_empty());
        assert!(rib.branches(name("/nothing").as_ref(), None, 9).items.is_empty());
    }

    #[test]
    fn what_is_below_is_counted_up_to_a_limit() {
        let uris: Vec<String> = (0..300).map(|n| format!("/many/{n}")).collect();
        let rib = rib(&uris.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(rib.branch(name("/many").as_ref()).below, BELOW_MAX);
        assert_eq!(rib.branch(Name::default().as_ref()).below, BELOW_MAX);
    }

    #[test]
    fn a_search_goes_on_where_it_stopped() {
        let rib = rib(&["/a/video", "/b/videos/x", "/c", "/d/my-video", "/e/VIDEO"]);
        let (mut found, mut after, mut steps) = (Vec::new(), None, 0);
        loop {
            let page = rib.find(Name::default().as_ref(), b"video", after.as_deref(), (10, 2));
            found.extend(page.items.iter().map(|branch| branch.name.to_string()));
            steps += 1;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(found, ["/a/video", "/b/videos/x", "/d/my-video"]);
        assert_eq!(steps, 3);
        let one = rib.find(Name::default().as_ref(), b"video", None, (1, 100));
        assert_eq!((one.items.len(), one.next.is_some()), (1, true));
        let below = rib.find(name("/b").as_ref(), b"", None, (10, 100));
        assert_eq!(below.items.len(), 1);
        assert!(
            rib.find(name("/b").as_ref(), b"b", None, (10, 100)).items.is_empty(),
            "the prefix itself does not count"
        );
    }
}
