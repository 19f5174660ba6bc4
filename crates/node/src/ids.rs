//! Ids and names by their endings.
//!
//! Runtimes give items random ids, so most of them differ in their last characters already. To look
//! at these takes a tenth of the time of a hash that nobody can predict. Such a hash is taken only
//! where the endings do not suffice, so ids that somebody chose cost time and change no answer.

use std::collections::HashSet;

/// A number that depends on the last eight bytes and the length. Equal texts have equal ones.
#[must_use]
pub(crate) fn ending(text: &str) -> usize {
    let last = text.bytes().rev().take(8);
    last.fold(text.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)))
}

/// What occurs more than once.
pub(crate) fn duplicates<'a>(ids: impl ExactSizeIterator<Item = &'a str> + Clone) -> HashSet<&'a str> {
    // Enough places that few different ids share one by chance.
    let mut endings = vec![0_u8; (16 * ids.len()).next_power_of_two()];
    let place = endings.len() - 1;
    for id in ids.clone() {
        let count = &mut endings[ending(id) & place];
        *count = count.saturating_add(1);
    }
    let mut seen = HashSet::new();
    ids.filter(|id| endings[ending(id) & place] > 1 && !seen.insert(*id)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn duplicates_are_those_that_are_there_twice(ids in prop::collection::vec("[ab]{0,3}(ccccccccc)?", 0..40)) {
            let expected: HashSet<&str> = ids
                .iter()
                .map(String::as_str)
                .filter(|id| ids.iter().filter(|other| other == id).count() > 1)
                .collect();
            prop_assert_eq!(duplicates(ids.iter().map(String::as_str)), expected);
        }
    }

    #[test]
    fn a_thousand_ids_with_one_ending_are_told_apart() {
        let mut ids: Vec<String> = (0..1000).map(|number| format!("{number:04}-the-same-ending")).collect();
        ids.push("0007-the-same-ending".to_owned());
        let found = duplicates(ids.iter().map(String::as_str));
        assert_eq!(found, HashSet::from(["0007-the-same-ending"]));
    }
}
