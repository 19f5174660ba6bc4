//! Label selectors: equality, sets, existence, comparison.

use std::collections::BTreeSet;

use crate::object::Object;
use crate::status::Status;

/// A parsed label selector; empty if it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    label: String,
    wanted: Wanted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    There,
    NotThere,
    More(i64),
    Less(i64),
}

impl Labels {
    /// Reads `labelSelector`.
    ///
    /// # Errors
    ///
    /// 400 if it is malformed.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        parser.selector().map_err(|why| Status::new(400, "BadRequest", why))
    }

    /// Whether the selector matches an object.
    #[must_use]
    pub fn match_object(&self, object: &Object) -> bool {
        self.0.iter().all(|requirement| requirement.wanted.allows(object.label(&requirement.label)))
    }
}

impl Wanted {
    fn allows(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::There => value.is_some(),
            Self::NotThere => value.is_none(),
            Self::More(than) => number().is_some_and(|number| number > *than),
            Self::Less(than) => number().is_some_and(|number| number < *than),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Sign(&'a str),
}

impl<'a> Token<'a> {
    const fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Sign(text) => text,
        }
    }
}

fn tokens(mut rest: &str) -> Vec<Token<'_>> {
    let is_sign = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return tokens };
        let length = if !is_sign(first) {
            rest.find(|c: char| c.is_whitespace() || is_sign(c)).unwrap_or(rest.len())
        } else if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else {
            1
        };
        let (text, after) = rest.split_at(length);
        tokens.push(if is_sign(first) { Token::Sign(text) } else { Token::Word(text) });
        rest = after;
    }
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// The next token, for an error message.
    fn found(&self) -> &'a str {
        self.peek().map_or("", Token::text)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let there = self.peek() == Some(Token::Sign(sign));
        self.at += usize::from(there);
        there
    }

    fn selector(&mut self) -> Result<Labels, String> {
        let mut requirements = Vec::new();
        while self.peek().is_some() {
            if !matches!(self.peek(), Some(Token::Word(_) | Token::Sign("!"))) {
                return Err(format!("found '{}', expected: !, identifier, or 'end of string'", self.found()));
            }
            let requirement = self.requirement();
            requirements.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            if self.peek().is_none() {
                break;
            }
            if !self.takes(",") {
                return Err(format!("found '{}', expected: ',' or 'end of string'", self.found()));
            }
            if !matches!(self.peek(), Some(Token::Word(_) | Token::Sign("!"))) {
                return Err(format!("found '{}', expected: identifier after ','", self.found()));
            }
        }
        Ok(Labels(requirements))
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.takes("!");
        let label = match self.peek() {
            Some(Token::Word(label)) => label,
            _ => return Err(format!("found '{}', expected: identifier", self.found())),
        };
        self.at += 1;
        check_key(label)?;
        let label = label.to_owned();
        let end = matches!(self.peek(), None | Some(Token::Sign(",")));
        let wanted = match (absent, end) {
            (true, true) => Wanted::NotThere,
            (true, false) => {
                return Err(format!("found '{}', expected: ',' or 'end of string'", self.found()));
            }
            (false, true) => Wanted::There,
            (false, false) => self.wanted()?,
        };
        Ok(Requirement { label, wanted })
    }

    fn wanted(&mut self) -> Result<Wanted, String> {
        let found = self.found();
        Ok(match self.next() {
            Some(Token::Sign("=" | "==")) => Wanted::In([self.value()?].into()),
            Some(Token::Sign("!=")) => Wanted::NotIn([self.value()?].into()),
            Some(Token::Word("in")) => Wanted::In(self.values()?),
            Some(Token::Word("notin")) => Wanted::NotIn(self.values()?),
            Some(Token::Sign(">")) => Wanted::More(self.number()?),
            Some(Token::Sign("<")) => Wanted::Less(self.number()?),
            _ => return Err(format!("found '{found}', expected: '=', '!=', '==', 'in', notin'")),
        })
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            None | Some(Token::Sign(",")) => Ok(String::new()),
            Some(Token::Word(value)) => {
                self.at += 1;
                check_value(value)?;
                Ok(value.to_owned())
            }
            Some(Token::Sign(sign)) => Err(format!("found '{sign}', expected: identifier")),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| "for 'Gt', 'Lt' operators, the value must be an integer".to_owned())
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        if !self.takes("(") {
            return Err(format!("found '{}', expected: '('", self.found()));
        }
        let mut values = BTreeSet::new();
        loop {
            match self.peek() {
                Some(Token::Word(value)) => {
                    self.at += 1;
                    check_value(value)?;
                    values.insert(value.to_owned());
                    if self.takes(")") {
                        return Ok(values);
                    }
                    if !self.takes(",") {
                        return Err(format!("found '{}', expected: ',' or ')'", self.found()));
                    }
                }
                Some(Token::Sign(",")) => {
                    self.at += 1;
                    values.insert(String::new());
                }
                Some(Token::Sign(")")) => {
                    self.at += 1;
                    values.insert(String::new());
                    return Ok(values);
                }
                _ => return Err(format!("found '{}', expected: ',', ')' or identifier", self.found())),
            }
        }
    }
}

fn well_formed(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(inside)
        && edge(text.chars().next())
        && edge(text.chars().next_back())
}

fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if well_formed(name) && prefix.is_none_or(|prefix| !prefix.is_empty() && prefix.len() <= 253) {
        return Ok(());
    }
    Err(format!(
        "invalid label key \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    ))
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || well_formed(value) {
        return Ok(());
    }
    Err(format!(
        "invalid label value: \"{value}\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    ))
}
