//! How long a key waits at most.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Add { lane: u8, key: u32 },
    Pop,
    Forget { lane: u8, key: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Lane 0 is flooded.
    let lane = || prop_oneof![3 => Just(0_u8), 2 => 1..6_u8];
    let step = prop_oneof![
        4 => (lane(), 0..40_u32).prop_map(|(lane, key)| Step::Add { lane, key }),
        3 => Just(Step::Pop),
        1 => (lane(), 0..40_u32).prop_map(|(lane, key)| Step::Forget { lane, key }),
    ];
    prop::collection::vec(step, 1..300)
}

/// What a key that waits may expect.
struct Wait {
    /// Keys in front of it in its lane when it came.
    ahead: usize,
    /// The most lanes there were since.
    lanes: usize,
    pops: usize,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn a_key_waits_for_at_most_one_key_of_each_lane_for_every_key_ahead(steps in steps()) {
        let mut mailbox = mailbox();
        let mut waits: HashMap<TestKey, Wait> = HashMap::new();
        for step in steps {
            match step {
                Step::Add { lane, key: number } => {
                    let key = key(&format!("ns-{lane}"), number);
                    let ahead = waits.keys().filter(|other| other.namespace == key.namespace).count();
                    mailbox.add(key.clone(), at(0));
                    waits.entry(key).or_insert(Wait { ahead, lanes: 0, pops: 0 });
                }
                Step::Forget { lane, key: number } => {
                    let key = key(&format!("ns-{lane}"), number);
                    prop_assert_eq!(mailbox.forget(&key), waits.remove(&key).is_some());
                }
                Step::Pop => {
                    let popped = mailbox.pop(at(0)).map(|job| job.key);
                    prop_assert_eq!(popped.is_some(), !waits.is_empty());
                    for wait in waits.values_mut() {
                        wait.pops += 1;
                        prop_assert!(wait.pops <= (wait.ahead + 1) * wait.lanes);
                    }
                    if let Some(key) = popped {
                        prop_assert!(waits.remove(&key).is_some(), "{key:?} was not waiting");
                        mailbox.finish(&key, Completion::Done, at(0));
                    }
                }
            }
            let lanes = mailbox.stats().lanes;
            for wait in waits.values_mut() {
                wait.lanes = wait.lanes.max(lanes);
            }
        }
    }
}
