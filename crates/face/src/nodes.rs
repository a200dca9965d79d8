//! The memory nodes of the machine (NUMA), and on which of them each packet thread works [So §2.4; Hasegawa].
//!
//! A processor reads the memory of its own node faster than that of other nodes. So a thread that is bound to a
//! processor has its tables on the node of that processor, and reads a copy of the FIB there. The system puts a page on
//! the node of the processor that writes it first. Rings and packet buffers are therefore where the thread is that
//! fills them. Tables that are made before the thread runs are written under [`on_node`].
//!
//! A thread that is not bound has no node.

use std::path::Path;
use std::sync::Once;

use crate::system;

/// Environment variable with the nodes to assume in place of the machine's own, for tests: the processors of each node
/// as the system lists them, with a semicolon between two nodes, as in `0-3,8;4-7`.
pub const VARIABLE: &str = "BYNAME_NODES";
const FOLDER: &str = "/sys/devices/system/node";
/// Numbers of processors and nodes that a list may have are below this.
const NUMBERS_MAX: usize = 1 << 16;

/// The nodes are read several times.
static WARNING: Once = Once::new();

/// A node and its processors.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    number: u32,
    processors: Vec<usize>,
}

/// The nodes with processors that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes(Vec<Node>);

impl Nodes {
    /// The nodes of this machine, or those of [`VARIABLE`]. One node if the system does not say.
    pub fn of_system() -> Self {
        let told = std::env::var(VARIABLE).ok().filter(|told| !told.is_empty());
        if let Some(told) = told {
            match Nodes::parse(&told) {
                Some(nodes) => return nodes,
                None => WARNING.call_once(|| {
                    tracing::warn!("{VARIABLE}={told} does not list processors as in 0-3;4-7: it has no effect");
                }),
            }
        }
        Nodes::read(Path::new(FOLDER), &system::processors())
    }

    /// Nodes as a list of their processors: see [`VARIABLE`]. `None` if it is no such list, or a processor is in it
    /// twice.
    pub fn parse(told: &str) -> Option<Self> {
        let lists = told.split(';').map(processors_of).collect::<Option<Vec<_>>>()?;
        let mut all: Vec<usize> = lists.iter().flatten().copied().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        let nodes = lists.into_iter().zip(0..).map(|(processors, number)| Node { number, processors });
        let nodes: Vec<_> = nodes.filter(|node| !node.processors.is_empty()).collect();
        (all.len() == count && count > 0).then_some(Nodes(nodes))
    }

    /// The nodes that a folder of the system describes, with the processors of `allowed`.
    fn read(folder: &Path, allowed: &[usize]) -> Self {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let node = |entry: std::fs::DirEntry| {
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let mut processors = processors_of(std::fs::read_to_string(entry.path().join("cpulist")).ok()?.trim())?;
            processors.retain(|processor| allowed.contains(processor));
            (!processors.is_empty()).then_some(Node { number, processors })
        };
        let mut nodes: Vec<_> = entries.filter_map(node).collect();
        nodes.sort_by_key(|node| node.number);
        let known = nodes.iter().map(|node| node.processors.len()).sum::<usize>();
        // A processor of no node, or of two: the system's description is not what it should be.
        if known != allowed.len() || nodes.is_empty() {
            return Nodes(vec![Node { number: 0, processors: allowed.to_vec() }]);
        }
        Nodes(nodes)
    }

    /// The processors of `threads` threads, and their nodes. With `pin`, each thread is bound to a processor of its own
    /// if there are several threads and enough processors. They take the first processors in the order of their
    /// numbers.
    pub fn place(&self, threads: usize, pin: bool) -> Placement {
        let of_node = |(at, node): (usize, &Node)| -> Vec<(usize, usize)> {
            node.processors.iter().map(|processor| (*processor, at)).collect()
        };
        let mut processors: Vec<_> = self.0.iter().enumerate().flat_map(of_node).collect();
        processors.sort_unstable();
        if !pin || threads < 2 || processors.len() < threads {
            return Placement::default();
        }
        let mut placement = Placement::default();
        for (processor, at) in processors.into_iter().take(threads) {
            let number = self.0[at].number;
            let replica = placement.nodes.iter().position(|known| *known == number).unwrap_or_else(|| {
                placement.nodes.push(number);
                placement.nodes.len() - 1
            });
            placement.threads.push(Place { processor, replica });
        }
        placement
    }
}

/// Parses the system's list of processors, as `0-3,8`. An empty list has none.
fn processors_of(list: &str) -> Option<Vec<usize>> {
    let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number < NUMBERS_MAX);
    let mut processors = Vec::new();
    for part in list.split(',').filter(|_| !list.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        processors.extend(first..=last);
        if first > last || processors.len() > NUMBERS_MAX {
            return None;
        }
    }
    Some(processors)
}

/// The place of a bound thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    processor: usize,
    /// Place of its node among [`Placement::nodes`].
    replica: usize,
}

/// The processors of packet threads, and their nodes. By default no thread is bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// Numbers of the nodes, in order of their first thread.
    nodes: Vec<u32>,
    /// By number of the thread; empty if threads are not bound.
    threads: Vec<Place>,
}

impl Placement {
    /// The places of `threads` threads on this machine: see [`Nodes::place`].
    pub fn on_this_machine(threads: usize, pin: bool) -> Self {
        if threads > 1 && pin { Nodes::of_system().place(threads, pin) } else { Placement::default() }
    }

    /// The processor that a thread is bound to.
    pub fn processor(&self, thread: usize) -> Option<usize> {
        self.threads.get(thread).map(|place| place.processor)
    }

