//! Compares the mailbox with a model of vectors that are searched and sorted.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Ready,
    Running {
        again: bool,
        woken: bool,
    },
    /// The number orders items that are due at the same time.
    Delayed {
        due: u64,
        number: u64,
        retry_after: bool,
    },
}

#[derive(Clone, Debug)]
struct Item {
    key: Key,
    at: At,
    attempts: u32,
    backoffs: u32,
    reason: Option<Reason>,
}

#[derive(Default)]
struct Model {
    items: Vec<Item>,
    /// In the order in which they are served.
    flows: Vec<(Option<Namespace>, Vec<Key>)>,
    now: u64,
    number: u64,
    adds: u64,
    retries: u64,
}

impl Model {
    fn find(&self, key: &Key) -> Option<usize> {
        self.items.iter().position(|item| item.key == *key)
    }

    fn ready(&mut self, index: usize) {
        let item = &mut self.items[index];
        item.at = At::Ready;
        self.adds += 1;
        match self.flows.iter_mut().find(|(namespace, _)| *namespace == item.key.namespace) {
            Some((_, keys)) => keys.push(item.key.clone()),
            None => self.flows.push((item.key.namespace.clone(), vec![item.key.clone()])),
        }
    }

    /// Delayed items for which `which` holds, ordered by due time and then by number.
    fn delayed(&self, which: impl Fn(&Item, bool) -> bool) -> Vec<usize> {
        let mut found: Vec<_> = (0..)
            .zip(&self.items)
            .filter_map(|(index, item)| match item.at {
                At::Delayed { due, number, retry_after } if which(item, retry_after) => {
                    Some((due, number, index))
                }
                _ => None,
            })
            .collect();
        found.sort();
        found.into_iter().map(|(.., index)| index).collect()
    }

    fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        let now = self.now;
        let due = |item: &Item, _| matches!(item.at, At::Delayed { due, .. } if due <= now);
        for index in self.delayed(due) {
            self.ready(index);
        }
    }

    fn add(&mut self, key: Key) {
        let Some(index) = self.find(&key) else {
            self.items.push(Item { key, at: At::Ready, attempts: 0, backoffs: 0, reason: None });
            return self.ready(self.items.len() - 1);
        };
        match &mut self.items[index].at {
            At::Ready | At::Delayed { retry_after: true, .. } => {}
            At::Running { again, .. } => {
                self.adds += u64::from(!*again);
                *again = true;
            }
            At::Delayed { retry_after: false, .. } => self.ready(index),
        }
    }

    fn pop(&mut self) -> Option<Key> {
        if self.flows.is_empty() {
            return None;
        }
        let (namespace, mut keys) = self.flows.remove(0);
        let key = keys.remove(0);
        if !keys.is_empty() {
            self.flows.push((namespace, keys));
        }
        let index = self.find(&key)?;
        self.items[index].at = At::Running { again: false, woken: false };
        Some(key)
    }

    fn finish(&mut self, key: &Key, completion: &Completion<Reason>) -> bool {
        let Some(index) = self.find(key) else { return false };
        let At::Running { again, woken } = self.items[index].at else { return false };
        // It was counted when it was added.
        let is_told_when = matches!(completion, Completion::Later { wait: Wait::RetryAfter(_), .. });
        let counted = u64::from(again && !is_told_when);
        self.adds -= counted;
        let is_tried = |completion: &Completion<Reason>| matches!(completion, Completion::Later { wait, .. } if !matches!(wait, Wait::Untried(_)));
        self.retries += u64::from(is_tried(completion));
        let item = &mut self.items[index];
        let (delay, retry_after) = match completion {
            Completion::Done => {
                (item.attempts, item.backoffs, item.reason) = (0, 0, None);
                if again {
                    self.ready(index);
                } else {
                    self.items.swap_remove(index);
                }
                return true;
            }
            Completion::Again => {
                self.ready(index);
                return true;
            }
            Completion::Later { reason, wait: Wait::Backoff, .. } => {
                (item.attempts, item.backoffs, item.reason) =
                    (item.attempts + 1, item.backoffs + 1, Some(*reason));
                (5 << (item.backoffs - 1).min(20), false)
            }
            Completion::Later { reason, wait: Wait::Woken(_), .. } => {
                (item.attempts, item.reason) = (item.attempts + 1, Some(*reason));
                (1_000_000, false)
            }
            Completion::Later { reason, wait: Wait::Untried(after), .. } => {
                item.reason = Some(*reason);
                (u64::try_from(after.as_millis()).unwrap().max(1), false)
            }
            Completion::Later { reason, wait: Wait::RetryAfter(after), .. } => {
                (item.attempts, item.reason) = (item.attempts + 1, Some(*reason));
                (u64::try_from(after.as_millis()).unwrap().max(1), true)
            }
        };
        if !retry_after && (again || woken) {
            self.ready(index);
            return true;
        }
        self.number += 1;
        let due = self.now + delay.min(1_000_000);
        self.items[index].at = At::Delayed { due, number: self.number, retry_after };
        true
    }

    fn wake(&mut self, wanted: Reason) -> usize {
        for item in &mut self.items {
            if let At::Running { woken, .. } = &mut item.at {
                *woken = true;
            }
        }
        let indices = self.delayed(|item, retry_after| !retry_after && item.reason == Some(wanted));
        for index in &indices {
            self.ready(*index);
        }
        indices.len()
    }

    fn clear(&mut self) {
        for index in self.delayed(|_, _| true) {
            self.ready(index);
        }
        for item in &mut self.items {
            (item.attempts, item.backoffs, item.reason) = (0, 0, None);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u32),
    Pop,
    Finish(u32, Completion<Reason>),
    FinishOldest(Completion<Reason>),
    Wake(Reason),
    Clear,
    Advance(u64),
    AdvanceToNext,
}

