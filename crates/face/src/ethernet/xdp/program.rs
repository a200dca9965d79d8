//! The program that each frame of an interface meets first: those of NDN go to the port's sockets, all others
//! to the kernel.

use std::os::fd::RawFd;

use super::bpf::Instruction;
use crate::ethernet::frame::{ETHER_TYPE, HEADER_BYTES};
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
const LOAD_OCTET: u8 = 0x71;
/// Of 64 bits, the second half in an instruction of its own.
const LOAD_WIDE: u8 = 0x18;
/// Of registers, as unsigned numbers.
const IF_ABOVE: u8 = 0x2d;
/// Of the lower 32 bits, with a value.
const IF_EQUAL: u8 = 0x16;
const IF_OTHER: u8 = 0x56;
const IF_SET: u8 = 0x46;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// In place of a source register: the value is a map's descriptor.
const MAP: u8 = 1;
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
/// Where the frame's first octet and its end are in what the program is given, and the queue's number.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

/// Frames of NDN's EtherType from a station to `address` or to `group` go to the socket that `sockets` has for
/// their queue, if any.
pub(super) fn program(address: MacAddress, group: Option<MacAddress>, sockets: RawFd) -> Vec<Instruction> {
    let op = |code, to: u8, from: u8, offset, value| Instruction { code, registers: from << 4 | to, offset, value };
    // As the processor loads them.
    let split = |MacAddress([a, b, c, d, e, f]): MacAddress| {
        (i32::from_ne_bytes([a, b, c, d]), i32::from(u16::from_ne_bytes([e, f])))
    };
    let (address_first, address_last) = split(address);
    let (group_first, group_last) = split(group.unwrap_or(address));
    // Jumps count from the next line. The verifier wants all octets read to be known to be there.
    vec![
        op(MOVE, R6, R1, 0, 0),
        op(LOAD_WORD, R2, R1, DATA, 0),
        op(LOAD_WORD, R3, R1, DATA_END, 0),
        op(MOVE, R4, R2, 0, 0),
        op(ADD_VALUE, R4, 0, 0, HEADER_BYTES as i32),
        op(IF_ABOVE, R4, R3, 16, 0),
        op(LOAD_HALF, R5, R2, 12, 0),
        op(IF_OTHER, R5, 0, 14, i32::from(ETHER_TYPE.to_be())),
        op(LOAD_OCTET, R5, R2, 6, 0),
        op(IF_SET, R5, 0, 12, 1),
        op(LOAD_WORD, R5, R2, 0, 0),
        op(LOAD_HALF, R0, R2, 4, 0),
        op(IF_OTHER, R5, 0, 1, address_first),
        op(IF_EQUAL, R0, 0, 2, address_last),
        op(IF_OTHER, R5, 0, 7, group_first),
        op(IF_OTHER, R0, 0, 6, group_last),
        op(LOAD_WIDE, R1, MAP, 0, sockets),
        op(0, 0, 0, 0, 0),
        op(LOAD_WORD, R2, R6, QUEUE, 0),
        op(MOVE_VALUE, R3, 0, 0, XDP_PASS),
        op(CALL, 0, 0, 0, REDIRECT_MAP),
        op(EXIT, 0, 0, 0, 0),
        op(MOVE_VALUE, R0, 0, 0, XDP_PASS),
        op(EXIT, 0, 0, 0, 0),
    ]
}
