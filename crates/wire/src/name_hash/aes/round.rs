//! The AES round and AES-128 in portable code, after FIPS 197: slow and easy to check.
//!
//! States and keys are 16 bytes as one little-endian number, like those of AES instructions.

/// One round: SubBytes, ShiftRows, MixColumns, then adding `key`.
pub(super) fn round(state: u128, key: u128) -> u128 {
    u128::from_le_bytes(mix_columns(shift_rows(sub_bytes(state.to_le_bytes())))) ^ key
}

/// AES-128 of one block.
pub(super) fn encrypt(key: u128, block: u128) -> u128 {
    let keys = expand_key(key);
    let state = keys[1..10].iter().fold(block ^ keys[0], |state, &key| round(state, key));
    u128::from_le_bytes(shift_rows(sub_bytes(state.to_le_bytes()))) ^ keys[10]
}

fn expand_key(key: u128) -> [u128; 11] {
    let mut keys = [key; 11];
    let mut constant = 1;
    for i in 1..11 {
        let mut bytes = keys[i - 1].to_le_bytes();
        for column in 0..4 {
            for row in 0..4 {
                bytes[4 * column + row] ^= match column {
                    0 => SBOX[usize::from(keys[i - 1].to_le_bytes()[12 + (row + 1) % 4])],
                    _ => bytes[4 * (column - 1) + row],
                };
            }
            if column == 0 {
                bytes[0] ^= constant;
            }
        }
        constant = double(constant);
        keys[i] = u128::from_le_bytes(bytes);
    }
    keys
}

fn sub_bytes(state: [u8; 16]) -> [u8; 16] {
    state.map(|byte| SBOX[usize::from(byte)])
}

/// Moves row `r` by `r` columns to the left. The state is stored column by column.
fn shift_rows(state: [u8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| state[(i + 4 * (i % 4)) % 16])
}

fn mix_columns(state: [u8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| {
        let row = |r: usize| state[i / 4 * 4 + (i + r) % 4];
        double(row(0)) ^ double(row(1)) ^ row(1) ^ row(2) ^ row(3)
    })
}

/// Multiplies by x in the field of 256 elements.
const fn double(x: u8) -> u8 {
    (x << 1) ^ ((x >> 7) * 0x1b)
}

const SBOX: [u8; 256] = sbox();

const fn sbox() -> [u8; 256] {
    let mut sbox = [0x63; 256];
    // 3 generates the field's nonzero elements, and 0xf6 is its inverse.
    let (mut element, mut inverse) = (1u8, 1u8);
    loop {
        sbox[element as usize] ^=
            inverse ^ inverse.rotate_left(1) ^ inverse.rotate_left(2) ^ inverse.rotate_left(3) ^ inverse.rotate_left(4);
        element ^= double(element);
        inverse = times_f6(inverse);
        if element == 1 {
            return sbox;
        }
    }
}

const fn times_f6(x: u8) -> u8 {
    let (mut power, mut product, mut bit) = (x, 0, 0);
    while bit < 8 {
        product ^= power * ((0xf6 >> bit) & 1);
        power = double(power);
        bit += 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(hex: &str) -> u128 {
        u128::from_str_radix(hex, 16).unwrap().swap_bytes()
    }

    #[test]
    fn sbox_is_that_of_the_standard() {
        assert_eq!(SBOX[..4], [0x63, 0x7c, 0x77, 0x7b]);
        assert_eq!((SBOX[0x53], SBOX[0xff]), (0xed, 0x16));
    }

    /// FIPS 197, Appendix B: the start of round 1, and the start of round 2.
    #[test]
    fn a_round_is_that_of_the_standard() {
        let (start, key) = ("193de3bea0f4e22b9ac68d2ae9f84808", "a0fafe1788542cb123a339392a6c7605");
        assert_eq!(round(number(start), number(key)), number("a49c7ff2689f352b6b5bea43026a5049"));
    }

    /// FIPS 197, Appendix B and Appendix C.1.
    #[test]
    fn ten_rounds_are_aes_128() {
        let vectors = [
            (
                "2b7e151628aed2a6abf7158809cf4f3c",
                "3243f6a8885a308d313198a2e0370734",
                "3925841d02dc09fbdc118597196a0b32",
            ),
            (
                "000102030405060708090a0b0c0d0e0f",
                "00112233445566778899aabbccddeeff",
                "69c4e0d86a7b0430d8cdb78070b4c55a",
            ),
        ];
        for (key, block, cipher) in vectors {
            assert_eq!(encrypt(number(key), number(block)), number(cipher));
        }
    }
}
