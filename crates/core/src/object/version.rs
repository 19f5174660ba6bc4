//! Resource versions.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// The `resourceVersion` of an object or a list.
///
/// Those of the Kubernetes API server are decimal numbers that grow with every write and can be
/// compared (KEP-5504). Aggregated API servers may use any text. Such texts are preserved, and are
/// equal or not comparable.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Number(u64),
    Text(Arc<String>),
}

impl ResourceVersion {
    /// `None` if the text is empty, or `"0"`, which means "any version" in requests.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text == "0" {
            return None;
        }
        let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        match text.parse() {
            Ok(number) if canonical => Some(Self(Repr::Number(number))),
            _ => Some(Self(Repr::Text(Arc::new(text.to_owned())))),
        }
    }

    /// Like [`parse`](Self::parse), but only a version that can be compared with others.
    #[must_use]
    pub fn parse_number(text: &str) -> Option<Self> {
        Self::parse(text).filter(|version| version.as_number().is_some())
    }

    /// A numeric version, as the Kubernetes API server has them.
    #[must_use]
    pub const fn number(number: u64) -> Self {
        Self(Repr::Number(number))
    }

    #[must_use]
    pub const fn as_number(&self) -> Option<u64> {
        match self.0 {
            Repr::Number(number) => Some(number),
            Repr::Text(_) => None,
        }
    }

    /// Whether `self` is known to be later than `other`. False if the two cannot be compared.
    #[must_use]
    pub fn is_after(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Greater)
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (&self.0, &other.0) {
            (Repr::Number(a), Repr::Number(b)) => Some(a.cmp(b)),
            (Repr::Text(a), Repr::Text(b)) if a == b => Some(Ordering::Equal),
            _ => None,
        }
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(number) => number.fmt(f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ResourceVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_as_numbers() {
        let nine = ResourceVersion::parse("9").unwrap();
        let ten = ResourceVersion::parse("10").unwrap();
        assert!(ten.is_after(&nine));
        assert!(!nine.is_after(&ten));
        assert!(!ten.is_after(&ten));
    }

    #[test]
    fn versions_that_are_texts_are_kept_and_not_ordered() {
        let a = ResourceVersion::parse("a").unwrap();
        let padded = ResourceVersion::parse("010").unwrap();
        let huge = ResourceVersion::parse("99999999999999999999999").unwrap();
        assert_eq!(padded.to_string(), "010");
        assert_eq!(huge.to_string(), "99999999999999999999999");
        assert!(!a.is_after(&padded) && !padded.is_after(&a));
    }

    #[test]
    fn a_version_is_small() {
        assert_eq!(size_of::<Option<ResourceVersion>>(), 16);
    }

    #[test]
    fn only_numbers_can_be_waited_for() {
        assert_eq!(ResourceVersion::parse_number("10"), Some(ResourceVersion::number(10)));
        for text in ["", "0", "010", "-1", "+1", " 1", "1.5", "1e3", "newest", "18446744073709551616"] {
            assert_eq!(ResourceVersion::parse_number(text), None, "{text}");
        }
    }

    #[test]
    fn empty_and_zero_are_not_versions() {
        assert_eq!(ResourceVersion::parse(""), None);
        assert_eq!(ResourceVersion::parse("0"), None);
    }
}
