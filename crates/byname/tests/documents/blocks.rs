//! Code blocks of documents, and the marks that say what a test does with them.
//!
//! A mark is an HTML comment on the line above a block, which no reader sees:
//!
//! - `<!-- not run: REASON -->`: no test runs the block, and why.
//! - `<!-- byname only: REASON -->`: only its `byname` commands are run, and why not the rest.
//! - `<!-- prints -->`: what the block of commands before it prints. `<!-- prints: TEXT -->`: what the last block that
//!   contains TEXT has printed so far.
//! - `<!-- stays: TEXT -->`: the commands run until the end of the page; the next block waits until they print TEXT.
//! - `<!-- file: NAME -->`: the block is the content of this file, for the blocks after it.

/// What a test does with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    NotRun,
    BynameOnly,
    Prints(String),
    Stays(String),
    File(String),
}

impl Mark {
    /// The mark on a line, if it is one.
    fn of(line: &str) -> Option<Mark> {
        let text = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
        let (word, rest) = text.split_once(':').map_or((text, ""), |(word, rest)| (word, rest.trim()));
        match (word, rest.is_empty()) {
            ("not run", false) => Some(Mark::NotRun),
            ("byname only", false) => Some(Mark::BynameOnly),
            ("prints", _) => Some(Mark::Prints(rest.to_owned())),
            ("stays", false) => Some(Mark::Stays(rest.to_owned())),
            ("file", false) => Some(Mark::File(rest.to_owned())),
            _ => None,
        }
    }
}

/// A code block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of its first line in the document, from 1.
    pub line: usize,
    pub language: String,
    pub mark: Option<Mark>,
    pub text: String,
}

/// A document, taken apart.
#[derive(Debug, Default)]
pub struct Parts {
    pub blocks: Vec<Block>,
    /// Everything else, as one line.
    pub prose: String,
}

/// Takes a document apart.
///
/// # Panics
/// If a block has no end.
pub fn parts(document: &str) -> Parts {
    let mut parts = Parts::default();
    let (mut open, mut above): (Option<Block>, &str) = (None, "");
    for (number, line) in (1..).zip(document.lines()) {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, &mut open) {
            (Some(language), None) => {
                let mark = Mark::of(above);
                open = Some(Block { line: number, language: language.to_owned(), mark, text: String::new() });
            }
            (Some(_), Some(_)) => parts.blocks.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => parts.prose += &format!("{line} "),
        }
        above = line;
    }
    assert!(open.is_none(), "a block has no end: {open:?}");
    parts
}

#[test]
fn blocks_have_the_marks_above_them() {
    let document = "Say:\n```sh\na\n```\n<!-- stays: ready -->\n```sh\nb\n```\n<!-- not run: -->\n```text\nc\n```\n";
    let marks: Vec<_> = parts(document).blocks.into_iter().map(|block| (block.line, block.mark, block.text)).collect();
    let stays = Some(Mark::Stays("ready".to_owned()));
    assert_eq!(marks, [(2, None, "a\n".into()), (6, stays, "b\n".into()), (10, None, "c\n".into())]);
}
