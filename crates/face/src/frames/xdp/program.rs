//! The program that sees each frame of an interface first. It passes NDN frames, and datagrams of the port's peers, to
//! the port's sockets, and all others to the kernel.

use std::os::fd::RawFd;

use super::bpf::Instruction;
use crate::frames::conditions::{self, Conditions};
use crate::frames::datagram::Path;
use crate::mac_address::MacAddress;

const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
const R6: u8 = 6;

/// Copies a register.
const MOVE: u8 = 0xbf;
const MOVE_VALUE: u8 = 0xb7;
const ADD_VALUE: u8 = 0x07;
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_BYTE: u8 = 0x71;
/// Loads 64 bits. The second half is in an extra instruction.
const LOAD_WIDE: u8 = 0x18;
/// Compares registers as unsigned numbers.
const IF_ABOVE: u8 = 0x2d;
/// Compares the lower 32 bits with a value.
const IF_OTHER: u8 = 0x56;
const IF_SET: u8 = 0x46;
const CALL: u8 = 0x85;
const JUMP: u8 = 0x05;
const EXIT: u8 = 0x95;

/// In place of a source register: the value is a map's descriptor.
const MAP: u8 = 1;
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
/// Offsets in the program's argument: the frame's start, the frame's end, and the queue's number.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

/// Writes a program, with forward jumps to places that are not known yet.
#[derive(Default)]
struct Writer {
    instructions: Vec<Instruction>,
    /// Jumps to the next place that [`Writer::land`] marks.
    open: Vec<usize>,
    /// Jumps to the place where the frame is taken.
    taken: Vec<usize>,
}

impl Writer {
    fn op(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        self.instructions.push(Instruction { code, registers: from << 4 | to, offset, value });
    }

    /// Jumps to the next landing if the comparison of a register with a value holds.
    fn leave_if(&mut self, comparison: u8, register: u8, value: i32) {
        self.open.push(self.instructions.len());
        self.op(comparison, register, 0, 0, value);
    }

    /// Lands the open jumps here.
    fn land(&mut self) {
        let here = self.instructions.len();
        for from in std::mem::take(&mut self.open) {
            self.instructions[from].offset = (here - from - 1) as i16;
        }
    }

    /// Ends the program: passes the frame to the kernel, or a taken frame to the socket of its queue.
    fn finish(mut self, sockets: RawFd) -> Vec<Instruction> {
        self.land();
        self.op(MOVE_VALUE, R0, 0, 0, XDP_PASS);
        self.op(EXIT, 0, 0, 0, 0);
        self.open = std::mem::take(&mut self.taken);
        self.land();
        self.op(LOAD_WIDE, R1, MAP, 0, sockets);
        self.op(0, 0, 0, 0, 0);
        self.op(LOAD_WORD, R2, R6, QUEUE, 0);
        self.op(MOVE_VALUE, R3, 0, 0, XDP_PASS);
        self.op(CALL, 0, 0, 0, REDIRECT_MAP);
        self.op(EXIT, 0, 0, 0, 0);
        self.instructions
    }
}

impl Conditions for Writer {
    fn begin(&mut self, bytes: usize) {
        self.op(MOVE, R4, R2, 0, 0);
        self.op(ADD_VALUE, R4, 0, 0, bytes as i32);
        self.open.push(self.instructions.len());
        self.op(IF_ABOVE, R4, R3, 0, 0);
    }

    fn expect(&mut self, at: usize, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<4>();
        for (n, word) in words.iter().enumerate() {
            self.op(LOAD_WORD, R5, R2, (at + 4 * n) as i16, 0);
            self.leave_if(IF_OTHER, R5, i32::from_ne_bytes(*word));
        }
        if let &[a, b] = rest {
            self.op(LOAD_HALF, R5, R2, (at + 4 * words.len()) as i16, 0);
            self.leave_if(IF_OTHER, R5, i32::from(u16::from_ne_bytes([a, b])));
        }
    }

    fn expect_byte(&mut self, at: usize, byte: u8) {
        self.op(LOAD_BYTE, R5, R2, at as i16, 0);
        self.leave_if(IF_OTHER, R5, byte.into());
    }

    fn refuse_bits(&mut self, at: usize, bits: u8) {
        self.op(LOAD_BYTE, R5, R2, at as i16, 0);
        self.leave_if(IF_SET, R5, bits.into());
    }

    fn refuse_bits_of_two(&mut self, at: usize, bits: u16) {
        self.op(LOAD_HALF, R5, R2, at as i16, 0);
        self.leave_if(IF_SET, R5, bits.to_be().into());
    }

    fn take(&mut self) {
        self.taken.push(self.instructions.len());
        self.op(JUMP, 0, 0, 0, 0);
        self.land();
    }
}

/// Writes the program. It takes NDN frames from a station to `address` or to `group`, and plain datagrams to `address`
/// on one of these paths. They go to the socket in `sockets` for their queue, if any.
pub(super) fn program(
    address: MacAddress,
    group: Option<MacAddress>,
    paths: impl Iterator<Item = Path>,
    sockets: RawFd,
) -> Vec<Instruction> {
    let mut program = Writer::default();
    program.op(MOVE, R6, R1, 0, 0);
    program.op(LOAD_WORD, R2, R1, DATA, 0);
    program.op(LOAD_WORD, R3, R1, DATA_END, 0);
    conditions::write(&mut program, address, group, paths);
    program.finish(sockets)
}
