//! The objects of one type at an earlier version.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use super::change::Change;
use crate::object::{Key, Object};

/// The current objects, with the later changes undone.
#[derive(Debug)]
pub struct Past<'a> {
    objects: Option<&'a BTreeMap<Key, Object>>,
    undone: BTreeMap<&'a Key, Option<&'a Object>>,
}

impl<'a> Past<'a> {
    /// A type that never had objects.
    pub(super) const fn empty() -> Self {
        Self { objects: None, undone: BTreeMap::new() }
    }

    /// Undoes changes, given newest first.
    pub(super) fn undo(
        objects: &'a BTreeMap<Key, Object>,
        changes: impl Iterator<Item = &'a Arc<Change>>,
    ) -> Self {
        let undone = changes.map(|change| (&change.key, change.before.as_ref())).collect();
        Self { objects: Some(objects), undone }
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&'a Object> {
        match self.undone.get(key) {
            Some(before) => *before,
            None => self.objects?.get(key),
        }
    }

    /// The objects from a key on, in order, optionally of one namespace only.
    pub fn range<'b>(
        &'b self,
        namespace: Option<&'b str>,
        from: Bound<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Object)> + use<'a, 'b> {
        let start = namespace.map(|namespace| Key::new(Some(namespace), ""));
        let from = match (from, &start) {
            (Bound::Unbounded, Some(start)) => Bound::Included(start),
            (from, _) => from,
        };
        let bounds = (from, Bound::Unbounded);
        let now = self.objects.map(|objects| objects.range::<Key, _>(bounds)).into_iter().flatten();
        let now = now.map(|(key, object)| (key, Some(object)));
        let then = self.undone.range::<Key, _>(bounds).map(|(key, object)| (*key, *object));
        Merged { now: now.peekable(), then: then.peekable() }
            .take_while(move |(key, _)| namespace.is_none() || key.namespace.as_deref() == namespace)
            .filter_map(|(key, object)| Some((key, object?)))
    }
}

type Entry<'a> = (&'a Key, Option<&'a Object>);

/// Merges two ordered sequences. If both have a key, the second one wins.
struct Merged<A: Iterator, B: Iterator> {
    now: Peekable<A>,
    then: Peekable<B>,
}

impl<'a, A: Iterator<Item = Entry<'a>>, B: Iterator<Item = Entry<'a>>> Iterator for Merged<A, B> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let Some((then, _)) = self.then.peek() else { return self.now.next() };
        match self.now.peek().map(|(now, _)| now.cmp(then)) {
            Some(std::cmp::Ordering::Less) => self.now.next(),
            Some(std::cmp::Ordering::Equal) => {
                self.now.next();
                self.then.next()
            }
            Some(std::cmp::Ordering::Greater) | None => self.then.next(),
        }
    }
}
