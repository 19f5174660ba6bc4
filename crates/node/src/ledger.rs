//! When an image was first seen and when it was last used: what has to survive a restart (B4).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::users::Users;
use crate::view::Extent;
use crate::{PodView, RuntimeView, Timestamp};

/// The version that this program writes.
const VERSION: u32 = 1;
/// The most images that a ledger may have. No node has nearly so many.
const MOST: usize = 100_000;
/// How precisely the state file has the last use of an image, in nanoseconds. A file that is written whenever
/// an image is in use would wear out flash memory.
const PRECISION: i64 = 300_000_000_000;
/// The longest state file, in bytes.
pub const LONGEST: usize = 32 << 20;

/// The ages of the images, by [`crate::view::Image::key`].
#[derive(Clone, Debug, Default, PartialEq)]
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
struct Stored<M> {
    version: u32,
    images: M,
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
        let Stored::<BTreeMap<String, Record>> { images, .. } = serde_json::from_slice(content)?;
        if images.len() > MOST {
            return Err(Damaged::TooLarge(format!("{} images", images.len())));
        }
        Ok(Self { images })
    }

    /// The content of a state file: the same until there is something that is worth writing.
    ///
    /// # Errors
    /// Never in practice: there is nothing in it that JSON lacks.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let rounded = |used: Timestamp| Timestamp::from_nanos(used.nanos() - used.nanos() % PRECISION);
        let images = self
            .images
            .iter()
            .map(|(key, record)| (key, Record { last_used: record.last_used.map(rounded), ..*record }));
        let images: BTreeMap<&String, Record> = images.collect();
        serde_json::to_vec(&Stored { version: VERSION, images })
    }

    /// Enters what is seen now: new images, and which ones are used. Forgets images that are gone,
    /// unless the list of images is incomplete.
    ///
    /// Moments that are still to come, after the clock went back, count as now.
    pub fn observe(&mut self, runtime: &RuntimeView, pods: &PodView, now: Timestamp) {
        let users = Users::of(runtime, pods);
        let clamped = |record: Record| Record {
            first_detected: record.first_detected.min(now),
            last_used: record.last_used.map(|used| used.min(now)),
        };
        let mut next = BTreeMap::new();
        if runtime.images_extent == Extent::Slice {
            next.extend(self.images.iter().map(|(key, record)| (key.clone(), clamped(*record))));
        }
        for image in runtime.images.iter().filter(|image| !image.id.is_empty()) {
            let key = image.key();
            let known = next.get(&*key).or_else(|| self.images.get(&*key));
            if known.is_none() && next.len() >= MOST {
                continue;
            }
            let new = Record { first_detected: now, last_used: None };
            let mut record = clamped(known.copied().unwrap_or(new));
            record.last_used = users.uses(image).then_some(now).or(record.last_used);
            next.insert(key.into_owned(), record);
        }
        self.images = next;
    }

    /// What is known of an image.
    pub fn record(&self, key: &str) -> Option<Record> {
        self.images.get(key).copied()
    }

    /// Sets what is known of an image.
    pub fn set(&mut self, key: &str, record: Record) {
        self.images.insert(key.to_owned(), record);
    }

    /// How many images are known.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether no image is known.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{container, image};
    use crate::view::Image;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn first_and_last_use_survive_a_restart() {
        let mut runtime = RuntimeView { images: vec![image("a"), image("b")], ..RuntimeView::default() };
        runtime.containers.push(container("c1", "uid", "web", "a"));
        let mut ledger = Ledger::default();
        ledger.observe(&runtime, &PodView::None, at(1000));
        runtime.containers.clear();
        let mut ledger = Ledger::parse(&ledger.to_json().unwrap()).unwrap();
        ledger.observe(&runtime, &PodView::None, at(2000));
        // To within five minutes.
        assert_eq!(ledger.record("a"), Some(Record { first_detected: at(1000), last_used: Some(at(900)) }));
        assert_eq!(ledger.record("b"), Some(Record { first_detected: at(1000), last_used: None }));
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
    fn what_a_runtime_lists_beyond_the_limit_is_not_kept() {
        let images = (0..=MOST).map(|number| image(&format!("{number:06}"))).collect();
        let mut ledger = Ledger::default();
        ledger.observe(&RuntimeView { images, ..RuntimeView::default() }, &PodView::None, at(100));
        assert_eq!(ledger.len(), MOST);
        assert!(ledger.record("000000").is_some(), "the first ones");
        assert_eq!(ledger.record(&format!("{MOST:06}")), None);
    }

    #[test]
    fn an_image_that_is_listed_twice_is_used_if_one_of_them_is() {
        let tag = "registry.example/web:1";
        let (named, nameless) = (Image { repo_tags: vec![tag.to_owned()], ..image("a") }, image("a"));
        for images in [vec![named.clone(), nameless.clone()], vec![nameless, named]] {
            let mut runtime = RuntimeView { images, ..RuntimeView::default() };
            runtime.containers.push(container("c1", "uid", "web", tag));
            let mut ledger = Ledger::default();
            ledger.observe(&runtime, &PodView::None, at(100));
            assert_eq!(ledger.record("a").unwrap().last_used, Some(at(100)));
        }
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

    #[test]
    fn the_file_has_something_new_for_new_images_and_every_few_minutes_for_used_ones() {
        let mut runtime = RuntimeView { images: vec![image("a"), image("b")], ..RuntimeView::default() };
        runtime.containers.push(container("c", "u", "web", "a"));
        let mut ledger = Ledger::default();
        let mut content = |runtime: &RuntimeView, now| {
            ledger.observe(runtime, &PodView::None, now);
            ledger.to_json().unwrap()
        };
        let first = content(&runtime, at(600));
        assert_eq!(content(&runtime, at(899)), first);
        let later = content(&runtime, at(900));
        assert_ne!(later, first);
        runtime.images.remove(1);
        assert_ne!(content(&runtime, at(901)), later);
    }
}
