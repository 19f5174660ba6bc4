//! Detects paged lists that would never end.

/// The longest continue token. A longer one would exceed the length of a URL.
const LONGEST_TOKEN: usize = 16 << 10;

/// How many pages in a row may be empty. A page is empty when the API server finds nothing in
/// a part of the collection.
const EMPTY_PAGES: u32 = 100;

/// The greatest number of objects of a type that an aggregated API may list. The API server's
/// own types are bounded by its store.
pub const OBJECTS_OF_AGGREGATED: u64 = 1_000_000;

/// The pages of one list.
#[derive(Debug, Default)]
pub struct Pagination {
    last: String,
    empty: u32,
}

impl Pagination {
    /// Whether a page with this token can follow the present one.
    pub fn allows(&self, token: &str) -> bool {
        !token.is_empty() && token.len() <= LONGEST_TOKEN && token != self.last
    }

    /// Notes a page's number of objects and its continue token.
    ///
    /// # Errors
    ///
    /// The list would never end.
    pub fn go_on(&mut self, token: &str, objects: usize) -> Result<(), &'static str> {
        self.empty = if objects == 0 { self.empty + 1 } else { 0 };
        if token.is_empty() {
            return Ok(());
        }
        if token.len() > LONGEST_TOKEN {
            return Err("the continue token is longer than 16 KiB");
        }
        if token == self.last {
            return Err("the API server returned the same continue token twice: the list would never end");
        }
        if self.empty >= EMPTY_PAGES {
            return Err("100 pages in a row were empty: the list would never end");
        }
        token.clone_into(&mut self.last);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_with_more_pages_continues() {
        let mut pages = Pagination::default();
        for page in 0..1000 {
            pages.go_on(&page.to_string(), page % 100).unwrap();
        }
        pages.go_on("", 0).unwrap();
    }

    #[test]
    fn a_list_that_would_never_end_is_an_error() {
        let mut pages = Pagination::default();
        pages.go_on("a", 1).unwrap();
        assert!(pages.go_on("a", 1).is_err());
        let mut pages = Pagination::default();
        let ends = (0..1000).find(|page| pages.go_on(&page.to_string(), 0).is_err());
        assert_eq!(ends, Some(99));
        assert!(Pagination::default().go_on(&"a".repeat(LONGEST_TOKEN + 1), 1).is_err());
    }
}
