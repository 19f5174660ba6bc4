//! The uid of an object.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::text::word;

/// The uid that the API server gave an object. Unlike a name, it is unique over time.
///
/// A uid is an opaque string that is sent back in preconditions, so its text is preserved exactly.
/// Nearly all are lower-case UUIDs, which take 16 bytes and no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uid(Repr);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Repr {
    /// A UUID in two halves whose canonical text is the uid's text. The first half is not zero,
    /// which leaves a niche for the other variant, so that the enum has 16 bytes.
    Uuid(NonZeroU64, u64),
    /// Any other text. Aggregated API servers may use any string. The pointer is thin, because
    /// every node of the graph reserves the space.
    Text(Arc<String>),
}

impl Uid {
    /// `None` if the text is empty: an object without a uid proves nothing and gets no node.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let mut canonical = [0_u8; uuid::fmt::Hyphenated::LENGTH];
        let halves = uuid::Uuid::try_parse(text)
            .ok()
            .filter(|uuid| uuid.hyphenated().encode_lower(&mut canonical) == text)
            .map(|uuid| uuid.as_u64_pair());
        Some(Self(match halves.and_then(|(high, low)| Some((NonZeroU64::new(high)?, low))) {
            Some((high, low)) => Repr::Uuid(high, low),
            None => Repr::Text(Arc::new(text.to_owned())),
        }))
    }

    /// The two halves of a UUID, or the text of another uid.
    pub(super) fn halves(&self) -> Result<(u64, u64), &str> {
        match &self.0 {
            Repr::Uuid(high, low) => Ok((high.get(), *low)),
            Repr::Text(text) => Err(text),
        }
    }
}

impl Uid {
    /// The uid for people, truncated, because references may have texts of any length.
    pub fn shown(&self) -> impl fmt::Display {
        struct TruncatedUid<'a>(&'a Uid);
        impl fmt::Display for TruncatedUid<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match &self.0.0 {
                    Repr::Text(text) => word(text).fmt(f),
                    Repr::Uuid(..) => self.0.fmt(f),
                }
            }
        }
        TruncatedUid(self)
    }

    /// The bytes that its text allocates.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        match &self.0 {
            Repr::Uuid(..) => 0,
            Repr::Text(text) => text.len(),
        }
    }
}

impl Hash for Uid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Uuid(high, low) => {
                state.write_u64(high.get());
                state.write_u64(*low);
            }
            Repr::Text(text) => text.hash(state),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Uuid(high, low) => uuid::Uuid::from_u64_pair(high.get(), *low).hyphenated().fmt(f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 7.4.
    #[test]
    fn every_uid_round_trips() {
        for text in [
            "0b1e5c1e-9b1a-4b58-8b7e-0f4b7a7e9d10",
            "0B1E5C1E-9B1A-4B58-8B7E-0F4B7A7E9D10",
            "0b1e5c1e9b1a4b588b7e0f4b7a7e9d10",
            "{0b1e5c1e-9b1a-4b58-8b7e-0f4b7a7e9d10}",
            "00000000-0000-0000-8b7e-0f4b7a7e9d10",
            "00000000-0000-0000-0000-000000000000",
            "00000000-0000-0001-0000-000000000000",
            "not a uuid at all",
            "x",
        ] {
            assert_eq!(Uid::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn only_the_canonical_text_is_compact() {
        let canonical = Uid::parse("0b1e5c1e-9b1a-4b58-8b7e-0f4b7a7e9d10").unwrap();
        let upper = Uid::parse("0B1E5C1E-9B1A-4B58-8B7E-0F4B7A7E9D10").unwrap();
        assert_ne!(canonical, upper, "a uid is opaque and case-sensitive");
    }

    #[test]
    fn a_uid_is_small() {
        assert_eq!(size_of::<Uid>(), 16);
    }

    #[test]
    fn an_empty_uid_is_none() {
        assert_eq!(Uid::parse(""), None);
    }
}
