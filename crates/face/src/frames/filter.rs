//! The filter program of a packet socket: it passes NDN frames, and datagrams of the port's peers. `fanout` writes
//! another program with the same means.

use libc::sock_filter;

use super::conditions::{self, Conditions};
use super::datagram::Path;
use crate::mac_address::MacAddress;
use crate::spread::instruction;

const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_SET: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Rejects all frames.
pub(crate) const NOTHING: [sock_filter; 1] = [instruction(RETURN, 0)];

/// Writes a program, one kind of frames after the other. Each kind has jumps to the next.
pub(super) struct Writer {
    lines: Vec<sock_filter>,
    /// Added to the offsets of loads.
    start: u32,
    /// Result of the program for frames that it takes.
    result: u32,
    /// Jumps to the next kind, each with whether it is taken if the comparison holds.
    open: Vec<(usize, bool)>,
}

impl Writer {
    /// An empty program. The frame begins at the offset `start`.
    pub(super) fn at(start: u32) -> Self {
        Writer { lines: Vec::new(), start, result: u32::MAX, open: Vec::new() }
    }

    /// The program so far.
    pub(super) fn lines(self) -> Vec<sock_filter> {
        self.lines
    }

    /// Ends with `result` for plain datagrams to `address` on this path.
    pub(super) fn take_path(&mut self, address: MacAddress, path: Path, result: u32) {
        self.result = result;
        conditions::write_path(self, address, path);
    }

    /// Ends with `result` for frames to a group.
    pub(super) fn take_groups(&mut self, result: u32) {
        self.result = result;
        self.load(LOAD_BYTE, 0);
        self.leave(IF_SET, 1, false);
        self.take();
    }

    fn line(&mut self, code: u32, k: u32) {
        self.lines.push(instruction(code, k));
    }

    fn load(&mut self, size: u32, at: usize) {
        self.line(size, self.start.wrapping_add(at as u32));
    }

    /// Goes to the next kind if the comparison with the loaded value has the result `if_it_holds`.
    fn leave(&mut self, comparison: u32, value: u32, if_it_holds: bool) {
        self.open.push((self.lines.len(), if_it_holds));
        self.line(comparison, value);
    }
}

impl Conditions for Writer {
    /// A load past a frame's end ends the program, which then rejects the frame.
    fn begin(&mut self, _bytes: usize) {}

    fn expect(&mut self, at: usize, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<4>();
        for (n, word) in words.iter().enumerate() {
            self.load(LOAD_WORD, at + 4 * n);
            self.leave(IF_EQUAL, u32::from_be_bytes(*word), false);
        }
        if let &[a, b] = rest {
            self.load(LOAD_HALF, at + 4 * words.len());
            self.leave(IF_EQUAL, u32::from(u16::from_be_bytes([a, b])), false);
        }
    }

    fn expect_byte(&mut self, at: usize, byte: u8) {
        self.load(LOAD_BYTE, at);
        self.leave(IF_EQUAL, byte.into(), false);
    }

    fn refuse_bits(&mut self, at: usize, bits: u8) {
        self.load(LOAD_BYTE, at);
        self.leave(IF_SET, bits.into(), true);
    }

    fn refuse_bits_of_two(&mut self, at: usize, bits: u16) {
        self.load(LOAD_HALF, at);
        self.leave(IF_SET, bits.into(), true);
    }

    fn take(&mut self) {
        self.line(RETURN, self.result);
        let here = self.lines.len();
        for (line, if_it_holds) in self.open.drain(..) {
            let distance = u8::try_from(here - line - 1).expect("a kind of frames takes far fewer lines");
            let line = &mut self.lines[line];
            *if if_it_holds { &mut line.jt } else { &mut line.jf } = distance;
        }
    }
}

/// A filter that takes NDN frames from a station to `address` or to `group`, and plain datagrams to `address` on one of
/// these paths.
pub(super) fn filter(address: MacAddress, group: Option<MacAddress>, paths: &[Path]) -> Vec<sock_filter> {
    let mut program = Writer::at(0);
    conditions::write(&mut program, address, group, paths.iter().copied());
    program.line(RETURN, 0);
    program.lines
}
