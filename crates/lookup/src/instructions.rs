//! The instruction sets that code is compiled for, one of which is chosen at run time.

/// Instruction sets that a processor may have.
// Some are detected on x86-64 only.
#[cfg_attr(not(all(target_arch = "x86_64", not(loom))), allow(dead_code))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instructions {
    /// The instructions that every processor has.
    Portable,
    /// Vectors of 256 bits, and bit counting.
    Avx2,
    /// Vectors of 512 bits with byte permutation, shifts and bit counting.
    Avx512,
}

impl Instructions {
    /// The largest set that this processor has.
    pub fn detect() -> Self {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("avx512vbmi2")
                && is_x86_feature_detected!("avx512vpopcntdq");
            match (avx2, avx512) {
                (true, true) => return Instructions::Avx512,
                (true, false) => return Instructions::Avx2,
                _ => {}
            }
        }
        Instructions::Portable
    }
}
