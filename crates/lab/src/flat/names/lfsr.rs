//! The name generator of [Concise §6.2.3]: a linear feedback shift register.
//!
//! It visits all states except zero before any repeats, with a few instructions per state and without memory.
//! Consecutive states are shifted copies of each other, so they suit only tables that hash their names.

/// A register in Galois form.
#[derive(Debug, Clone)]
pub struct Lfsr {
    taps: u64,
    /// `jumps[k]` advances a state by 2^k steps: it maps each bit of the state.
    jumps: Vec<[u64; 64]>,
}

/// The state with number 0.
const START: u64 = 1;

impl Lfsr {
    /// Makes a register with the longest period for at most `bytes` bytes; `None` for less than two.
    pub fn new(bytes: usize) -> Option<Self> {
        // Exponents of primitive polynomials [Xilinx XAPP 052, table 3].
        let exponents: &[u32] = match bytes {
            0 | 1 => return None,
            2 => &[16, 15, 13, 4],
            3 => &[24, 23, 22, 17],
            4 => &[32, 22, 2, 1],
            5 => &[40, 38, 21, 19],
            6 => &[48, 47, 21, 20],
            7 => &[56, 55, 35, 34],
            _ => &[64, 63, 61, 60],
        };
        let taps = exponents.iter().fold(0, |taps, exponent| taps | 1 << (exponent - 1));
        let mut lfsr = Lfsr { taps, jumps: Vec::new() };
        let mut jump = std::array::from_fn(|bit| lfsr.step(1 << bit));
        for _ in 0..u64::BITS {
            lfsr.jumps.push(jump);
            jump = std::array::from_fn(|bit| apply(&jump, jump[bit]));
        }
        Some(lfsr)
    }

    /// The next state.
    #[inline]
    pub fn step(&self, state: u64) -> u64 {
        (state >> 1) ^ (self.taps & (state & 1).wrapping_neg())
    }

    /// The state with this number.
    pub fn at(&self, number: u64) -> u64 {
        let ahead = (0..u64::BITS as usize).filter(|k| number >> k & 1 == 1);
        ahead.fold(START, |state, k| apply(&self.jumps[k], state))
    }
}

fn apply(jump: &[u64; 64], state: u64) -> u64 {
    let bits = (0..64).filter(|bit| state >> bit & 1 == 1);
    bits.fold(0, |sum, bit| sum ^ jump[bit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_is_the_longest_there_is() {
        for bytes in 2..4 {
            let lfsr = Lfsr::new(bytes).expect("two bytes or more");
            let period = (1u64 << (8 * bytes)) - 1;
            let mut state = lfsr.step(START);
            let mut steps = 1;
            while state != START {
                assert!(state >> (8 * bytes) == 0);
                state = lfsr.step(state);
                steps += 1;
            }
            assert_eq!(steps, period);
        }
    }

    /// A jump by the period leads back to the start. A jump by the period over any of its prime factors does not. So
    /// the period is maximal.
    #[test]
    fn long_periods_are_the_longest_there_are() {
        let factors: [(usize, &[u64]); 3] = [
            (4, &[3, 5, 17, 257, 65537]),
            (6, &[3, 5, 7, 13, 17, 97, 241, 257, 673]),
            (8, &[3, 5, 17, 257, 641, 65537, 6_700_417]),
        ];
        for (bytes, factors) in factors {
            let lfsr = Lfsr::new(bytes).expect("two bytes or more");
            let period = u64::MAX >> (64 - 8 * bytes);
            assert_eq!(lfsr.at(period), START);
            for factor in factors {
                assert!(period.is_multiple_of(*factor));
                assert_ne!(lfsr.at(period / factor), START, "{bytes} bytes");
            }
        }
    }

    #[test]
    fn jumps_lead_where_steps_do() {
        let lfsr = Lfsr::new(8).expect("two bytes or more");
        let mut state = START;
        for number in 0..1000 {
            assert_eq!(lfsr.at(number), state);
            state = lfsr.step(state);
        }
    }
}
