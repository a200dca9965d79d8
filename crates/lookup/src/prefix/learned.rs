//! Longest prefix match by a learned index [Hasegawa, reference 17].
