//! The names of nodes. All names of an arena chunk share one allocation.
//!
//! An allocation per name would cost a pointer, a length and the allocator's overhead, together
//! about as much as the name itself.

/// The position of a node's name in the text of its chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Name {
    start: u32,
    length: u32,
}

impl Name {
    fn new(start: usize, length: usize) -> Self {
        #[expect(clippy::expect_used, reason = "no API server sends names of gigabytes")]
        let number = |number| u32::try_from(number).expect("the names of a chunk are less than 4 GiB");
        Self { start: number(start), length: number(length) }
    }

    const fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

/// The names of one chunk.
#[derive(Debug, Default)]
struct Page {
    text: String,
    /// The bytes of removed names.
    unused: usize,
}

/// The least growth of a text. A full page has about 4,000 bytes.
const MIN_GROWTH: usize = 128;
/// A new page reserves as much as the previous one uses, because names of one type follow each
/// other, up to this limit.
const MAX_FIRST_GROWTH: usize = 64 * MIN_GROWTH;

impl Page {
    const fn used(&self) -> usize {
        self.text.len() - self.unused
    }

    /// Rewrites the text without the removed names, with this much spare capacity.
    fn compact<'a>(&mut self, names: impl Iterator<Item = &'a mut Name>, room: usize) {
        let used = self.used();
        let old = std::mem::replace(self, Self { text: String::with_capacity(used + room), unused: 0 });
        for name in names {
            let text = &old.text[name.range()];
            *name = Name::new(self.text.len(), text.len());
            self.text.push_str(text);
        }
        debug_assert_eq!(self.text.len(), used, "names are lost, or there twice");
    }
}

/// The names of all nodes.
#[derive(Debug, Default)]
pub(super) struct Names {
    pages: Vec<Page>,
    used: usize,
}

impl Names {
    pub(super) fn get(&self, chunk: usize, name: Name) -> &str {
        self.pages.get(chunk).map_or("", |page| &page.text[name.range()])
    }

    /// Adds a name to a chunk. `others` are the names of the chunk's nodes.
    pub(super) fn insert<'a>(
        &mut self,
        chunk: usize,
        text: &str,
        others: impl Iterator<Item = &'a mut Name>,
    ) -> Name {
        if self.pages.len() <= chunk {
            self.pages.resize_with(chunk + 1, Page::default);
        }
        let before = chunk.checked_sub(1).map_or(0, |before| self.pages[before].used());
        let page = &mut self.pages[chunk];
        if page.text.capacity() - page.text.len() < text.len() {
            let usual =
                if page.text.capacity() == 0 { before.min(MAX_FIRST_GROWTH) } else { page.used() / 32 };
            let room = text.len().max(MIN_GROWTH).max(usual);
            if page.unused > page.text.len() / 8 {
                page.compact(others, room);
            } else {
                page.text.reserve_exact(room);
            }
        }
        let name = Name::new(page.text.len(), text.len());
        page.text.push_str(text);
        self.used += text.len();
        name
    }

    /// Removes a name from a chunk. `others` are the names of the chunk's remaining nodes.
    pub(super) fn remove<'a>(
        &mut self,
        chunk: usize,
        name: Name,
        others: impl Iterator<Item = &'a mut Name>,
    ) {
        let Some(page) = self.pages.get_mut(chunk) else { return };
        page.unused += name.range().len();
        self.used -= name.range().len();
        let pays_off = page.unused > page.text.len() / 2 && page.text.capacity() > MIN_GROWTH;
        if pays_off || page.used() == 0 {
            page.compact(others, 0);
        }
    }

    /// The length of all names.
    #[cfg(any(test, feature = "test-util"))]
    pub(super) const fn used(&self) -> usize {
        self.used
    }

    /// The memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Page>()
            + self.pages.iter().map(|page| page.text.capacity()).sum::<usize>()
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn check(&self) {
        assert_eq!(self.pages.iter().map(Page::used).sum::<usize>(), self.used);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::arena::Arena;
    use super::*;

    #[test]
    fn unused_capacity_is_freed() {
        let (mut names, mut used) = (Names::default(), Vec::new());
        for number in 0..128 {
            let name = names.insert(3, &format!("a-name-with-thirty-letters-{number:03}"), used.iter_mut());
            used.push(name);
        }
        let full = names.bytes();
        while let Some(name) = used.pop() {
            names.remove(3, name, used.iter_mut());
            names.check();
            let most = 2 * names.used() + MIN_GROWTH + full / 32 + names.pages.capacity() * size_of::<Page>();
            assert!(names.bytes() <= most, "{} for {}", names.bytes(), names.used());
        }
        assert_eq!(names.pages[3].text.capacity(), 0);
        assert_eq!(names.get(3, Name::default()), "");
    }

    #[test]
    fn names_that_come_and_go_do_not_use_more_memory() {
        let (mut names, mut used) = (Names::default(), Vec::new());
        for number in 0..100_000 {
            let name = names.insert(0, &format!("pod-{number:020}"), used.iter_mut());
            used.push(name);
            if used.len() == 128 {
                // The oldest, the youngest, one in between.
                let name = used.swap_remove(number % 3 * 63);
                names.remove(0, name, used.iter_mut());
            }
        }
        assert!(names.bytes() < 2 * names.used(), "{} for {}", names.bytes(), names.used());
    }

    proptest! {
        /// The names of slots of an arena that are freed and used again, as in the store.
        #[test]
        fn every_name_is_kept_unchanged(steps in prop::collection::vec((0..3_u8, any::<u16>(), "[a-zü]{0,90}"), 0..600)) {
            let mut arena = Arena::default();
            let mut names = Names::default();
            let mut model = BTreeMap::new();
            for (step, which, text) in steps {
                let known = model.keys().nth(usize::from(which) % model.len().max(1)).copied();
                let id = match (step, known) {
                    (0, Some(id)) => {
                        model.remove(&id);
                        let name = arena.remove(id).unwrap();
                        names.remove(id.chunk(), name, arena.chunk_mut(id));
                        continue;
                    }
                    (1, Some(id)) => {
                        let name = std::mem::take(&mut arena[id]);
                        names.remove(id.chunk(), name, arena.chunk_mut(id));
                        id
                    }
                    _ => arena.insert(Name::default()),
                };
                let name = names.insert(id.chunk(), &text, arena.chunk_mut(id));
                arena[id] = name;
                model.insert(id, text);
                names.check();
            }
            for (id, text) in &model {
                prop_assert_eq!(names.get(id.chunk(), arena[*id]), text);
            }
            prop_assert_eq!(names.used(), model.values().map(String::len).sum::<usize>());
        }
    }
}