    /// The number of a thread's node; `None` if it is not bound.
    pub fn node(&self, thread: usize) -> Option<u32> {
        self.threads.get(thread).map(|place| self.nodes[place.replica])
    }

    /// The nodes that have replicas of the FIB: those of all threads if these are on several nodes, and otherwise one
    /// that may be anywhere.
    pub fn replicas(&self) -> Vec<Option<u32>> {
        if self.nodes.len() > 1 { self.nodes.iter().copied().map(Some).collect() } else { vec![None] }
    }

    /// Which of [`Placement::replicas`] a thread reads.
    pub fn replica(&self, thread: usize) -> usize {
        self.threads.get(thread).map_or(0, |place| place.replica)
    }

    /// The node for the memory of a thread; `None` if all threads have the same one.
    pub fn memory_node(&self, thread: usize) -> Option<u32> {
        self.node(thread).filter(|_| self.nodes.len() > 1)
    }
}

/// Runs `work`. Memory that it writes for the first time lies on this node, if the node has room. With `None`, the
/// system decides as always.
pub fn on_node<T>(node: Option<u32>, work: impl FnOnce() -> T) -> T {
    let Some(node) = node else { return work() };
    if let Err(error) = system::prefer_node(Some(node)) {
        tracing::debug!(%error, node, "the system decides which node memory is on");
        return work();
    }
    let done = work();
    if let Err(error) = system::prefer_node(None) {
        tracing::warn!(%error, node, "memory may stay on this node");
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u32, processors: &[usize]) -> Node {
        Node { number, processors: processors.to_vec() }
    }

    #[test]
    fn lists_of_processors_are_read_as_the_system_writes_them() {
        assert_eq!(processors_of("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!((processors_of(""), processors_of("7")), (Some(vec![]), Some(vec![7])));
        for bad in ["-", "1-", "3-1", "a", "1,,2", "0-99999999999", "0-70000", "1 2"] {
            assert_eq!(processors_of(bad), None, "{bad}");
        }
        assert_eq!(Nodes::parse("0-1;2,4"), Some(Nodes(vec![node(0, &[0, 1]), node(1, &[2, 4])])));
        assert_eq!(Nodes::parse("0;;3"), Some(Nodes(vec![node(0, &[0]), node(2, &[3])])), "memory without processors");
        for bad in ["", ";", "0-1;1", "0;x"] {
            assert_eq!(Nodes::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn nodes_are_those_of_the_systems_folder_with_processors_of_ours() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |number: u32, list: &str| {
            let node = folder.path().join(format!("node{number}"));
            std::fs::create_dir_all(&node).expect("a folder");
            std::fs::write(node.join("cpulist"), list).expect("written");
        };
        let alone = |processors: &[usize]| Nodes(vec![node(0, processors)]);
        assert_eq!(Nodes::read(&folder.path().join("none"), &[0, 1]), alone(&[0, 1]));
        write(0, "0-3\n");
        write(10, "8-11\n");
        write(2, "4-7\n");
        write(3, "\n");
        std::fs::write(folder.path().join("online"), "0-3\n").expect("written");
        let nodes = |allowed: &[usize]| Nodes::read(folder.path(), allowed);
        assert_eq!(nodes(&[1, 4, 5, 9]), Nodes(vec![node(0, &[1]), node(2, &[4, 5]), node(10, &[9])]));
        assert_eq!(nodes(&[4, 5]), Nodes(vec![node(2, &[4, 5])]), "a container with processors of one node");
        assert_eq!(nodes(&[4, 12]), alone(&[4, 12]), "the folder lacks a processor");
        write(2, "garbage");
        assert_eq!(nodes(&[1, 4]), alone(&[1, 4]));
        assert!(!Nodes::of_system().0.is_empty());
    }

    #[test]
    fn threads_take_the_first_processors_and_read_the_replica_of_their_node() {
        let nodes = Nodes::parse("0,2,4;1,3,5").expect("two nodes");
        let placement = nodes.place(3, true);
        assert_eq!([0, 1, 2].map(|thread| placement.processor(thread)), [Some(0), Some(1), Some(2)]);
        assert_eq!([0, 1, 2].map(|thread| placement.replica(thread)), [0, 1, 0]);
        assert_eq!([0, 1, 2].map(|thread| placement.memory_node(thread)), [Some(0), Some(1), Some(0)]);
        assert_eq!(placement.replicas(), [Some(0), Some(1)]);
        // All threads on one of two nodes: no replicas, and no wishes about memory.
        let placement = Nodes::parse("4-7;0-3").expect("two nodes").place(4, true);
        assert_eq!((placement.replicas(), placement.node(3), placement.memory_node(3)), (vec![None], Some(1), None));
        let placement = Nodes::parse("0;1;2;3").expect("four nodes").place(4, true);
        assert_eq!(placement.replicas(), [Some(0), Some(1), Some(2), Some(3)]);
        for unbound in [nodes.place(3, false), nodes.place(1, true), nodes.place(7, true)] {
            assert_eq!(unbound, Placement::default());
            assert_eq!((unbound.replicas(), unbound.replica(2), unbound.node(0)), (vec![None], 0, None));
        }
    }

    #[test]
    fn work_is_done_whatever_the_system_says_about_the_node() {
        for node in [None, Some(0), Some(63), Some(100_000)] {
            let all = on_node(node, || vec![7u8; 1 << 20]);
            assert_eq!(all.len(), 1 << 20);
        }
    }
}
