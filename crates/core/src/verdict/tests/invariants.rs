//! Invariants of the decision table.

use proptest::prelude::*;

use super::*;
use crate::object::PropagationPolicy;
use crate::verdict::ReferenceClass::{Absent, InvalidScope, Orphaned, Solid, Unresolved, Waiting};
use crate::verdict::{Decision, ReferenceClass, decide};

fn class() -> impl Strategy<Value = ReferenceClass> {
    // Absent and waiting have more weight, so that long lists are sometimes deletable.
    prop_oneof![
        4 => Just(Absent), 4 => Just(Waiting), 1 => Just(Solid),
        1 => Just(Orphaned), 1 => Just(Unresolved), 1 => Just(InvalidScope),
    ]
}

prop_compose! {
    fn case()(
        classes in prop::collection::vec(class(), 1..7),
        blocking in prop::collection::vec(any::<bool>(), 7),
        foreground in any::<bool>(),
        orphan in any::<bool>(),
        has_dependents in any::<bool>(),
        cycle in any::<bool>(),
    ) -> (ObjectSnapshot, Vec<ReferenceClass>) {
        let mut item = item(classes.len());
        item.finalizers = Finalizers { foreground, orphan };
        item.has_dependents = has_dependents;
        item.has_dependent_deleting_dependents = has_dependents && cycle;
        for (view, blocking) in item.references.iter_mut().zip(blocking) {
            view.reference.block_owner_deletion = blocking;
        }
        (item, classes)
    }
}

const fn lets_go(class: ReferenceClass) -> bool {
    matches!(class, Absent | Waiting)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    /// Rules 4.13 and 10.1.
    #[test]
    fn an_object_is_deleted_exactly_if_every_reference_allows_it((item, classes) in case()) {
        let deleted = matches!(decide(&item, &classes), Decision::Delete { .. });
        prop_assert_eq!(deleted, classes.iter().all(|class| lets_go(*class)));
    }

    /// Rule 4.15.
    #[test]
    fn only_references_to_absent_or_waiting_owners_are_removed((item, classes) in case()) {
        if let Decision::RemoveReferences { remove, confirm_solid } = decide(&item, &classes) {
            prop_assert!(!remove.is_empty());
            prop_assert!(remove.is_sorted_by(|a, b| a < b));
            for index in &remove {
                prop_assert!(matches!(classes[*index], Absent | Waiting | Orphaned));
            }
            // Without a solid owner, only orphaned references are removed; the next evaluation decides.
            let solid = classes.contains(&Solid);
            let goes = |class: &ReferenceClass| *class == Orphaned || (solid && lets_go(*class));
            prop_assert_eq!(remove.len(), classes.iter().filter(|class| goes(class)).count());
            let waiting_goes = remove.iter().any(|index| classes[*index] == Waiting);
            prop_assert_eq!(confirm_solid.is_some(), waiting_goes);
            prop_assert!(confirm_solid.is_none_or(|index| classes[index] == Solid));
        }
    }

    /// Rules 4.18 and 4.20.
    #[test]
    fn the_policy_honours_the_finalizers((item, classes) in case()) {
        if let Decision::Delete { policy, .. } = decide(&item, &classes) {
            let expected = match (item.finalizers.orphan, item.finalizers.foreground) {
                (true, _) => PropagationPolicy::Orphan,
                (false, true) => PropagationPolicy::Foreground,
                (false, false) if classes.contains(&Waiting) && item.has_dependents => PropagationPolicy::Foreground,
                (false, false) => PropagationPolicy::Background,
            };
            prop_assert_eq!(policy, expected);
        }
    }

    /// Rule 4.19.
    #[test]
    fn blocking_stops_exactly_in_a_possible_cycle((item, classes) in case()) {
        if let Decision::Delete { stop_blocking_first, .. } = decide(&item, &classes) {
            let may_close_a_cycle = classes.contains(&Waiting)
                && item.has_dependent_deleting_dependents
                && !item.finalizers.orphan
                && item.references.iter().any(|view| view.reference.block_owner_deletion);
            prop_assert_eq!(stop_blocking_first, may_close_a_cycle);
        }
    }

    /// Rule 4.12.
    #[test]
    fn the_order_of_references_does_not_matter((item, classes) in case()) {
        let mut reversed = item.clone();
        reversed.references.reverse();
        let backwards: Vec<_> = classes.iter().rev().copied().collect();
        let last = classes.len() - 1;
        let kind = |decision: Decision| match decision {
            // These contain indices; the other decisions do not depend on the order.
            Decision::RemoveReferences { remove, .. } => (remove, None),
            Decision::Report { invalid_scope } => (invalid_scope, None),
            other => (Vec::new(), Some(other)),
        };
        let (straight, (indices, mirrored)) = (kind(decide(&item, &classes)), kind(decide(&reversed, &backwards)));
        let mirrored = (indices.iter().rev().map(|index| last - index).collect(), mirrored);
        prop_assert_eq!(straight, mirrored);
    }
}
