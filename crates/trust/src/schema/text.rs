//! The text form of schemas: lexer and parser [python-ndn, "Light VerSec", "Syntax and Semantics"].

use byname_wire::Name;

use super::{Function, SchemaError};

/// Most rules of a text.
const RULES_MAX: usize = 4096;

/// A part of a rule's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// An encoded component.
    Value(Vec<u8>),
    Pattern(String),
    Rule(String),
}

/// An operand of a constraint: a component, or a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Term {
    Value(Vec<u8>),
    Pattern(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Written {
    Term(Term),
    Call { function: Function, arguments: Vec<Term> },
}

/// The choices for the value of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constraint {
    pub pattern: String,
    pub choices: Vec<Written>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    pub rule: String,
    pub name: Vec<Part>,
    /// Any of these sets suffices. Empty: no constraints.
    pub sets: Vec<Vec<Constraint>>,
    pub signers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// `name`, `#name` or `$name`.
    Word(String),
    /// The text between quotes.
    Text(String),
    Sign(char),
    /// `<=`
    SignedBy,
    End,
}

struct Lexer<'t> {
    rest: &'t str,
    line: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Token, SchemaError> {
        loop {
            let trimmed = self.rest.trim_start();
            self.line += self.rest[..self.rest.len() - trimmed.len()].matches('\n').count();
            self.rest = trimmed;
            let Some(comment) = trimmed.strip_prefix("//") else { break };
            self.rest = comment.find('\n').map_or("", |end| &comment[end..]);
        }
        let Some(first) = self.rest.chars().next() else { return Ok(Token::End) };
        if let Some(rest) = self.rest.strip_prefix("<=") {
            self.rest = rest;
            return Ok(Token::SignedBy);
        }
        if let Some(text) = self.rest.strip_prefix('"') {
            let end = text.find(['"', '\n']).filter(|&end| text[end..].starts_with('"'));
            let Some(end) = end else { return Err(self.unexpected("the quote at the end of a text", "a line's end")) };
            self.rest = &text[end + 1..];
            return Ok(Token::Text(text[..end].to_owned()));
        }
        if "/:&|{},()".contains(first) {
            self.rest = &self.rest[1..];
            return Ok(Token::Sign(first));
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begin = usize::from(first == '#' || first == '$');
        let len = self.rest[begin..].find(|c| !is_word(c)).unwrap_or(self.rest.len() - begin);
        let word = &self.rest[..begin + len];
        if len == 0 || word[begin..].starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.unexpected("a rule, a pattern or a text", &first.to_string()));
        }
        self.rest = &self.rest[begin + len..];
        Ok(Token::Word(word.to_owned()))
    }

    fn unexpected(&self, expected: &'static str, found: &str) -> SchemaError {
        SchemaError::Syntax { line: self.line, expected, found: found.to_owned() }
    }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The token that comes next.
    next: Token,
}

/// Parses a whole schema.
pub(super) fn parse(text: &str) -> Result<Vec<Definition>, SchemaError> {
    let mut lexer = Lexer { rest: text, line: 1 };
    let next = lexer.next()?;
    let (mut parser, mut rules) = (Parser { lexer, next }, Vec::new());
    while parser.next != Token::End {
        if rules.len() == RULES_MAX {
            return Err(SchemaError::TooMany { what: "rules", max: RULES_MAX });
        }
        rules.push(parser.definition()?);
    }
    Ok(rules)
}

