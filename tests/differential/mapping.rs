//! The correspondence of uids, versions, names and times between the two servers.

use std::collections::BTreeMap;
use std::time::Duration;

/// The allowed difference between corresponding times, in seconds: times are truncated to
/// seconds, and the servers are asked one after the other.
const TOLERANCE: u64 = 3;

/// The known pairs of values. Two values become a pair when they first correspond; from then on,
/// neither may correspond to another one.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    uids: Pairs,
    names: Pairs,
    versions: BTreeMap<u64, u64>,
    /// When the run began on each server, in seconds.
    began: (i64, i64),
    /// The duration of the longest request: one server may have answered it at once, and the
    /// other one at the end.
    longest: Duration,
}

#[derive(Clone, Debug, Default)]
struct Pairs {
    forth: BTreeMap<String, String>,
    back: BTreeMap<String, String>,
}

impl Pairs {
    fn meet(&mut self, left: &str, right: &str) -> bool {
        match (self.forth.get(left), self.back.get(right)) {
            (Some(known), _) => known == right,
            (None, Some(_)) => false,
            (None, None) => {
                self.forth.insert(left.to_owned(), right.to_owned());
                self.back.insert(right.to_owned(), left.to_owned());
                true
            }
        }
    }
}

impl Mapping {
    /// A mapping that knows only when the run began on each server.
    pub fn new(began: (i64, i64)) -> Self {
        Self { began, ..Self::default() }
    }

    /// Records how long a request took until both servers had answered.
    pub fn took(&mut self, time: Duration) {
        self.longest = self.longest.max(time);
    }

    /// Whether two uids may correspond.
    pub fn uid(&mut self, left: &str, right: &str) -> bool {
        self.uids.meet(left, right)
    }

    /// Records that two generated names correspond.
    pub fn generated(&mut self, left: &str, right: &str) -> bool {
        self.names.meet(left, right)
    }

    /// Whether two names correspond.
    pub fn name(&self, left: &str, right: &str) -> bool {
        left == right || self.names.forth.get(left).is_some_and(|known| known == right)
    }

    /// Whether two versions of objects may correspond: equal versions are equal on both servers,
    /// and later ones are later on both.
    pub fn version(&mut self, left: &str, right: &str) -> bool {
        let (Ok(left), Ok(right)) = (left.parse(), right.parse()) else { return left == right };
        if let Some(known) = self.versions.get(&left) {
            return *known == right;
        }
        let before = self.versions.range(..left).next_back().is_none_or(|(_, before)| *before < right);
        let after = self.versions.range(left..).next().is_none_or(|(_, after)| right < *after);
        if before && after {
            self.versions.insert(left, right);
        }
        before && after
    }

    /// Whether two versions of lists may correspond: equally many known versions are newer.
    /// (Other writes increase versions, too.)
    pub fn list_version(&self, left: &str, right: &str) -> bool {
        let (Ok(left), Ok(right)) = (left.parse::<u64>(), right.parse::<u64>()) else { return left == right };
        self.versions.iter().all(|(known_left, known_right)| (*known_left > left) == (*known_right > right))
    }

    /// Whether two times are equally long after the beginning.
    pub fn time(&self, left: &str, right: &str) -> bool {
        let (Some(left), Some(right)) = (seconds(left), seconds(right)) else { return left == right };
        let apart = ((left - self.began.0) - (right - self.began.1)).unsigned_abs();
        apart <= TOLERANCE + self.longest.as_secs()
    }

    /// A text without the expected differences: values of the left server are replaced by those
    /// of the right one, and versions are removed.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (left, right) in self.uids.forth.iter().chain(&self.names.forth) {
            if left != right && text.contains(left.as_str()) {
                text = text.replace(left, right);
            }
        }
        // The key in the store is an internal detail.
        if let Some((start, rest)) = text.split_once("Key: ")
            && let Some((_, end)) = rest.split_once(',')
        {
            text = format!("{start}Key: ,{end}");
        }
        for before in ["(", "current: ", "version: ", "in object meta: "] {
            let parts = text.split(before).enumerate();
            let cut = |(index, part): (usize, &'_ str)| match index {
                0 => part.to_owned(),
                _ => part.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned(),
            };
            text = parts.map(cut).collect::<Vec<_>>().join(before);
        }
        text
    }
}

/// RFC 3339 in UTC, to seconds.
pub fn seconds(time: &str) -> Option<i64> {
    let number = |from: usize, to: usize| time.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Days since the epoch, with March as the first month.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2026-01-01T00:00:00Z"), Some(1_767_225_600));
        assert_eq!(seconds("2024-02-29T12:34:56Z"), Some(1_709_210_096));
        assert_eq!(seconds("never"), None);
    }

    #[test]
    fn times_may_differ_by_the_duration_of_a_request() {
        let mut mapping = Mapping::new((100, 200));
        let same = |mapping: &Mapping| mapping.time("1970-01-01T00:01:45Z", "1970-01-01T00:03:20Z");
        assert!(!same(&mapping));
        mapping.took(Duration::from_millis(2900));
        assert!(same(&mapping));
    }

    #[test]
    fn versions_keep_their_order() {
        let mut mapping = Mapping::default();
        assert!(mapping.version("10", "3") && mapping.version("20", "5"));
        assert!(mapping.version("15", "4") && mapping.version("10", "3"));
        assert!(!mapping.version("10", "4") && !mapping.version("12", "3") && !mapping.version("30", "5"));
        assert!(mapping.list_version("21", "5") && !mapping.list_version("19", "5"));
    }

    #[test]
    fn uids_map_one_to_one() {
        let mut mapping = Mapping::default();
        assert!(mapping.uid("a", "x") && mapping.uid("b", "y") && mapping.uid("a", "x"));
        assert!(!mapping.uid("a", "y") && !mapping.uid("c", "x"));
        assert_eq!(mapping.text("a (197) of b"), "x () of y");
    }
}
