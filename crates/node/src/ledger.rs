//! When an image was first seen and when it was last used: what has to survive a restart (B4).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::images::Users;
use crate::view::Extent;
use crate::{PodView, RuntimeView, Timestamp};

/// The version that this program writes.
const VERSION: u32 = 1;
/// The most images that a ledger may have. No node has nearly so many.
const MOST: usize = 100_000;
/// The longest state file, in bytes.
pub const LONGEST: usize = 32 << 20;

/// The ages of the images, by [`crate::view::Image::key`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    images: BTreeMap<String, Record>,
}

/// The age of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When it was first seen on the node.
    pub first_detected: Timestamp,
    /// When it was last seen in use; nothing if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
}

/// The content of `state.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    images: BTreeMap<String, Record>,
}

/// Why a state file cannot be used. The caller warns and begins with an empty ledger.
#[derive(Debug, thiserror::Error)]
pub enum Damaged {
    /// Not what this program writes.
    #[error("the state file is damaged: {0}")]
    Syntax(#[from] serde_json::Error),
    /// From a later version of this program.
    #[error("the state file has version {0}, and this program knows only version {VERSION}")]
    Version(u32),
    /// Far more than a node can have.
    #[error("the state file is too large: {0}")]
    TooLarge(String),
}

impl Ledger {
    /// Reads the content of a state file.
    ///
    /// # Errors
    /// If it is damaged, too large, or of another version.
    pub fn parse(content: &[u8]) -> Result<Self, Damaged> {
        /// Only the version, whatever else a later one may say.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }

        if content.len() > LONGEST {
            return Err(Damaged::TooLarge(format!("{} bytes", content.len())));
        }
        let Versioned { version } = serde_json::from_slice(content)?;
        if version != VERSION {
            return Err(Damaged::Version(version));
        }
        let Stored { images, .. } = serde_json::from_slice(content)?;
        if images.len() > MOST {
            return Err(Damaged::TooLarge(format!("{} images", images.len())));
        }
        Ok(Self { images })
    }

    /// The content of a state file.
    ///
    /// # Errors
    /// Never in practice: there is nothing in it that JSON lacks.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Stored { version: VERSION, images: self.images.clone() })
    }

    /// Enters what is seen now: new images, and which ones are used. Forgets images that are gone,
    /// unless the list of images is incomplete.
    ///
    /// Moments that are still to come, after the clock went back, count as now.
    pub fn observe(&mut self, runtime: &RuntimeView, pods: &PodView, now: Timestamp) {
        let users = Users::of(runtime, pods);
        let mut seen = BTreeMap::new();
        for image in runtime.images.iter().filter(|image| !image.id.is_empty()) {
            let key = image.key();
            let old = self.images.get(&key);
            let first_detected = old.map_or(now, |old| old.first_detected.min(now));
            let last_used = old.and_then(|old| old.last_used).map(|used| used.min(now));
            let last_used = if users.uses(image) { Some(now) } else { last_used };
            seen.insert(key, Record { first_detected, last_used });
            if seen.len() == MOST {
                break;
            }
        }
        match runtime.images_extent {
            Extent::Whole => self.images = seen,
            Extent::Slice => self.images.extend(seen),
        }
    }

    /// What is known of an image.
    #[must_use]
    pub fn record(&self, key: &str) -> Option<Record> {
        self.images.get(key).copied()
    }

    /// Sets what is known of an image.
    pub fn set(&mut self, key: &str, record: Record) {
        self.images.insert(key.to_owned(), record);
    }

    /// How many images are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether no image is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{container, image};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn first_and_last_use_survive_a_restart() {
        let mut runtime = RuntimeView { images: vec![image("a"), image("b")], ..RuntimeView::default() };
        runtime.containers.push(container("c1", "uid", "web", "a"));
        let mut ledger = Ledger::default();
        ledger.observe(&runtime, &PodView::None, at(100));
        runtime.containers.clear();
        let mut ledger = Ledger::parse(&ledger.to_json().unwrap()).unwrap();
        ledger.observe(&runtime, &PodView::None, at(200));
        assert_eq!(ledger.record("a"), Some(Record { first_detected: at(100), last_used: Some(at(100)) }));
        assert_eq!(ledger.record("b"), Some(Record { first_detected: at(100), last_used: None }));
    }

    #[test]
    fn an_image_that_comes_back_is_new() {
        let mut ledger = Ledger::default();
        let with = RuntimeView { images: vec![image("a")], ..RuntimeView::default() };
        ledger.observe(&with, &PodView::None, at(100));
        ledger.observe(&RuntimeView::default(), &PodView::None, at(200));
        assert!(ledger.is_empty());
        ledger.observe(&with, &PodView::None, at(300));
        assert_eq!(ledger.record("a").unwrap().first_detected, at(300));
    }

    #[test]
    fn an_incomplete_list_makes_nothing_forgotten() {
        let mut ledger = Ledger::default();
        let with = RuntimeView { images: vec![image("a")], ..RuntimeView::default() };
        ledger.observe(&with, &PodView::None, at(100));
        let slice = RuntimeView { images_extent: Extent::Slice, ..RuntimeView::default() };
        ledger.observe(&slice, &PodView::None, at(200));
        assert_eq!(ledger.len(), 1);
    }

    #[test]
    fn after_the_clock_went_back_an_image_is_as_young_as_can_be() {
        let mut ledger = Ledger::default();
        let with = RuntimeView { images: vec![image("a")], ..RuntimeView::default() };
        ledger.observe(&with, &PodView::None, at(1000));
        ledger.observe(&with, &PodView::None, at(10));
        assert_eq!(ledger.record("a").unwrap().first_detected, at(10));
    }

    #[test]
    fn a_damaged_state_file_is_an_error_and_not_an_empty_ledger() {
        for content in ["", "{", "[]", "{\"version\":1}", "{\"version\":1,\"images\":{\"a\":7}}", "\u{0}"] {
            assert!(matches!(Ledger::parse(content.as_bytes()), Err(Damaged::Syntax(_))), "{content}");
        }
        let later = br#"{"version":2,"layers":[]}"#;
        assert!(matches!(Ledger::parse(later), Err(Damaged::Version(2))));
        let huge = vec![b' '; LONGEST + 1];
        assert!(matches!(Ledger::parse(&huge), Err(Damaged::TooLarge(_))));
    }
}
