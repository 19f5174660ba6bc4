//! Sorting with little code, for what people ask for, and for what seldom happens.
//!
//! The standard library's sorts are compiled again for each type and each comparison, which takes
//! 5 to 20 KB each time. Here they sort only numbers, and all others share one copy. It calls the
//! comparison through a pointer. Code that runs for every event of an ordinary object does not use it.

use std::cmp::Ordering;

/// Sorts elements. Equal ones keep their order.
pub fn sort_by<T>(elements: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    if elements.len() < 2 {
        return;
    }
    let mut order: Vec<usize> = (0..elements.len()).collect();
    sort_places(&mut order, &|a, b| compare(&elements[a], &elements[b]));
    arrange(elements, &mut order);
}

/// Sorts elements by a key. Equal ones keep their order.
pub fn sort_by_key<T, K: Ord>(elements: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(elements, |a, b| key(a).cmp(&key(b)));
}

/// Sorts elements. Equal ones keep their order.
pub fn sort<T: Ord>(elements: &mut [T]) {
    sort_by(elements, T::cmp);
}

/// Sorts the indexes of elements by a key of the elements. Equal ones are in the order of their indexes.
pub fn sort_indexes_by_key<K: Ord>(indexes: &mut [usize], key: impl Fn(usize) -> K) {
    sort_places(indexes, &|a, b| key(a).cmp(&key(b)));
}

/// Sorts elements, and keeps the first ones.
pub fn keep_first<T>(elements: &mut Vec<T>, count: usize, compare: impl Fn(&T, &T) -> Ordering) {
    let mut order: Vec<usize> = (0..elements.len()).collect();
    select_places(&mut order, count, &|a, b| compare(&elements[a], &elements[b]));
    arrange(elements, &mut order);
    elements.truncate(count);
}

fn sort_places(order: &mut [usize], compare: &dyn Fn(usize, usize) -> Ordering) {
    order.sort_unstable_by(|&a, &b| compare(a, b).then(a.cmp(&b)));
}

/// Sorts only the first places, if there are more.
fn select_places(order: &mut [usize], count: usize, compare: &dyn Fn(usize, usize) -> Ordering) {
    let first = if order.len() > count {
        order.select_nth_unstable_by(count, |&a, &b| compare(a, b).then(a.cmp(&b))).0
    } else {
        order
    };
    sort_places(first, compare);
}

/// Moves each element to its place: `order` names the element for each one, and is used up.
fn arrange<T>(elements: &mut [T], order: &mut [usize]) {
    for start in 0..elements.len() {
        let mut place = start;
        loop {
            let from = std::mem::replace(&mut order[place], place);
            if from == start {
                break;
            }
            elements.swap(place, from);
            place = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few different numbers, so that many are equal.
    fn numbers() -> impl Strategy<Value = Vec<(u8, usize)>> {
        let numbers = prop::collection::vec(0..8_u8, 0..100);
        numbers.prop_map(|numbers| numbers.into_iter().zip(0..).collect())
    }

    proptest! {
        #[test]
        fn elements_are_sorted_as_by_the_standard_library(numbers in numbers(), count in 0..120_usize) {
            let mut expected = numbers.clone();
            expected.sort_by_key(|(number, _)| *number);
            let mut sorted = numbers.clone();
            sort_by_key(&mut sorted, |(number, _)| *number);
            prop_assert_eq!(&sorted, &expected);
            let mut sorted = numbers.clone();
            sorted.reverse();
            sort(&mut sorted);
            prop_assert_eq!(&sorted, &expected);
            let mut indexes: Vec<usize> = (0..numbers.len()).rev().collect();
            sort_indexes_by_key(&mut indexes, |index| numbers[index].0);
            prop_assert!(indexes.iter().eq(expected.iter().map(|(_, index)| index)));
            let mut first = numbers;
            keep_first(&mut first, count, |(a, _), (b, _)| a.cmp(b));
            expected.truncate(count);
            prop_assert_eq!(&first, &expected);
        }
    }
}
