//! The Graph Modelling Language.
//!
//! A text is a list of keys, each with a number, a string, or a list in brackets. No reader on
//! crates.io is maintained (graph-io-gml, gml_parser). Both recurse at each bracket, so a
//! stranger's text could exhaust the stack. This reader counts brackets instead.

use std::collections::HashMap;

use super::{Graph, ReadError, Topology};

pub(super) fn read(text: &str) -> Result<Topology, ReadError> {
    let mut reader = Reader { tokens: Tokens::new(text), found: Found::default() };
    let mut graphs = 0;
    while let Some(key) = reader.tokens.key()? {
        if key == "graph" {
            graphs += 1;
            reader.tokens.open("a graph is a list")?;
            reader.graph()?;
        } else {
            reader.tokens.skip_value()?;
        }
    }
    match graphs {
        1 => reader.found.topology(),
        _ => Err(reader.tokens.error("a text has one graph")),
    }
}

/// The contents of the graph's list.
#[derive(Default)]
struct Found {
    names: Vec<String>,
    by_id: HashMap<i64, u32>,
    /// The ids that each edge joins, and its line. An edge may precede its nodes.
    edges: Vec<(i64, i64, usize)>,
}

impl Found {
    fn topology(self) -> Result<Topology, ReadError> {
        let node = |id, line| self.by_id.get(&id).copied().ok_or(ReadError::NoSuchNode { line, id });
        let edges = self.edges.iter().map(|&(a, b, line)| Ok((node(a, line)?, node(b, line)?)));
        let edges = edges.collect::<Result<Vec<_>, ReadError>>()?;
        Ok(Topology { graph: Graph::new(self.names.len(), &edges)?, names: self.names })
    }
}

struct Reader<'a> {
    tokens: Tokens<'a>,
    found: Found,
}

impl Reader<'_> {
    /// Reads the rest of a graph's list.
    fn graph(&mut self) -> Result<(), ReadError> {
        while let Some(key) = self.tokens.key_in_list()? {
            match key {
                "node" => self.node()?,
                "edge" => self.edge()?,
                _ => self.tokens.skip_value()?,
            }
        }
        Ok(())
    }

    fn node(&mut self) -> Result<(), ReadError> {
        let line = self.tokens.line;
        self.tokens.open("a node is a list")?;
        let (mut id, mut label) = (None, None);
        while let Some(key) = self.tokens.key_in_list()? {
            match key {
                "id" => id = Some(self.tokens.integer()?),
                "label" => label = Some(self.tokens.label()?),
                _ => self.tokens.skip_value()?,
            }
        }
        let id = id.ok_or(ReadError::Syntax { line, what: "a node has an id" })?;
        // Numbers beyond 2^32 are not used, because no graph has so many nodes.
        let number = self.found.names.len() as u32;
        if self.found.by_id.insert(id, number).is_some() {
            return Err(ReadError::SecondNode { line, id });
        }
        self.found.names.push(label.map_or_else(|| id.to_string(), str::to_owned));
        Ok(())
    }

    fn edge(&mut self) -> Result<(), ReadError> {
        let line = self.tokens.line;
        self.tokens.open("an edge is a list")?;
        let (mut source, mut target) = (None, None);
        while let Some(key) = self.tokens.key_in_list()? {
            match key {
                "source" => source = Some(self.tokens.integer()?),
                "target" => target = Some(self.tokens.integer()?),
                _ => self.tokens.skip_value()?,
            }
        }
        let (Some(source), Some(target)) = (source, target) else {
            return Err(ReadError::Syntax { line, what: "an edge has a source and a target" });
        };
        self.found.edges.push((source, target, line));
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    Text(&'a str),
    /// A key or a number.
    Word(&'a str),
}

struct Tokens<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Tokens { rest: text, line: 1 }
    }

    fn error(&self, what: &'static str) -> ReadError {
        ReadError::Syntax { line: self.line, what }
    }

    fn next(&mut self) -> Result<Option<Token<'a>>, ReadError> {
        self.skip_space();
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        Ok(Some(match first {
            '[' => {
                self.take(1);
                Token::Open
            }
            ']' => {
                self.take(1);
                Token::Close
            }
            '"' => {
                let len = self.rest[1..].find('"').ok_or_else(|| self.error("a string does not end"))?;
                let text = self.take(len + 2);
                Token::Text(&text[1..=len])
            }
            _ => {
                let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '[' | ']' | '"');
                Token::Word(self.take(self.rest.find(ends).unwrap_or(self.rest.len())))
            }
        }))
    }

    /// The next key. `None` at the end of the text.
    fn key(&mut self) -> Result<Option<&'a str>, ReadError> {
        match self.next()? {
            None => Ok(None),
            Some(Token::Word(word)) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => Ok(Some(word)),
            Some(_) => Err(self.error("a key is a word")),
        }
    }

    /// The next key of a list. `None` at its end.
    fn key_in_list(&mut self) -> Result<Option<&'a str>, ReadError> {
        self.skip_space();
        if self.rest.starts_with(']') {
            self.take(1);
            return Ok(None);
        }
        match self.key()? {
            None => Err(self.error("a list does not end")),
            key => Ok(key),
        }
    }

    fn open(&mut self, what: &'static str) -> Result<(), ReadError> {
        match self.next()? {
            Some(Token::Open) => Ok(()),
            _ => Err(self.error(what)),
        }
    }

    fn integer(&mut self) -> Result<i64, ReadError> {
        match self.next()? {
            Some(Token::Word(word)) => word.parse().map_err(|_| self.error("an id is an integer")),
            _ => Err(self.error("an id is an integer")),
        }
    }

    fn label(&mut self) -> Result<&'a str, ReadError> {
        match self.next()? {
            Some(Token::Text(text) | Token::Word(text)) => Ok(text),
            _ => Err(self.error("a label is a string or a number")),
        }
    }

    /// Skips a value, or a list with all its contents.
    fn skip_value(&mut self) -> Result<(), ReadError> {
        let mut open: usize = 0;
        loop {
            match self.next()? {
                None => return Err(self.error("a key has no value")),
                Some(Token::Open) => open += 1,
                Some(Token::Close) => {
                    open = open.checked_sub(1).ok_or_else(|| self.error("a key has no value"))?;
                }
                Some(Token::Text(_) | Token::Word(_)) => {}
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    /// Skips white space and comments, which go from `#` to the end of the line.
    fn skip_space(&mut self) {
        loop {
            self.take(self.rest.len() - self.rest.trim_ascii_start().len());
            if !self.rest.starts_with('#') {
                return;
            }
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.line += taken.matches('\n').count();
        taken
    }
}
