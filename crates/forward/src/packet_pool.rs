//! Packet buffers: taken from a pool, shared by count, given back on drop.
//!
//! A [`Packet`] is a stretch of a pooled buffer. Cloning shares it: the content store keeps the
//! very buffer that the port received into [So §2.5]. Buffers come in a few size classes; each
//! thread keeps a bounded stock of free ones, so that the path of a packet neither locks nor
//! allocates.

use std::cell::RefCell;
use std::ops::{Deref, Range};
use std::sync::Arc;

use byname_lookup::prefetch;

/// Capacities of buffers, in octets. The last holds the largest packet and its link header.
const CLASS_BYTES: [usize; 6] = [256, 640, 1280, 2304, 4608, 9216];
/// Memory that a packet takes, at least.
pub(crate) const MIN_BUFFER_BYTES: usize = CLASS_BYTES[0];
/// Free buffers that a thread keeps in each class.
const FREE_MAX: usize = 1024;

/// Its counts of shares stand before the octets, in the same stretch of memory.
type Buffer = Arc<[u8]>;

thread_local! {
    static FREE: RefCell<[Vec<Buffer>; CLASS_BYTES.len()]> = const { RefCell::new([const { Vec::new() }; CLASS_BYTES.len()]) };
}

fn class_of(len: usize) -> Option<usize> {
    CLASS_BYTES.iter().position(|&c| len <= c)
}

/// A packet: read-only while shared.
#[derive(Clone)]
pub struct Packet {
    /// `None`: there are no octets.
    buffer: Option<Buffer>,
    start: u32,
    end: u32,
}

impl Packet {
    /// No packet: no octets, and no buffer.
    pub(crate) const EMPTY: Packet = Packet { buffer: None, start: 0, end: 0 };

    /// A packet holding a copy of `octets`.
    ///
    /// # Panics
    /// If there are more than the largest buffer holds (9,216).
    pub fn copy_from(octets: &[u8]) -> Packet {
        Packet::build(octets.len(), |buffer| buffer.copy_from_slice(octets))
    }

    /// A packet of `len` octets, written by `fill` (what it leaves is unspecified).
    ///
    /// # Panics
    /// If `len` is above 9,216.
    pub fn build(len: usize, fill: impl FnOnce(&mut [u8])) -> Packet {
        let class = class_of(len).expect("caller keeps packets within 9,216 octets");
        let mut buffer = FREE
            .with_borrow_mut(|free| free[class].pop())
            .unwrap_or_else(|| std::iter::repeat_n(0, CLASS_BYTES[class]).collect());
        let octets = Arc::get_mut(&mut buffer).expect("buffers in stock are not shared");
        fill(&mut octets[..len]);
        Packet { buffer: Some(buffer), start: 0, end: len as u32 }
    }

    /// The same buffer, narrowed to `range` of this packet.
    pub fn slice(mut self, range: Range<usize>) -> Packet {
        assert!(range.start <= range.end && range.end <= self.len());
        self.end = self.start + range.end as u32;
        self.start += range.start as u32;
        self
    }

    /// This packet; what stays in its place is empty.
    pub(crate) fn take(&mut self) -> Packet {
        std::mem::take(self)
    }

    /// The octets, if nobody else holds this packet's buffer.
    pub fn unshared_mut(&mut self) -> Option<&mut [u8]> {
        let range = self.start as usize..self.end as usize;
        Some(&mut Arc::get_mut(self.buffer.as_mut()?)?[range])
    }

    /// Memory that this packet's buffer takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, |b| b.len())
    }

    /// Asks the memory for the first `len` octets, and for the count of shares.
    pub(crate) fn prefetch(&self, len: usize) {
        if let Some(buffer) = &self.buffer {
            let end = buffer.len().min(self.start as usize + len);
            prefetch::read_all(&buffer[..end]);
        }
    }
}

/// No packet.
impl Default for Packet {
    fn default() -> Self {
        Packet::EMPTY
    }
}

impl Deref for Packet {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer[self.start as usize..self.end as usize],
            None => &[],
        }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        // Two threads that drop the last two shares at once both see a share left, and the buffer
        // goes back to the allocator instead of the stock: harmless. A share that is alone stays so;
        // what others did with theirs has happened before when `build` takes it from the stock.
        if Arc::strong_count(&buffer) != 1 {
            return;
        }
        let class = class_of(buffer.len()).expect("capacities are those of the classes");
        // `try_with`: a packet may outlive its thread's stock at thread exit.
        let _ = FREE.try_with(|free| {
            if let Ok(mut free) = free.try_borrow_mut()
                && free[class].len() < FREE_MAX
            {
                free[class].push(buffer);
            }
        });
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet({} octets)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_used_again() {
        let first = Packet::copy_from(b"one");
        let address = first.as_ptr();
        drop(first);
        assert_eq!(Packet::copy_from(b"two").as_ptr(), address);
    }

    #[test]
    fn a_shared_buffer_is_read_only_until_the_last_share() {
        let mut packet = Packet::copy_from(b"abcdef");
        let share = packet.clone().slice(1..3);
        assert_eq!(&*share, b"bc");
        assert!(packet.unshared_mut().is_none());
        drop(share);
        packet.unshared_mut().expect("the only share")[0] = b'x';
        assert_eq!(&*packet, b"xbcdef");
    }
}
