//! When the trigger of a key occurred: the event from which its latency is measured.

use std::hash::Hash;

use super::entry::Trigger;
use super::{FlowKey, Mailbox, Time};

impl<K: Clone + Eq + Hash + FlowKey, R: Copy + Ord> Mailbox<K, R> {
    /// Records when the trigger of a key occurred. Of several triggers the first counts. The next
    /// [`Job`](super::Job) of the key carries it. It serves to measure latency only.
    pub fn note_trigger(&mut self, key: &K, at: Time) {
        if let Some(slot) = self.store.find(key) {
            self.store[slot].trigger.add(Trigger::at(at));
        }
    }

    /// As in [`Stats`](super::Stats).
    pub const fn adds_total(&self) -> u64 {
        self.adds_total
    }

    /// As in [`Stats`](super::Stats).
    pub const fn retries_total(&self) -> u64 {
        self.retries_total
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, key, mailbox};
    use super::super::{Completion, Time};

    #[test]
    fn a_trigger_leaves_with_the_next_job_and_the_first_of_several_counts() {
        let mut mailbox = mailbox();
        let a = key("a", 1);
        mailbox.add(a.clone(), at(5));
        mailbox.note_trigger(&a, Time::from_micros(4_200));
        mailbox.note_trigger(&a, Time::from_micros(3_100));
        mailbox.note_trigger(&a, Time::from_micros(4_900));
        assert_eq!(mailbox.pop(at(6)).unwrap().triggered_at, Some(Time::from_micros(3_100)));
        // While it is worked on: for the next time.
        mailbox.add(a.clone(), at(7));
        mailbox.note_trigger(&a, at(7));
        mailbox.finish(&a, Completion::Done, at(8));
        assert_eq!(mailbox.pop(at(8)).unwrap().triggered_at, Some(at(7)));
        mailbox.finish(&a, Completion::Done, at(9));
        mailbox.note_trigger(&a, at(9));
        mailbox.add(a.clone(), at(10));
        assert_eq!(mailbox.pop(at(10)).unwrap().triggered_at, None, "it was not inside");
    }

    /// A million keys can be inside.
    #[test]
    fn a_trigger_takes_no_more_memory_than_a_time() {
        assert_eq!(size_of::<super::Trigger>(), size_of::<Time>());
    }
}