impl Parser<'_> {
    fn take(&mut self) -> Result<Token, SchemaError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn takes(&mut self, token: &Token) -> Result<bool, SchemaError> {
        let is_it = self.next == *token;
        if is_it {
            self.take()?;
        }
        Ok(is_it)
    }

    fn takes_sign(&mut self, sign: char) -> Result<bool, SchemaError> {
        self.takes(&Token::Sign(sign))
    }

    fn expect(&mut self, sign: char, expected: &'static str) -> Result<(), SchemaError> {
        if self.takes_sign(sign)? { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &'static str) -> SchemaError {
        let found = match &self.next {
            Token::Word(word) => word.clone(),
            Token::Text(text) => format!("\"{text}\""),
            Token::Sign(sign) => sign.to_string(),
            Token::SignedBy => "<=".to_owned(),
            Token::End => "the end of the file".to_owned(),
        };
        self.lexer.unexpected(expected, &found)
    }

    /// A word that begins with `#`.
    fn rule(&mut self) -> Result<String, SchemaError> {
        match &self.next {
            Token::Word(word) if word.starts_with('#') => {
                let word = word.clone();
                self.take()?;
                Ok(word)
            }
            _ => Err(self.unexpected("a rule, such as #site")),
        }
    }

    fn pattern(&mut self) -> Result<String, SchemaError> {
        match &self.next {
            Token::Word(word) if !word.starts_with(['#', '$']) => {
                let word = word.clone();
                self.take()?;
                Ok(word)
            }
            _ => Err(self.unexpected("a pattern, such as author")),
        }
    }

    fn value(&mut self, text: String) -> Result<Vec<u8>, SchemaError> {
        let line = self.lexer.line;
        let fail = |problem: String| SchemaError::Component { line, text: text.clone(), problem };
        let name: Name = format!("/{text}").parse().map_err(|error| fail(format!("{error}")))?;
        if name.as_ref().len() != 1 {
            return Err(fail("it has not exactly one component".to_owned()));
        }
        self.take()?;
        Ok(name.value().to_vec())
    }

    fn definition(&mut self) -> Result<Definition, SchemaError> {
        let rule = self.rule()?;
        self.expect(':', "a colon after the rule")?;
        self.takes_sign('/')?;
        let mut name = vec![self.part()?];
        while self.takes_sign('/')? {
            name.push(self.part()?);
        }
        let (mut sets, mut signers) = (Vec::new(), Vec::new());
        if self.takes_sign('&')? {
            sets.push(self.set()?);
            while self.takes_sign('|')? {
                sets.push(self.set()?);
            }
        }
        if self.takes(&Token::SignedBy)? {
            signers.push(self.rule()?);
            while self.takes_sign('|')? {
                signers.push(self.rule()?);
            }
        }
        Ok(Definition { rule, name, sets, signers })
    }

    fn part(&mut self) -> Result<Part, SchemaError> {
        match self.next.clone() {
            Token::Word(word) if word.starts_with('#') => Ok(Part::Rule(self.rule().map(|_| word)?)),
            _ => Ok(match self.term("a component: a text, a pattern or a rule")? {
                Term::Value(value) => Part::Value(value),
                Term::Pattern(pattern) => Part::Pattern(pattern),
            }),
        }
    }

    fn term(&mut self, expected: &'static str) -> Result<Term, SchemaError> {
        match self.next.clone() {
            Token::Text(text) => self.value(text).map(Term::Value),
            Token::Word(word) if !word.starts_with(['#', '$']) => self.pattern().map(Term::Pattern),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn set(&mut self) -> Result<Vec<Constraint>, SchemaError> {
        self.expect('{', "{ before the constraints")?;
        let mut set = Vec::new();
        loop {
            let pattern = self.pattern()?;
            self.expect(':', "a colon after the pattern")?;
            let mut choices = vec![self.choice()?];
            while self.takes_sign('|')? {
                choices.push(self.choice()?);
            }
            set.push(Constraint { pattern, choices });
            if !self.takes_sign(',')? {
                break;
            }
        }
        self.expect('}', "} after the constraints")?;
        Ok(set)
    }

    fn choice(&mut self) -> Result<Written, SchemaError> {
        let Token::Word(word) = &self.next else {
            return self.term("a text, a pattern or a function").map(Written::Term);
        };
        if !word.starts_with('$') {
            return self.term("a text, a pattern or a function").map(Written::Term);
        }
        let function = Function::from_name(word)?;
        self.take()?;
        self.expect('(', "( after the function")?;
        let mut arguments = Vec::new();
        while !self.takes_sign(')')? {
            if !arguments.is_empty() {
                self.expect(',', "a comma between arguments")?;
            }
            arguments.push(self.term("an argument: a text or a pattern")?);
        }
        Ok(Written::Call { function, arguments })
    }
}
