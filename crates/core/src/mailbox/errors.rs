//! The error texts of failing keys, in bounded memory.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::text::{LONGEST, excerpt};

/// The limit for all error texts of a mailbox. Each has at most [`LONGEST`] bytes, and a text
/// that many keys share is stored once.
pub const MAX_ERROR_BYTES: usize = 8 << 20;

/// Replaces an error text beyond the limit.
static NOT_KEPT: LazyLock<Arc<str>> =
    LazyLock::new(|| "this error is not kept: too many objects fail, each with another one".into());

/// Reference-counted error texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Errors {
    /// The number of keys that have each text.
    uses: HashMap<Arc<str>, usize>,
    bytes: usize,
}

impl Errors {
    /// Stores an error for one more key, truncated to what is shown.
    pub(super) fn keep(&mut self, error: Arc<str>) -> Arc<str> {
        let error = if error.len() > LONGEST { excerpt(&error, LONGEST).to_string().into() } else { error };
        if let Some((kept, _)) = self.uses.get_key_value(&error) {
            let kept = Arc::clone(kept);
            *self.uses.entry(Arc::clone(&kept)).or_default() += 1;
            return kept;
        }
        if self.bytes + error.len() > MAX_ERROR_BYTES {
            return Arc::clone(&NOT_KEPT);
        }
        self.bytes += error.len();
        self.uses.insert(Arc::clone(&error), 1);
        error
    }

    /// Drops the error of one key.
    pub(super) fn release(&mut self, error: &Arc<str>) {
        // A replaced text is not counted.
        if let Some(uses) = self.uses.get_mut(error) {
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(error);
                self.bytes -= error.len();
            }
        }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_error_is_stored_once_as_long_as_a_key_has_it() {
        let mut errors = Errors::default();
        let one = errors.keep("refused".into());
        let other = errors.keep("refused".into());
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(errors.bytes(), 7);
        errors.release(&one);
        assert_eq!(errors.bytes(), 7);
        errors.release(&other);
        assert_eq!(errors.bytes(), 0);
    }

    /// Rule 7.5.
    #[test]
    fn errors_are_bounded_each_and_all_together() {
        let mut errors = Errors::default();
        let mut kept = Vec::new();
        for number in 0..3 * MAX_ERROR_BYTES / LONGEST {
            kept.push(errors.keep(format!("{number}: {}", "ä".repeat(500_000)).into()));
        }
        assert!(kept.iter().all(|error| error.len() <= LONGEST));
        assert!(
            errors.bytes() <= MAX_ERROR_BYTES && errors.bytes() > MAX_ERROR_BYTES - 2 * LONGEST,
            "{}",
            errors.bytes()
        );
        assert!(kept.last().is_some_and(|error| error.contains("not kept")));
        kept.iter().for_each(|error| errors.release(error));
        assert_eq!((errors.bytes(), errors.uses.len()), (0, 0));
    }
}
