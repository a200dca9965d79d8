//! The lines of a batch: read with a limit on their length, and split into words.

use std::io::{self, BufRead, BufReader, Read};

/// Longest line, in bytes. The longest name needs 26 KiB if all its bytes are escaped.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Why a line has no words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("the line is longer than {} KiB", LINE_BYTES_MAX >> 10)]
    Long,
    /// Not text.
    #[error("the line is not UTF-8 text")]
    NotText,
    /// A quotation mark without its partner, or a backslash at the end.
    #[error("a quotation mark is not closed, or nothing follows a backslash")]
    Unclosed,
}

/// Reads lines and counts them.
pub struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    number: u64,
}

impl<R: Read> Lines<R> {
    /// Reads lines from `reader`.
    pub fn new(reader: R) -> Self {
        Lines { reader: BufReader::with_capacity(LINE_BYTES_MAX, reader), line: Vec::new(), number: 0 }
    }

    /// Whether the next line has been read already. If not, [`Lines::next`] may wait for it.
    pub fn is_ready(&self) -> bool {
        self.reader.buffer().contains(&b'\n')
    }

    /// The next line and its number, which starts at 1. `None` at the end of the input.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn next(&mut self) -> io::Result<Option<(u64, Result<&str, BadLine>)>> {
        self.line.clear();
        if self.read_part()? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let is_long = self.line.len() > LINE_BYTES_MAX;
        while self.line.len() > LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
            self.line.clear();
            self.read_part()?;
        }
        if is_long {
            return Ok(Some((self.number, Err(BadLine::Long))));
        }
        Ok(Some((self.number, std::str::from_utf8(&self.line).map_err(|_| BadLine::NotText))))
    }

    /// Reads up to the end of the line, or one byte more than a line may have.
    fn read_part(&mut self) -> io::Result<usize> {
        self.reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut self.line)
    }
}

/// Splits a line into words, as a shell does: quotation marks and backslashes keep blanks in a word. An empty line has
/// no words, and neither has one that begins with `#`. Calls `with` with the words.
pub fn words<R>(line: &str, with: impl FnOnce(&[&str]) -> R) -> Result<R, BadLine> {
    let line = line.trim();
    if line.starts_with('#') {
        return Ok(with(&[]));
    }
    if !line.contains(['"', '\'', '\\', '#']) {
        return Ok(with(&line.split_ascii_whitespace().collect::<Vec<_>>()));
    }
    let words = shlex::split(line).ok_or(BadLine::Unclosed)?;
    Ok(with(&words.iter().map(String::as_str).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Result<Vec<String>, BadLine> {
        words(line, |words| words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn words_may_be_quoted() {
        assert_eq!(split("  route add\t/a  300 \r\n").unwrap(), ["route", "add", "/a", "300"]);
        assert_eq!(split(r#"route add "/a b" '/c d' e\ f"#).unwrap(), ["route", "add", "/a b", "/c d", "e f"]);
        assert_eq!(split("# route add /a 300").unwrap().len(), 0);
        assert_eq!(split(" \n").unwrap().len(), 0);
        assert_eq!(split("route add '/a"), Err(BadLine::Unclosed));
    }

    #[test]
    fn lines_are_counted_and_limited() {
        let mut input = b"one\n\n".to_vec();
        input.extend(std::iter::repeat_n(b'x', 3 * LINE_BYTES_MAX));
        input.extend(b"\n\xff\nlast");
        let mut lines = Lines::new(&input[..]);
        let mut read = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            read.push((number, line.map(str::to_owned)));
        }
        let line = |text: &str| Ok(text.to_owned());
        let (long, not_text) = (Err(BadLine::Long), Err(BadLine::NotText));
        assert_eq!(read, [(1, line("one\n")), (2, line("\n")), (3, long), (4, not_text), (5, line("last"))]);
    }

    #[test]
    fn a_line_of_the_longest_length_is_read() {
        let longest = vec![b'x'; LINE_BYTES_MAX];
        let mut lines = Lines::new(&longest[..]);
        assert!(lines.next().unwrap().unwrap().1.is_ok());
        assert!(lines.next().unwrap().is_none());
    }
}
