//! The objects of one type and their history.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::object::{Key, Object};
use crate::store::{Change, Compacted};

/// The objects of one type, current and as far back as the history is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) objects: BTreeMap<Key, Object>,
    history: VecDeque<Arc<Change>>,
    /// All changes after this version are kept.
    oldest: u64,
    /// The version of the newest change.
    last: u64,
    frozen: Option<Cached>,
}

/// The state of a frozen watch cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The cache contains all changes up to this version.
    pub version: u64,
    /// The newest change of the type in the cache.
    pub last: u64,
}

impl Table {
    /// The table of a restored store: objects without a history.
    pub(super) fn restored(objects: BTreeMap<Key, Object>, head: u64) -> Self {
        Self { objects, oldest: head, last: head, ..Self::default() }
    }

    pub(super) fn cached(&self, head: u64) -> Cached {
        self.frozen.unwrap_or(Cached { version: head, last: self.last })
    }

    pub(super) fn freeze(&mut self, head: u64) {
        self.frozen.get_or_insert(Cached { version: head, last: self.last });
    }

    pub(super) fn fall_behind(&mut self, version: u64) -> bool {
        if version < self.oldest || self.frozen.is_some() {
            return false;
        }
        let before = self.history.iter().rev().map(|change| change.version).find(|known| *known <= version);
        self.frozen = Some(Cached { version, last: before.unwrap_or(self.oldest) });
        true
    }

    pub(super) fn thaw(&mut self, limit: usize) {
        self.frozen = None;
        self.forget(limit);
    }

    /// Adds a change to the history.
    pub(super) fn record(&mut self, change: Arc<Change>, limit: usize) {
        self.last = change.version;
        self.history.push_back(change);
        self.forget(limit);
    }

    /// Drops the history up to a version.
    pub(super) fn compact(&mut self, up_to: u64) {
        self.oldest = self.oldest.max(up_to);
        self.forget(usize::MAX);
    }

    /// The changes since the version of a frozen cache are kept, however old they are.
    fn forget(&mut self, limit: usize) {
        while let Some(first) = self.history.front() {
            let superfluous = self.history.len() > limit || first.version <= self.oldest;
            let shown = self.frozen.is_none_or(|frozen| first.version <= frozen.version);
            if !superfluous || !shown {
                break;
            }
            self.oldest = self.oldest.max(first.version);
            self.history.pop_front();
        }
    }

    fn after(&self, version: u64) -> impl DoubleEndedIterator<Item = &Arc<Change>> {
        let start = self.history.partition_point(|change| change.version <= version);
        self.history.range(start..)
    }

    pub(super) fn changes_since(
        &self,
        version: u64,
    ) -> Result<impl Iterator<Item = &Arc<Change>> + use<'_>, Compacted> {
        if version < self.oldest && self.frozen.is_none_or(|frozen| version < frozen.version) {
            return Err(Compacted { asked: version, oldest: self.oldest });
        }
        Ok(self.after(version))
    }

    pub(super) fn at(&self, version: u64) -> Result<Past<'_>, Compacted> {
        let lagging = self.frozen.is_some_and(|frozen| frozen.version == version);
        if version < self.oldest && !lagging {
            return Err(Compacted { asked: version, oldest: self.oldest });
        }
        let mut objects = Cow::Borrowed(&self.objects);
        for change in self.after(version).rev() {
            match &change.before {
                Some(before) => objects.to_mut().insert(change.key.clone(), before.clone()),
                None => objects.to_mut().remove(&change.key),
            };
        }
        Ok(Past(objects))
    }
}

/// The objects of a type at a version: the current ones, or a copy with the later changes undone.
#[derive(Debug)]
pub struct Past<'a>(Cow<'a, BTreeMap<Key, Object>>);

impl<'a> Past<'a> {
    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Object> {
        self.0.get(key)
    }

    /// The objects from a key on, in order, optionally of one namespace only.
    pub fn range<'b>(
        &'b self,
        namespace: Option<&'b str>,
        from: Bound<&Key>,
    ) -> impl Iterator<Item = (&'b Key, &'b Object)> + use<'a, 'b> {
        let start = namespace.map(|namespace| Key::new(Some(namespace), ""));
        let from = match (from, &start) {
            (Bound::Unbounded, Some(start)) => Bound::Included(start),
            (from, _) => from,
        };
        let objects = self.0.range::<Key, _>((from, Bound::Unbounded));
        objects.take_while(move |(key, _)| namespace.is_none() || key.namespace.as_deref() == namespace)
    }
}
