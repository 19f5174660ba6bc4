//! The CPU time of this process's threads by purpose.
//!
//! A single thread runs all requests about single objects, and another one all watches.
//! Either can be a bottleneck that the sum over all threads does not show: on a machine with
//! many cores, the process looks idle while that thread is always busy.

use std::collections::HashMap;

/// The purposes of threads: all values of the label, however many threads there are.
pub(super) const GROUPS: [&str; 9] =
    ["requests", "watches", "lists", "lease", "graph", "log", "supervisor", "allocator", "other"];

/// The group of a thread.
fn group_of(name: &str, is_main: bool) -> usize {
    // The threads of a pool have a number at the end of their names.
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', ' ']);
    let name = match name {
        // Runs the actors and all requests about single objects.
        _ if is_main => "requests",
        // The background thread of jemalloc.
        "jemalloc_bg_thd" => "allocator",
        name => name,
    };
    GROUPS.iter().position(|group| *group == name).unwrap_or(GROUPS.len() - 1)
}

/// The CPU time of a thread in nanoseconds, from its `schedstat` file.
fn of_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The CPU time of a thread in nanoseconds, from its `stat` file, which counts ticks.
fn of_stat(text: &str, ticks_per_second: u64) -> Option<u64> {
    // The name of the thread, in parentheses before these fields, may contain anything.
    let mut fields = text.rsplit_once(") ")?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let sum = ticks()?.checked_add(ticks()?)?;
    sum.checked_mul(1_000_000_000)?.checked_div(ticks_per_second)
}

/// The CPU time of one thread at one point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    thread: u32,
    group: usize,
    nanoseconds: u64,
}

/// The CPU time by group. Threads that have ended still count, so it never falls.
#[derive(Debug, Default)]
pub(super) struct ThreadTimes {
    last: HashMap<u32, u64>,
    /// In nanoseconds, by group.
    sums: [u64; GROUPS.len()],
    /// Whether the operating system reports CPU times of threads.
    known: bool,
}

impl ThreadTimes {
    /// Reads the CPU times. Does nothing if the operating system does not report them.
    pub(super) fn update(&mut self) {
        self.add(&read());
    }

    /// Seconds by group; empty if the operating system does not report them.
    pub(super) fn seconds(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let groups = GROUPS.into_iter().zip(self.sums).filter(|_| self.known);
        #[allow(clippy::cast_precision_loss)]
        groups.map(|(group, sum)| (group, sum as f64 / 1e9))
    }

    fn add(&mut self, readings: &[Reading]) {
        self.known |= !readings.is_empty();
        let mut now = HashMap::with_capacity(readings.len());
        for &Reading { thread, group, nanoseconds } in readings {
            // A lower number means that a new thread reuses the id of one that has ended.
            let before = self.last.get(&thread).copied().filter(|before| *before <= nanoseconds);
            self.sums[group] += nanoseconds - before.unwrap_or(0);
            now.insert(thread, nanoseconds);
        }
        self.last = now;
    }
}

#[cfg(target_os = "linux")]
fn read() -> Vec<Reading> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    // A thread that cannot be read has just ended.
    let readings = threads.filter_map(|entry| {
        let path = entry.ok()?.path();
        let text = |file: &str| std::fs::read_to_string(path.join(file)).ok();
        let thread = path.file_name()?.to_str()?.parse().ok()?;
        let name = text("comm")?;
        // Not every kernel has `schedstat`, which counts nanoseconds.
        let precise = text("schedstat").and_then(|text| of_schedstat(&text));
        let nanoseconds = precise.or_else(|| of_stat(&text("stat")?, ticks_per_second))?;
        let group = group_of(name.trim_end(), thread == std::process::id());
        Some(Reading { thread, group, nanoseconds })
    });
    readings.collect()
}

#[cfg(not(target_os = "linux"))]
fn read() -> Vec<Reading> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> &'static str {
        GROUPS[group_of(name, false)]
    }

    fn sums(times: &ThreadTimes) -> Vec<(&'static str, u64)> {
        let used = times.seconds().filter(|(_, seconds)| *seconds > 0.0);
        used.map(|(group, seconds)| (group, seconds as u64)).collect()
    }

    fn reading(thread: u32, group: &str, seconds: u64) -> Reading {
        Reading { thread, group: group_of(group, false), nanoseconds: seconds * 1_000_000_000 }
    }

    #[test]
    fn threads_are_grouped_by_what_they_are_for() {
        assert_eq!(GROUPS[group_of("kube-gc", true)], "requests");
        for (name, of) in [
            ("watches", "watches"),
            ("lease", "lease"),
            ("lists", "lists"),
            ("lists-3", "lists"),
            ("graph", "graph"),
            ("graph 12", "graph"),
            ("log", "log"),
            ("jemalloc_bg_thd", "allocator"),
            ("kube-gc", "other"),
            ("anything else", "other"),
            ("", "other"),
            ("7", "other"),
        ] {
            assert_eq!(group(name), of, "{name}");
        }
    }

    #[test]
    fn both_files_of_the_system_are_understood() {
        assert_eq!(of_schedstat("1500000000 2 3\n"), Some(1_500_000_000));
        assert_eq!(of_schedstat(""), None);
        let stat = "17 (a) b) R) S 1 17 17 0 -1 4194368 100 0 0 0 150 50 0 0 20 0 9 0 1 2 3";
        assert_eq!(of_stat(stat, 100), Some(2_000_000_000));
        assert_eq!(of_stat("17 (short) S 1", 100), None);
        assert_eq!(of_stat("", 100), None);
    }

    #[test]
    fn the_sum_of_a_group_never_falls() {
        let mut times = ThreadTimes::default();
        times.add(&[]);
        assert_eq!(times.seconds().count(), 0, "the system does not tell");
        times.add(&[reading(1, "watches", 5), reading(2, "lists", 1), reading(3, "lists", 2)]);
        assert_eq!(sums(&times), [("watches", 5), ("lists", 3)]);
        times.add(&[reading(1, "watches", 7), reading(3, "lists", 2)]);
        assert_eq!(sums(&times), [("watches", 7), ("lists", 3)], "one has ended");
        times.add(&[reading(1, "watches", 7), reading(3, "lists", 1)]);
        assert_eq!(sums(&times), [("watches", 7), ("lists", 4)], "another one has its id");
        times.add(&[]);
        times.add(&[reading(1, "watches", 1)]);
        assert_eq!(sums(&times), [("watches", 8), ("lists", 4)]);
        assert_eq!(times.last.len(), 1, "those that have ended are forgotten");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_threads() {
        let work = || {
            let mut times = ThreadTimes::default();
            while !times.seconds().any(|(group, seconds)| group == "watches" && seconds > 0.0) {
                times.update();
            }
        };
        std::thread::Builder::new().name("watches".to_owned()).spawn(work).unwrap().join().unwrap();
    }
}
