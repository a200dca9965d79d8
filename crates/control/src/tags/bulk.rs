//! The FIB of descriptors above a file: sets of tags that no application advertised.
//!
//! The file gives each set a *label*, which is a name. Packets whose tags include the set go where the route of that name leads,
//! and follow it, as rules of a bulk table do (`fib_writer::bulk`). No neighbour on a tree is told of them. While the label has no
//! route, its sets count as absent. What others advertise is beside the file: of two equal sets, packets go to both.

use std::path::Path;

use byname_lookup::file::Opening;
use byname_lookup::tagset::rare_tag::{BulkTags, Options};

use super::Labels;
use crate::fib_writer::TagFibEngine;
use crate::fib_writer::bulk::{BulkFibError, label_name};

/// An engine, and the labels of its file if it has one.
pub struct TagFib {
    /// The engine.
    pub engine: TagFibEngine,
    /// None, without a file.
    pub labels: Labels,
}

impl From<TagFibEngine> for TagFib {
    fn from(engine: TagFibEngine) -> Self {
        TagFib { engine, labels: Labels::default() }
    }
}

/// Opens a file, below descriptors of which tags are mixed with `secret`.
///
/// # Errors
/// If the file has no such table, or a label is no name.
pub fn open(path: &Path, opening: Opening, secret: u64, options: &Options) -> Result<TagFib, BulkFibError> {
    let file = |source| BulkFibError::File { path: path.to_owned(), source };
    let table = BulkTags::open(path, opening, secret, options).map_err(file)?;
    let names = table.labels().iter().map(|label| label_name(path, label)).collect::<Result<Vec<_>, _>>()?;
    tracing::info!("{} has {} sets of tags and {} labels", path.display(), table.sets(), names.len());
    let labels = Labels::new(table.translation().clone(), names);
    Ok(TagFib { engine: Box::new(table), labels })
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use byname_forward::FaceId;
    use byname_forward::tables::{Tables, TreeFace};
    use byname_lookup::Control;
    use byname_lookup::EntryId;
    use byname_lookup::oracle::Oracle;
    use byname_lookup::tagset::TagQuery;
    use byname_lookup::tagset::rare_tag::{BulkTagLoader, RareTag};
    use byname_wire::{Descriptor, Name, TreeId};

    use super::*;
    use crate::fib_writer::FibWriter;
    use crate::tags::{OwnNeighbor, OwnTree, TagLimits, TagRouting};

    fn set(text: &str) -> Descriptor {
        Descriptor::of(text.split(' ')).expect("few tags")
    }

    fn save(path: &Path, labels: &[&str], sets: &[(&str, u32)]) {
        let mut loader = BulkTagLoader::new(7);
        sets.iter().for_each(|(text, label)| loader.push(&set(text), EntryId(*label)).expect("room"));
        let labels: Vec<Box<[u8]>> = labels.iter().map(|label| label.as_bytes().into()).collect();
        loader.save(path, &labels).expect("a new file");
    }

    fn open_at(path: &Path) -> Result<TagFib, BulkFibError> {
        open(path, Opening::default(), 1, &Options::default())
    }

    /// Where packets with these tags go, on each tree.
    fn ways(tables: &Arc<Tables>, tags: &str) -> Vec<(u32, u64)> {
        let (mut reader, asked, mut ways) = (tables.reader(), set(tags), Vec::new());
        reader.begin_burst();
        reader.tag_fib().all_subsets(&TagQuery::of_tags(asked.tags()), &mut |entry| {
            let group = reader.tag_group(entry).expect("set");
            ways.extend(group.nexthops.iter().map(|TreeFace { tree, face }| (tree.0, face.0)));
            ControlFlow::Continue(())
        });
        reader.end_burst();
        ways.sort_unstable();
        ways
    }

    fn tree(id: u32, faces: &[u64]) -> OwnTree {
        let neighbors = faces.iter().map(|face| OwnNeighbor { face: FaceId(*face), keys: None }).collect();
        OwnTree { id: TreeId(id), label: None, neighbors, generation: None }
    }

    #[test]
    fn labels_lead_to_neighbours_on_their_trees_and_to_others_on_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.tags");
        save(&path, &["/up/1", "/up/2", "/up/1"], &[("a", 0), ("a b", 1), ("c", 2)]);
        let TagFib { engine, labels } = open_at(&path).expect("ours");
        let tables = Arc::new(Tables::new(Oracle::new().query()));
        tables.replace_tag_fib(engine.query());
        let fib = FibWriter::new(engine, Arc::clone(&tables));
        let mut routing = TagRouting::new(fib, TagLimits::default(), 1).with_labels(labels);
        let [one, two] = ["/up/1", "/up/2"].map(|label| label.parse::<Name>().expect("a name"));
        assert_eq!(routing.labels().collect::<Vec<_>>(), [&one, &two]);
        routing.lead(&one, vec![FaceId(300)]);
        routing.lead(&two, vec![FaceId(301), FaceId(300)]);
        routing.lead(&"/up/3".parse().expect("a name"), vec![FaceId(1)]);
        assert_eq!(ways(&tables, "a b"), [], "the router is on no tree");
        routing.replace_trees(vec![tree(1, &[]), tree(2, &[301])]);
        routing.commit();
        assert_eq!((ways(&tables, "a"), ways(&tables, "c b")), (vec![(1, 300), (2, 300)], vec![(1, 300), (2, 300)]));
        assert_eq!(ways(&tables, "a b"), [(1, 300), (1, 300), (2, 300), (2, 300), (2, 301)]);
        // Nobody is told of the file, and an application may advertise the same.
        assert!(routing.is_empty());
        routing.advertise(FaceId(302), vec![set("c")]).expect("room");
        routing.commit();
        assert_eq!(ways(&tables, "c"), [(1, 300), (1, 302), (2, 300), (2, 302)]);
        routing.lead(&one, vec![]);
        routing.commit();
        assert_eq!((ways(&tables, "a"), ways(&tables, "c")), (vec![], vec![(1, 302), (2, 302)]));

        // Another file, whose labels lead somewhere at once. What is advertised stays.
        let other = folder.path().join("y.tags");
        save(&other, &["/up/2"], &[("d", 0)]);
        let faces_of = |label: &Name| if *label == two { vec![FaceId(301)] } else { vec![] };
        routing.rebuild_fib(open_at(&other).expect("ours"), faces_of).expect("room");
        assert_eq!((ways(&tables, "d c"), ways(&tables, "a b")), (vec![(1, 302), (2, 301), (2, 302)], vec![]));
        routing.remove_face(FaceId(301));
        assert_eq!(ways(&tables, "d"), [], "the face is gone");
        // None at all.
        let plain: crate::fib_writer::TagFibEngine = Box::new(RareTag::new(1, &Options::default()).expect("little"));
        routing.rebuild_fib(plain.into(), |_| vec![]).expect("room");
        routing.commit();
        assert_eq!((ways(&tables, "d c"), routing.labels().count()), (vec![(1, 302), (2, 302)], 0));
    }

    #[test]
    fn an_engine_that_refuses_leaves_the_labels_as_they_were() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.tags");
        save(&path, &["/up/1"], &[("a", 0)]);
        let TagFib { engine, labels } = open_at(&path).expect("ours");
        let tables = Arc::new(Tables::new(Oracle::new().query()));
        tables.replace_tag_fib(engine.query());
        let fib = FibWriter::new(engine, Arc::clone(&tables));
        let mut routing = TagRouting::new(fib, TagLimits::default(), 1).with_labels(labels);
        routing.replace_trees(vec![tree(1, &[])]);
        routing.lead(&"/up/1".parse().expect("a name"), vec![FaceId(300)]);
        routing.advertise(FaceId(302), vec![set("b"), set("c")]).expect("room");
        routing.commit();
        let small = Options { descriptors_max: 1, ..Options::default() };
        let refused =
            routing.rebuild_fib(open(&path, Opening::default(), 1, &small).expect("ours"), |_| vec![FaceId(301)]);
        assert!(refused.is_err());
        routing.lead(&"/up/1".parse().expect("a name"), vec![FaceId(303)]);
        routing.commit();
        assert_eq!((ways(&tables, "a"), ways(&tables, "b")), (vec![(1, 303)], vec![(1, 302)]));
    }

    #[test]
    fn labels_that_are_no_names_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.tags");
        for label in ["upstream", "", "/%"] {
            save(&path, &["/up/1", label], &[("a", 1)]);
            assert!(matches!(open_at(&path), Err(BulkFibError::Label { .. })), "{label:?}");
        }
        assert!(matches!(open_at(&folder.path().join("none")), Err(BulkFibError::File { .. })));
    }
}
