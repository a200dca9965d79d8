//! SHA-256, and the implicit digest of Data.

/// A SHA-256 digest.
pub type Sha256Digest = [u8; 32];

/// SHA-256 of the concatenation of `parts`.
pub fn sha256(parts: &[&[u8]]) -> Sha256Digest {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 octets")
}
