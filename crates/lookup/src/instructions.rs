//! What code is compiled for, chosen when it runs.

/// Instructions that some processors have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instructions {
    /// What every processor has.
    Portable,
    /// Vectors of 256 bits, and bit counts.
    Avx2,
    /// Vectors of 512 bits that permute octets, shift and count bits.
    Avx512,
}

impl Instructions {
    /// The most that this processor has.
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
