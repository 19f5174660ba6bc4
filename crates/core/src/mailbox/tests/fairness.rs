//! The bound on a key's waiting time.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Add { flow: u8, key: u32 },
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Flow 0 is flooded.
    let flow = || prop_oneof![3 => Just(0_u8), 2 => 1..6_u8];
    let step = prop_oneof![
        4 => (flow(), 0..40_u32).prop_map(|(flow, key)| Step::Add { flow, key }),
        3 => Just(Step::Pop),
    ];
    prop::collection::vec(step, 1..300)
}

/// The bound of a waiting key.
struct Wait {
    /// The keys ahead of it in its flow when it was added.
    ahead: usize,
    /// The greatest number of flows since then.
    flows: usize,
    pops: usize,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn a_key_waits_for_at_most_one_key_of_each_flow_for_every_key_ahead(steps in steps()) {
        let mut mailbox = mailbox();
        let mut waits: HashMap<TestKey, Wait> = HashMap::new();
        for step in steps {
            match step {
                Step::Add { flow, key: number } => {
                    let key = key(&format!("ns-{flow}"), number);
                    let ahead = waits.keys().filter(|other| other.namespace == key.namespace).count();
                    mailbox.add(key.clone(), at(0));
                    waits.entry(key).or_insert(Wait { ahead, flows: 0, pops: 0 });
                }
                Step::Pop => {
                    let popped = mailbox.pop(at(0)).map(|job| job.key);
                    prop_assert_eq!(popped.is_some(), !waits.is_empty());
                    for wait in waits.values_mut() {
                        wait.pops += 1;
                        prop_assert!(wait.pops <= (wait.ahead + 1) * wait.flows);
                    }
                    if let Some(key) = popped {
                        prop_assert!(waits.remove(&key).is_some(), "{key:?} was not waiting");
                        mailbox.finish(&key, Completion::Done, at(0));
                    }
                }
            }
            let flows = waits.keys().map(|key| &key.namespace).collect::<HashSet<_>>().len();
            for wait in waits.values_mut() {
                wait.flows = wait.flows.max(flows);
            }
        }
    }
}
