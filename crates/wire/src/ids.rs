//! Small ids that packets carry.

use std::fmt;

/// Number of a face. It is unique for the life of the forwarder and never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(pub u64);

impl FaceId {
    /// Absent, or "the face this command came in on".
    pub const NONE: FaceId = FaceId(0);
    /// The forwarder's own management face.
    pub const INTERNAL: FaceId = FaceId(1);
    /// Reserved: "from the content store", in local fields.
    pub const CONTENT_STORE: FaceId = FaceId(254);
    /// Reserved: the face that drops all.
    pub const NULL: FaceId = FaceId(255);
    /// The first id given to an ordinary face.
    pub const FIRST: FaceId = FaceId(256);
}

impl fmt::Debug for FaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "face{}", self.0)
    }
}

impl fmt::Display for FaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
