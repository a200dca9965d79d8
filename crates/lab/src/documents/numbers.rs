//! The numbers of a text, and where they stand.

use std::ops::Range;

/// A number as a reader sees it: `0.90`, `1,009`, `-35`.
///
/// Code, addresses of links, comments and digits of names (`SipHash-1-3`, `10M`, `801e36e`, `2^79`, `§3.1`) are no
/// numbers.
pub fn numbers(text: &str) -> Vec<Range<usize>> {
    let (bytes, mut found, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let rest = &text[at..];
        let skipped = [("`", "`"), ("](", ")"), ("<!--", "-->")].iter().find(|(open, _)| rest.starts_with(open));
        if let Some((open, close)) = skipped {
            let inside = &rest[open.len()..];
            at += open.len() + inside.find(close).map_or(inside.len(), |end| end + close.len());
        } else if is_of_word(rest) {
            let length = word(rest);
            found.extend(number(&rest[..length]).map(|number| at + number.start..at + number.end));
            at += length;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

/// Characters that a word or a number may have in it.
fn is_of_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || "_^§/.,+-".contains(c))
}

/// Length of the word at the start of a text.
fn word(text: &str) -> usize {
    text.char_indices().find(|(at, _)| !is_of_word(&text[*at..])).map_or(text.len(), |(at, _)| at)
}

/// The number that a word is, without the punctuation behind it.
fn number(word: &str) -> Option<Range<usize>> {
    let word = word.trim_end_matches(|c: char| ".,".contains(c));
    let digits = word.trim_start_matches(['+', '-']);
    let sign = word.len() - digits.len();
    let is_number = sign <= 1
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b',');
    is_number.then_some(0..word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_digits_of_names() {
        let text = "SipHash-1-3 0.90, 2-4: 1,009 ns (-35 %, +3 and 17.) at 10M-CCN since 801e36e; 2^79, §3.1, 10^-6, \
                    log2 `x 5`, [table 6](a#b-7) <!-- 8 --> 64-byte E5-2630 v0.3 2026-11-23, 1 %/s";
        let found: Vec<_> = numbers(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["0.90", "1,009", "-35", "+3", "17", "6", "1"]);
    }
}
