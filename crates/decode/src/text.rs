//! Borrowed strings.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A JSON string, borrowed unless it has escapes; `null` reads as empty.
///
/// serde borrows a `Cow` only with an attribute on a field. Go omits empty strings, but other
/// servers may write `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a>(pub(super) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
        }

        // Only `deserialize_any` passes `null` to `visit_unit`.
        deserializer.deserialize_any(TextVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_strings_are_borrowed() {
        let text: Text<'_> = serde_json::from_str(r#""plain""#).unwrap();
        assert!(matches!(text.0, Cow::Borrowed("plain")));
        let text: Text<'_> = serde_json::from_str(r#""a\"b""#).unwrap();
        assert_eq!(&*text, "a\"b");
        let text: Text<'_> = serde_json::from_str("null").unwrap();
        assert_eq!(&*text, "");
        assert!(serde_json::from_str::<Text<'_>>("5").is_err());
    }
}
