//! Text files of rules, and of other things by line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use byname_wire::{Name, NameRef};

use crate::tools::parse_name;

/// The longest line, in bytes. A name in a URI takes three times its bytes at most, and there are two.
const LINE_MAX: u64 = 1 << 16;

/// Rules to read more than once.
pub enum Rules {
    /// In the order of the file.
    File(PathBuf),
    /// In memory, sorted.
    Sorted(Vec<(Name, Name)>),
}

impl Rules {
    /// The rules of a file. If they are to be sorted, they are read now.
    pub fn open(path: &Path, sort: bool) -> anyhow::Result<Self> {
        let file = Rules::File(path.to_owned());
        if !sort {
            return Ok(file);
        }
        let mut rules = Vec::new();
        file.each(&mut |name, label| {
            rules.push((name.to_name(), label.to_name()));
            Ok(())
        })?;
        rules.sort();
        Ok(Rules::Sorted(rules))
    }

    /// Calls `each` with the name and the label of each rule. An error tells the rule's line or name.
    pub fn each(&self, each: &mut dyn FnMut(NameRef<'_>, NameRef<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        match self {
            Rules::Sorted(rules) => rules
                .iter()
                .try_for_each(|(name, label)| each(name.as_ref(), label.as_ref()).with_context(|| name.to_string())),
            Rules::File(path) => {
                let file = File::open(path).with_context(|| path.display().to_string())?;
                each_rule(&mut BufReader::with_capacity(1 << 20, file), path, each)
            }
        }
    }
}

fn each_rule(
    file: &mut impl BufRead,
    path: &Path,
    each: &mut dyn FnMut(NameRef<'_>, NameRef<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    each_line(file, path, &mut |_, text| {
        let (name, label) = rule(text)?;
        each(name.as_ref(), label.as_ref())
    })
}

/// Calls `each` with the number and the text of each line of a file that is not empty and no comment. An error tells the line.
pub fn each_line(
    file: &mut impl BufRead,
    path: &Path,
    each: &mut dyn FnMut(u64, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut line, mut number) = (String::new(), 0u64);
    loop {
        line.clear();
        number += 1;
        let place = || format!("{}, line {number}", path.display());
        let read = file.by_ref().take(LINE_MAX).read_line(&mut line).with_context(place)?;
        if read == 0 {
            return Ok(());
        }
        anyhow::ensure!((read as u64) < LINE_MAX, "{}: the line is longer than {LINE_MAX} bytes", place());
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        each(number, text).with_context(place)?;
    }
}

fn rule(text: &str) -> anyhow::Result<(Name, Name)> {
    let mut words = text.split_ascii_whitespace();
    let (Some(name), Some(label), None) = (words.next(), words.next(), words.next()) else {
        anyhow::bail!("a line has a name and a label: /com/example /upstream/1");
    };
    let parse = |text: &str| parse_name(text).map_err(anyhow::Error::msg);
    Ok((parse(name)?, parse(label)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<Vec<String>> {
        let mut rules = Vec::new();
        each_rule(&mut text.as_bytes(), Path::new("rules.txt"), &mut |name, label| {
            rules.push(format!("{name} {label}"));
            Ok(())
        })?;
        Ok(rules)
    }

    #[test]
    fn lines_are_names_with_labels() {
        let rules = read("# made by hand\n/com/example /up/1\n\n  /net\t/up/2\r\n/").expect_err("a label is missing");
        assert_eq!(rules.to_string(), "rules.txt, line 5");
        assert_eq!(
            read("# x\n/com/example /up/1\n\n  /net\t/up/2\r\n").expect("good"),
            ["/com/example /up/1", "/net /up/2"]
        );
        for bad in ["com /up", "/com up", "/com /up /3", "/%zz /up"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(&format!("/{} /up", "x".repeat(70_000))).expect_err("long").to_string().contains("longer than"));
    }
}
