//! The wire format: a message consists of fields, and a field is a number or bytes.

use super::{Text, text};

/// Why a message cannot be read. Completes "the message …".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed protobuf: the message {0}")]
pub struct Malformed(pub &'static str);

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A varint.
    Number(u64),
    /// A string, a message, or bytes.
    Bytes(&'a [u8]),
    /// A number of fixed length. No field that is needed has one.
    Fixed,
}

impl<'a> Value<'a> {
    pub fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(WRONG_TYPE),
        }
    }

    pub fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(WRONG_TYPE),
        }
    }

    pub fn flag(self) -> Result<bool, Malformed> {
        self.number().map(|number| number != 0)
    }
}

const WRONG_TYPE: Malformed = Malformed("has a field of the wrong type");
const CUT_OFF: Malformed = Malformed("is cut off");

/// The head of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the field.
    pub number: u64,
    /// The value, or its length.
    pub content: Content,
    /// The length of the head; of a varint, that of the whole field.
    pub length: usize,
}

/// The value of a field, or its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// This number.
    Number(u64),
    /// This many bytes after the head.
    Bytes(u64),
    /// A number of this many bytes after the head.
    Fixed(u64),
}

impl Head {
    /// Reads a head; `None` if it is incomplete.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let Some((tag, start)) = varint(bytes)? else { return Ok(None) };
        let number = tag >> 3;
        if number == 0 || number >= 1 << 29 {
            return Err(Malformed("has a field with an invalid number"));
        }
        let head = |content, length| Ok(Some(Self { number, content, length }));
        match tag & 7 {
            0 | 2 => match varint(&bytes[start..])? {
                None => Ok(None),
                Some((value, length)) if tag & 7 == 0 => head(Content::Number(value), start + length),
                Some((value, length)) => head(Content::Bytes(value), start + length),
            },
            1 => head(Content::Fixed(8), start),
            5 => head(Content::Fixed(4), start),
            _ => Err(Malformed("has a field of an unknown type")),
        }
    }

    /// The number of bytes after the head.
    pub fn follow(&self) -> u64 {
        match self.content {
            Content::Number(_) => 0,
            Content::Bytes(length) | Content::Fixed(length) => length,
        }
    }
}

/// A varint and its length; `None` if it is incomplete.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, Malformed> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        // The tenth byte has one significant bit.
        if index == 9 && *byte > 1 {
            return Err(Malformed("has a number that is too long"));
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    Ok(None)
}

/// The fields of a complete message, in order.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The next field: its number and value.
    pub fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let head = Head::read(self.0)?.ok_or(CUT_OFF)?;
        let content = &self.0[head.length..];
        let follow = usize::try_from(head.follow()).map_err(|_| CUT_OFF)?;
        let (content, rest) = content.split_at_checked(follow).ok_or(CUT_OFF)?;
        self.0 = rest;
        let value = match head.content {
            Content::Number(number) => Value::Number(number),
            Content::Bytes(_) => Value::Bytes(content),
            Content::Fixed(_) => Value::Fixed,
        };
        Ok(Some((head.number, value)))
    }
}

/// A field that may come once.
#[derive(Clone, Copy, Debug)]
pub struct Once<T>(Option<T>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Once<T> {
    /// It would be unclear which of two values holds.
    pub fn set(&mut self, value: T) -> Result<(), Malformed> {
        match self.0.replace(value) {
            None => Ok(()),
            Some(_) => Err(Malformed("has a field twice")),
        }
    }

    pub fn get(self) -> Option<T> {
        self.0
    }

    pub fn required(self) -> Result<T, Malformed> {
        self.0.ok_or(Malformed("lacks a field"))
    }
}

impl<'a> Once<&'a [u8]> {
    /// The string in the field; empty if the field is missing.
    pub fn text(self) -> Text<'a> {
        text(self.0.unwrap_or_default())
    }
}
