//! Parts of JSON documents, read strictly: an array is no object, and `null` is a missing field.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A struct that is read only from a JSON object.
///
/// serde also reads a struct from an array, by position: `["PodList"]` would read as an empty
/// list of pods, and all pods would count as gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyed<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Keyed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyedVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for KeyedVisitor<T> {
            type Value = Keyed<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Keyed)
            }
        }

        deserializer.deserialize_map(KeyedVisitor(PhantomData))
    }
}

/// For a field that may be `null`: Go serializes nil slices and maps that way.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// For a field of a struct that is an object or `null`.
pub fn keyed_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<Keyed<T>>::deserialize(deserializer)
        .map(|keyed| keyed.map(|Keyed(read)| read).unwrap_or_default())
}

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
        #[derive(serde::Deserialize)]
        struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

        let text = Option::deserialize(deserializer)?;
        Ok(Self(text.map(|Borrowed(text)| text).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    struct Pair {
        a: u8,
        #[serde(default)]
        b: u8,
    }

    #[test]
    fn an_array_is_no_object() {
        assert_eq!(serde_json::from_str::<Pair>("[1]").unwrap(), Pair { a: 1, b: 0 }, "serde as it is");
        assert!(serde_json::from_str::<Keyed<Pair>>("[1]").is_err());
        assert_eq!(serde_json::from_str::<Keyed<Pair>>(r#"{"a":1}"#).unwrap().0, Pair { a: 1, b: 0 });
        assert!(serde_json::from_str::<Keyed<Pair>>("null").is_err());
    }

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
