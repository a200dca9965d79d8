//! Faces that are not used for a while: a routing protocol has seen that the neighbour behind one is dead, and will remove
//! its routes one by one. Until then, all names that have another nexthop go there.
//!
//! The routes do not change, and the cost does not depend on their number: [`FibWriter::suspend_face`] changes groups of
//! nexthops. Each suspension has an end, so that one that nobody ends does no harm for long.

use byname_forward::FaceId;

use super::Rib;
use crate::fib_writer::FibWriter;

impl Rib {
    /// Uses this face until then only for names without another nexthop. Returns the number of groups of nexthops that
    /// have changed.
    pub fn suspend(&mut self, fib: &mut FibWriter, face: FaceId, until_ms: u64) -> usize {
        self.suspended.insert(face, until_ms);
        fib.suspend_face(face)
    }

    /// Uses this face again. Returns the number of groups of nexthops that have changed.
    pub fn resume(&mut self, fib: &mut FibWriter, face: FaceId) -> usize {
        self.suspended.remove(&face);
        fib.resume_face(face)
    }

    pub(super) fn resume_due(&mut self, fib: &mut FibWriter, now_ms: u64) {
        let due = self.suspended.iter().filter(|(_, until)| **until <= now_ms).map(|(face, _)| *face);
        for face in due.collect::<Vec<_>>() {
            self.resume(fib, face);
        }
    }
}
