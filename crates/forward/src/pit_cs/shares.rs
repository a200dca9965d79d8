//! Which face holds how much of the PIT.
//!
//! Each pending Interest is charged to the face that asked first. When the PIT is full, the face
//! with the largest share gives up its oldest entry: who floods drives out his own Interests, not
//! those of others.

use byname_wire::FaceId;

use crate::face_table::FaceMap;
use crate::pit_cs::list::{Links, List};

/// Evictions after which the face with the largest share is looked for again.
const LARGEST_KEPT_FOR: u32 = 64;

/// The shares of all faces.
#[derive(Default)]
pub struct Shares {
    faces: FaceMap<List>,
    largest: Option<FaceId>,
    kept_for: u32,
}

impl Shares {
    /// Charges a slot to a face.
    pub fn add(&mut self, links: &mut Links, face: FaceId, slot: u32) {
        self.faces.entry(face).or_default().push_front(links, slot);
    }

    /// Takes a charge back.
    pub fn remove(&mut self, links: &mut Links, face: FaceId, slot: u32) {
        let list = self.faces.get_mut(&face).expect("the slot was charged to this face");
        list.remove(links, slot);
        if list.len() == 0 {
            self.faces.remove(&face);
        }
    }

    /// The oldest slot of the face with the largest share (found anew every so many calls).
    pub fn oldest_of_largest(&mut self) -> Option<u32> {
        let kept = self.largest.filter(|_| self.kept_for < LARGEST_KEPT_FOR).and_then(|f| self.faces.get(&f));
        if let Some(list) = kept {
            self.kept_for += 1;
            return list.back();
        }
        let (&face, list) = self.faces.iter().max_by_key(|(_, list)| list.len())?;
        (self.largest, self.kept_for) = (Some(face), 0);
        list.back()
    }
}