fn completion() -> impl Strategy<Value = Completion<Reason>> {
    let reason = || prop_oneof![Just(Reason::Failed), Just(Reason::Parked)];
    prop_oneof![
        2 => Just(Completion::Done),
        1 => Just(Completion::Again),
        4 => reason().prop_map(retry),
        1 => reason().prop_map(park),
        1 => (0..3_000_u64).prop_map(retry_after),
        1 => (0..3_000_u64).prop_map(defer),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..KEYS).prop_map(Step::Add),
        6 => Just(Step::Pop),
        1 => ((0..KEYS), completion()).prop_map(|(key, completion)| Step::Finish(key, completion)),
        5 => completion().prop_map(Step::FinishOldest),
        1 => prop_oneof![Just(Reason::Failed), Just(Reason::Parked)].prop_map(Step::Wake),
        1 => Just(Step::Clear),
        2 => prop_oneof![0..8_u64, 0..200_u64, 0..1_000_000_u64].prop_map(Step::Advance),
        2 => Just(Step::AdvanceToNext),
    ];
    prop::collection::vec(step, 1..150)
}

const KEYS: u32 = 14;

/// Key `number`; every fourth is cluster-scoped.
fn numbered(number: u32) -> Key {
    key(["", "a", "b", "c"][number as usize % 4], number)
}

