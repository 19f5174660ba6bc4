//! Sorting with little code.

use std::cmp::Ordering;

/// Sorts indexes by a key of what they stand for. Equal ones keep their order.
///
/// The standard library's sort is compiled again for each type of key, which takes 15 KB each
/// time. All sorting of indexes shares one copy.
pub fn sort_by_key<K: Ord>(indexes: &mut [usize], key: impl Fn(usize) -> K) {
    sort(indexes, &|a, b| key(a).cmp(&key(b)));
}

fn sort(indexes: &mut [usize], compare: &dyn Fn(usize, usize) -> Ordering) {
    indexes.sort_by(|&a, &b| compare(a, b));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ones_keep_their_order() {
        let names = ["b", "a", "c", "a"];
        let mut indexes = [3, 2, 1, 0];
        sort_by_key(&mut indexes, |index| names[index]);
        assert_eq!(indexes, [3, 1, 0, 2]);
    }
}
