//! What one peer sends must not harm another, nor confuse what is recorded of both.

use super::*;

#[test]
fn a_burst_of_garbage_does_not_take_along_what_comes_after() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    let received =
        |octets: &[u8]| Received { face: APP, fields: LinkFields::default(), packet: Packet::copy_from(octets) };
    let mut input: Vec<_> = (0..2 * BURST_MAX).map(|_| received(&[5, 0])).collect();
    input.push(received(&interest("/a/b", 1).encode()));
    assert_eq!(shape(&b.poll(input)), ["I300"]);
}
