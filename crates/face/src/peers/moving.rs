//! Faces that move to the port of another thread, or come from there.

use byname_forward::FaceId;

use super::{PeerFace, Peers, Transport};

impl<T: Transport> Peers<T> {
    /// Whether there is room for a face from another thread.
    pub(crate) fn has_room(&self) -> bool {
        !self.places.is_full()
    }

    /// Takes a face out, with its queue.
    pub(crate) fn detach(&mut self, id: FaceId) -> Option<PeerFace<T>> {
        self.leave_place(id);
        let mut face = self.faces.remove(&id)?;
        if let Some(at) = face.timer.take() {
            self.timers.remove(&(at, id));
        }
        self.by_address.remove(&face.transport.address());
        // Its id may stay in `dirty`, where it is skipped.
        face.dirty = false;
        Some(face)
    }

    /// Goes on with a face of another thread. No other face may have its peer.
    pub(crate) fn attach(&mut self, id: FaceId, mut face: PeerFace<T>) {
        if let Some(borrowed) = self.give_back(id) {
            // This thread has sent these earlier.
            face.put_before_queue(borrowed.queue.into_iter());
        }
        self.by_address.insert(face.transport.address(), id);
        self.faces.insert(id, face);
        self.take_place(id);
        self.schedule(id);
        self.mark_dirty(id);
    }
}

impl<T> PeerFace<T> {
    /// Puts datagrams that were about to leave before the queue.
    pub(crate) fn put_before_queue(&mut self, frames: impl Iterator<Item = super::Frame>) {
        let before = self.queue.len();
        self.queue.splice(..0, frames);
        let added = self.queue.len() - before;
        self.queue_bytes += self.queue[..added].iter().map(|frame| frame.len() as u64).sum::<u64>();
    }
}
