//! Checks that what the documents name exists: paths, links, modules, items, test functions, experiments, and the
//! modules with unsafe code.
//!
//! CHANGELOG.md is not checked, because it is about the past.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folders that are not searched: made by tools, or full of test data.
const SKIPPED: [&str; 6] = [".git", "target", "lab-results", ".venv", "node_modules", "corpus"];
/// Paths that documents name although only tests make them.
const MADE: [&str; 1] = ["tests/clients/node_modules"];
/// Endings of sources. Documents may name a source without its folder.
const SOURCES: [&str; 4] = [".rs", ".py", ".mjs", ".sh"];
/// Documents that name modules by paths without an ending.
const NAME_MODULES: [&str; 2] = ["ARCHITECTURE.md", "docs/papers.md"];
/// Beginnings of names of experiments.
const PAPERS: [&str; 5] = ["so-", "yuan-", "hasegawa-", "concise-", "tagnet-"];
/// A word with at least so many `_` is a name in a source, or a metric. Tests of metrics are beside their code.
const UNDERSCORES_MIN: usize = 2;

/// Code in a sentence, and where the sentence stands.
struct Span {
    code: String,
    document: String,
    /// The crate that the section is about, if its heading names one.
    section: Option<String>,
}

/// The paths of the repository, its documents, and the words of its sources.
#[derive(Default)]
struct Tree {
    paths: BTreeSet<String>,
    documents: BTreeMap<String, String>,
    sources: BTreeMap<String, String>,
    words: BTreeSet<String>,
    functions: BTreeSet<String>,
}

impl Tree {
    fn read() -> Tree {
        let mut tree = Tree::default();
        tree.add_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), "");
        for source in tree.sources.values() {
            let words: Vec<_> = source.split(|c| !is_word_part(c)).filter(|word| !word.is_empty()).collect();
            let functions =
                words.windows(2).filter(|pair| matches!(pair[0], "fn" | "def")).map(|pair| pair[1].to_owned());
            tree.functions.extend(functions);
            tree.words.extend(words.into_iter().map(str::to_owned));
        }
        // Guards against a search that finds nothing.
        assert!(tree.documents.len() > 15 && tree.functions.len() > 1000);
        tree
    }

    fn add_folder(&mut self, folder: &Path, above: &str) {
        for entry in fs::read_dir(folder).expect("a folder of the repository") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            if SKIPPED.contains(&&*name) {
                continue;
            }
            let path = format!("{above}{name}");
            if entry.path().is_dir() {
                self.add_folder(&entry.path(), &format!("{path}/"));
            } else if name.ends_with(".md") && name != "CHANGELOG.md" {
                self.documents.insert(path.clone(), fs::read_to_string(entry.path()).expect("a document"));
            } else if is_source(&name) {
                self.sources.insert(path.clone(), fs::read_to_string(entry.path()).expect("a source"));
            }
            self.paths.insert(path);
        }
    }

    /// Whether a path below `folder` ends with `end`, which may lack the ending of a source.
    fn has(&self, folder: &str, end: &str) -> bool {
        let ends = ["", ".rs"].map(|ending| format!("/{}{ending}", end.trim_end_matches('/')));
        let below = self.paths.iter().filter_map(|path| path.strip_prefix(folder));
        below.map(|path| format!("/{path}")).any(|path| ends.iter().any(|end| path.ends_with(end)))
    }

    /// Whether there is this path, in which `*` is any text.
    fn has_at_root(&self, path: &str) -> bool {
        let path = path.trim_start_matches("./").trim_end_matches('/');
        let is_pattern = path.split_once('*');
        MADE.contains(&path)
            || self.paths.contains(path)
            || is_pattern
                .is_some_and(|(start, end)| self.paths.iter().any(|p| p.starts_with(start) && p.ends_with(end)))
    }

    fn is_crate(&self, name: &str) -> bool {
        self.paths.contains(&format!("crates/{name}/Cargo.toml"))
    }

    /// Whether a path begins at the root of the repository.
    fn begins_at_root(&self, path: &str) -> bool {
        let first = path.split('/').next().unwrap_or_default();
        first == "." || path.contains('/') && self.paths.contains(first)
    }
}

fn is_word_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_source(path: &str) -> bool {
    SOURCES.iter().any(|ending| path.ends_with(ending))
}

/// The lines of a document that are not in code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n```").step_by(2).flat_map(str::lines)
}

/// All code in the sentences of a document.
fn spans(document: &str, text: &str) -> Vec<Span> {
    let mut sections = vec![(None, String::new())];
    for line in prose(text) {
        if line.starts_with('#') {
            let section = line.strip_prefix("### `").and_then(|rest| rest.split('`').next());
            sections.push((section.map(str::to_owned), String::new()));
        } else if let Some((_, sentences)) = sections.last_mut() {
            *sentences += &format!("{line} ");
        }
    }
    let code = sections.iter().flat_map(|(section, sentences)| {
        let code = sentences.split('`').skip(1).step_by(2);
        code.map(|code| Span { code: code.to_owned(), document: document.to_owned(), section: section.clone() })
    });
    code.collect()
}