fn compare(mailbox: &TestMailbox, model: &Model) -> Result<(), TestCaseError> {
    let stats = mailbox.stats(|_| true);
    let count = |which: fn(&At) -> bool| model.items.iter().filter(|item| which(&item.at)).count();
    prop_assert_eq!(mailbox.len(), model.items.len());
    prop_assert_eq!((mailbox.adds_total(), mailbox.retries_total()), (model.adds, model.retries));
    prop_assert_eq!(stats.ready, count(|at| matches!(at, At::Ready)));
    prop_assert_eq!(stats.ready, model.flows.iter().map(|(_, keys)| keys.len()).sum::<usize>());
    prop_assert_eq!(stats.running.len(), count(|at| matches!(at, At::Running { .. })));
    let mut delayed = BTreeMap::new();
    for item in model.items.iter().filter(|item| matches!(item.at, At::Delayed { .. })) {
        *delayed.entry(item.reason.unwrap()).or_default() += 1;
    }
    prop_assert_eq!(stats.delayed, delayed);
    let mut failing: Vec<_> = mailbox
        .failing()
        .map(|failing| (failing.key.to_string(), failing.attempts, failing.reason, failing.next_retry))
        .collect();
    let mut expected: Vec<_> = model
        .items
        .iter()
        .filter_map(|item| {
            let next_retry = match item.at {
                At::Delayed { due, .. } => Some(at(due)),
                At::Ready | At::Running { .. } => None,
            };
            Some((item.key.to_string(), item.attempts, item.reason?, next_retry))
        })
        .collect();
    // In no particular order.
    failing.sort();
    expected.sort();
    prop_assert_eq!(failing, expected);
    let due = |item: &Item| if let At::Delayed { due, .. } = item.at { Some(at(due)) } else { None };
    let earliest = model.items.iter().filter_map(due).min();
    prop_assert_eq!(mailbox.next_due(), earliest);
    prop_assert!(earliest.is_none_or(|due| due > at(model.now)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn the_mailbox_agrees_with_the_model(steps in steps()) {
        let (mut mailbox, mut model) = (mailbox(), Model::default());
        let mut running: Vec<Key> = Vec::new();
        for step in steps {
            let now = at(model.now);
            match step {
                Step::Add(number) => {
                    mailbox.add(numbered(number), now);
                    model.add(numbered(number));
                }
                Step::Pop => {
                    let popped = mailbox.pop(now).map(|job| job.key);
                    prop_assert_eq!(&popped, &model.pop());
                    if let Some(key) = popped {
                        prop_assert!(!running.contains(&key), "{key:?} is worked on twice");
                        running.push(key);
                    }
                }
                Step::Finish(number, completion) => {
                    let key = numbered(number);
                    let finished = model.finish(&key, &completion);
                    prop_assert_eq!(mailbox.finish(&key, completion, now).is_some(), finished);
                    running.retain(|other| *other != key);
                }
                Step::FinishOldest(completion) => {
                    if !running.is_empty() {
                        let key = running.remove(0);
                        prop_assert!(model.finish(&key, &completion));
                        prop_assert!(mailbox.finish(&key, completion, now).is_some());
                    }
                }
                Step::Wake(wanted) => {
                    prop_assert_eq!(mailbox.wake(|_, reason| reason == wanted, now), model.wake(wanted));
                }
                Step::Clear => {
                    mailbox.clear_backoff(now);
                    model.clear();
                }
                Step::Advance(span) => {
                    model.advance(model.now + span);
                    mailbox.advance(at(model.now));
                }
                Step::AdvanceToNext => {
                    let due = mailbox.next_due().unwrap_or_default();
                    model.advance(u64::try_from(due.as_millis()).unwrap());
                    mailbox.advance(at(model.now));
                }
            }
            compare(&mailbox, &model)?;
        }
        drain(&mut mailbox, &running)?;
    }
}

/// No key is lost: all keys come out, and then the mailbox is empty.
fn drain(mailbox: &mut TestMailbox, running: &[Key]) -> Result<(), TestCaseError> {
    let end = at(u64::MAX / 2);
    for key in running {
        mailbox.finish(key, Completion::Done, end);
    }
    let mut left = mailbox.len();
    while let Some(job) = mailbox.pop(end) {
        mailbox.finish(&job.key, Completion::Done, end);
        left -= 1;
    }
    prop_assert_eq!(left, 0);
    prop_assert_eq!(mailbox.len(), 0);
    prop_assert_eq!(mailbox.next_due(), None);
    Ok(())
}
