//! What the papers measured on.

/// [Yuan, Table 1 and §3.3.1].
pub const YUAN: &str = "[Yuan]: two Xeon E5-2630 of 2.3 GHz, 192 GB of DDR3-1333; rules of 7 components";
/// [So §3.1, §4.1].
pub const SO: &str = "[So]: Xeon (Westmere EP) of 2.0 GHz in an ASR 9000; IRCache names, FIB shaped as URLBlacklist";
/// [Concise §6.1].
pub const CONCISE: &str = "[Concise]: Core i7-4770 of 3.4 GHz, 4 cores, 8 MB of cache, DDR3-1600";
/// [TagNet §3.3, §4].
pub const TAGNET: &str = "[TagNet]: two Xeon E5-2670 v3 of 2.3 GHz, 24 cores, 64 GB; AS-level graph of 29 June 2012";
/// [TagNet §4, §4.1].
pub const TAGNET_SETS: &str = "[TagNet]: two Xeon E5-2670 v3 of 2.3 GHz, 24 cores, 30 MB of cache each; its 10M and 63M are \
                          of 500 million simulated users, ours are made to share as much";
