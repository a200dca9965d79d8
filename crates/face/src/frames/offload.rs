//! Completes work that a sender on this host leaves to its network card. A virtio header before the frame describes
//! this work.
//!
//! No card is at the end of a virtual cable. So its reader gets frames without computed checksums, and frames that were
//! to be cut into several.

/// Bytes of the virtio header: flags, how to cut, two lengths for that, the start of the checksummed bytes, and the
/// checksum's offset among these. Numbers are in this processor's byte order.
pub(super) const VIRTIO_HEADER_BYTES: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;

/// Completes a frame's checksum if the sender left it. Returns whether the frame has still to be cut.
pub(super) fn finish(frame: &mut [u8], virtio: [u8; VIRTIO_HEADER_BYTES]) -> bool {
    let [flags, cutting, .., start_0, start_1, place_0, place_1] = virtio;
    let start = usize::from(u16::from_ne_bytes([start_0, start_1]));
    let place = usize::from(u16::from_ne_bytes([place_0, place_1]));
    if flags & NEEDS_CHECKSUM != 0
        && let Some(covered) = frame.get_mut(start..).filter(|covered| place + 2 <= covered.len())
    {
        // The bytes in the checksum's place count too: the sender has put the pseudo-header's sum there.
        let checksum = match !sum(covered) {
            // A checksum of zero would mean that there is none.
            0 => u16::MAX,
            checksum => checksum,
        };
        covered[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    cutting != 0
}

/// Sum of the Internet checksum: 16-bit words with end-around carry.
pub(super) fn sum(bytes: &[u8]) -> u16 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let last = odd.first().map_or(0, |&byte| u64::from(byte) << 8);
    let mut sum = pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum::<u64>() + last;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn virtio(flags: u8, cutting: u8, start: u16, place: u16) -> [u8; VIRTIO_HEADER_BYTES] {
        let (start, place) = (start.to_ne_bytes(), place.to_ne_bytes());
        [flags, cutting, 0, 0, 0, 0, start[0], start[1], place[0], place[1]]
    }

    /// A header whose checksum many texts after RFC 1071 compute by hand: it is B861.
    const HEADER: [u8; 20] = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];

    #[test]
    fn checksums_that_were_left_are_completed() {
        let mut frame = [&[0; 14][..], &HEADER].concat();
        assert!(!finish(&mut frame, virtio(1, 0, 14, 10)));
        assert_eq!(frame[24..26], [0xb8, 0x61]);
        assert_eq!(sum(&frame[14..]), 0xffff, "what receivers check");
        // An odd byte counts as the first byte of a word.
        let mut odd = vec![0, 0, 1, 2, 3];
        finish(&mut odd, virtio(1, 0, 0, 0));
        assert_eq!(odd, [0xfb, 0xfd, 1, 2, 3]);
        // A checksum of zero is written in its other form.
        let mut zero = vec![0, 0, 0xff, 0xff];
        finish(&mut zero, virtio(1, 0, 0, 0));
        assert_eq!(zero, [0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn nothing_is_written_where_nothing_was_left_or_there_is_no_place() {
        for header in
            [virtio(0, 0, 14, 10), virtio(1, 0, 14, 19), virtio(1, 0, 35, 0), virtio(1, 0, u16::MAX, u16::MAX)]
        {
            let mut frame = [&[0; 14][..], &HEADER].concat();
            assert!(!finish(&mut frame, header));
            assert_eq!(frame[14..], HEADER);
        }
        assert!(finish(&mut [0; 60], virtio(0, 1, 0, 0)), "to be cut");
    }
}