/// Returns the fault of code that looks like the name of something in the repository.
fn fault(tree: &Tree, span: &Span) -> Option<&'static str> {
    let code = &*span.code;
    let is_word = code.chars().all(is_word_part);
    let is_path = code.chars().all(|c| is_word_part(c) || "./*-".contains(c)) && !code.starts_with('/');
    if let Some(arguments) = code.strip_prefix("cargo test -p byname") {
        fault_of_test(tree, arguments)
    } else if let Some((first, rest)) = code.split_once("::") {
        fault_of_item(tree, first, rest.split('(').next()?)
    } else if is_path && tree.begins_at_root(code) {
        (!tree.has_at_root(code)).then_some("no such path")
    } else if is_path {
        fault_of_short_path(tree, span)
    } else {
        None
    }
    .or_else(|| {
        let is_name = is_word && code.matches('_').count() >= UNDERSCORES_MIN && !code.starts_with("byname_");
        // Counters get this suffix where they are written.
        let is_there = tree.words.contains(code.strip_suffix("_total").unwrap_or(code));
        (is_name && !is_there && !tree.words.contains(code)).then_some("no source has this name")
    })
    .or_else(|| {
        let id = format!("\"{code}\"");
        let is_experiment = is_path && PAPERS.iter().any(|paper| code.starts_with(paper));
        let in_lab = |(path, text): (&String, &String)| path.starts_with("crates/lab/") && text.contains(&id);
        (is_experiment && !tree.sources.iter().any(in_lab)).then_some("no such experiment")
    })
}

/// As [`fault`], for a path below a folder that the sentence or the section tells.
fn fault_of_short_path(tree: &Tree, span: &Span) -> Option<&'static str> {
    let code = &*span.code;
    let is_module = code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_/".contains(c));
    let section = span.section.as_ref().filter(|name| is_module && tree.is_crate(name));
    if let Some(section) = section {
        let is_there = tree.has(&format!("crates/{section}/src/"), code) || tree.is_crate(code);
        return (!is_there).then_some("no such module in the crate of this section");
    }
    let names_modules = NAME_MODULES.contains(&&*span.document);
    let is_sure = is_source(code) || is_module && code.contains('/') && names_modules;
    (is_sure && !tree.has("", code)).then_some("no such path")
}

/// As [`fault`], for `first::rest`: items of a crate, of a type, or of a file.
fn fault_of_item(tree: &Tree, first: &str, rest: &str) -> Option<&'static str> {
    let first = first.trim_start_matches("byname_");
    if is_source(first) {
        return (!tree.has("", first) || !tree.functions.contains(rest)).then_some("no such function");
    }
    let modules: Vec<_> = rest.split("::").take_while(|part| part.starts_with(char::is_lowercase)).collect();
    if tree.is_crate(first) && !modules.is_empty() && !tree.has(&format!("crates/{first}/src/"), &modules.join("/")) {
        return Some("no such module");
    }
    let has_all = rest.split("::").all(|part| tree.words.contains(part));
    (!has_all).then_some("no such item")
}

/// As [`fault`], for the arguments of `cargo test -p byname`, without a space before them.
fn fault_of_test(tree: &Tree, arguments: &str) -> Option<&'static str> {
    let mut words = arguments.split(' ');
    let name = words.next().map(|rest| rest.strip_prefix('-').unwrap_or("byname"))?;
    let mut is_there = tree.is_crate(name);
    while let Some(word) = words.next() {
        is_there &= match word {
            "--lib" => true,
            "--test" => tree.has(&format!("crates/{name}/tests/"), words.next()?),
            filter => tree.functions.iter().any(|function| function.starts_with(filter)),
        };
    }
    (!is_there).then_some("no such test")
}

#[test]
fn what_the_documents_name_exists() {
    let tree = Tree::read();
    let spans = tree.documents.iter().flat_map(|(document, text)| spans(document, text));
    let faults = spans.filter_map(|span| Some(format!("{}: `{}`: {}", span.document, span.code, fault(&tree, &span)?)));
    let faults: Vec<_> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Targets of the links in a document: `[text](target)` and `[text]: target`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        // Not `[^note]: text`.
        let definition = line
            .strip_prefix('[')
            .filter(|rest| !rest.starts_with('^'))
            .and_then(|rest| rest.split_once("]: "))
            .map(|(_, target)| target);
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        inline.chain(definition)
    })
}

/// The name of a heading in links.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    let tree = Tree::read();
    let mut count = 0;
    for (document, text) in &tree.documents {
        for link in links(text).filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
            let mut parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
            for part in path.split('/') {
                parts.push(part);
                if part == ".." {
                    parts.truncate(parts.len() - 2);
                }
            }
            let target = if path.is_empty() { document.clone() } else { parts.join("/") };
            assert!(tree.has_at_root(&target), "{document}: {link}");
            let has_heading =
                || prose(&tree.documents[&target]).any(|line| line.starts_with('#') && anchor(line) == heading);
            assert!(heading.is_empty() || has_heading(), "{document}: {link}");
            count += 1;
        }
    }
    assert!(count > 50, "{count} links");
}

#[test]
fn the_architecture_lists_the_modules_with_unsafe_code() {
    let tree = Tree::read();
    let (_, list) = tree.documents["ARCHITECTURE.md"].split_once("\n**Unsafe code**").expect("the paragraph");
    let mut listed = BTreeSet::new();
    for bullet in list.split("\n- ").skip(1) {
        let mut names = bullet.split('`').skip(1).step_by(2);
        let (name, modules) = names.next().map(|name| name.split_once("::").unwrap_or((name, ""))).expect("a crate");
        let folder = format!("crates/{name}/src/{modules}/").replace("//", "/");
        listed.extend(names.map(|module| format!("{folder}{module}.rs")));
    }
    let allows = tree.sources.iter().filter(|(_, source)| source.contains("\n#![allow(unsafe_code)]"));
    assert_eq!(listed, allows.map(|(path, _)| path.clone()).collect());
}
