//! The correspondence of uids, versions and times between the two servers.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The allowed difference between corresponding times, in seconds: times are truncated to
/// seconds, and the servers are asked one after the other.
const TOLERANCE: u64 = 3;

/// The known pairs of values. Two values become a pair when they first correspond; from then on,
/// neither may correspond to another one.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// The uids of the right server by those of the left one, and the other way round.
    uids: [BTreeMap<String, String>; 2],
    versions: BTreeMap<u64, u64>,
    /// When the run began on each server, in seconds.
    began: [i64; 2],
    /// The duration of the longest request: one server may have answered it at once, and the
    /// other one at the end.
    longest: Duration,
}

impl Mapping {
    /// A mapping that knows only when the run began on each server.
    pub fn new(began: [i64; 2]) -> Self {
        Self { began, ..Self::default() }
    }

    /// Records how long a request took until both servers had answered.
    pub fn took(&mut self, time: Duration) {
        self.longest = self.longest.max(time);
    }

    /// Whether two uids may correspond.
    pub fn uid(&mut self, left: &str, right: &str) -> bool {
        let [forth, back] = &mut self.uids;
        let known = forth.entry(left.to_owned()).or_insert_with(|| right.to_owned());
        let from = back.entry(right.to_owned()).or_insert_with(|| left.to_owned());
        known == right && from == left
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
        let apart = ((left - self.began[0]) - (right - self.began[1])).unsigned_abs();
        apart <= TOLERANCE + self.longest.as_secs()
    }
}

fn seconds(time: &str) -> Option<i64> {
    let time = humantime::parse_rfc3339(time).ok()?;
    i64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs()).ok()
}
