//! Longest name prefix match by binary search over prefix lengths [Yuan §3].
