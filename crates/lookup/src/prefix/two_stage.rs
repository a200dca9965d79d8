//! Longest prefix match in two stages with virtual entries [So §2.3].
