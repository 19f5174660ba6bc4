//! What happens to the objects that stay.

use kube_gc_core::verdict::{Decision, ReferenceClass};

use super::answer::Effect;
use super::delay::Delays;
use super::outcomes::{Outcomes, of_outside, verdict};
use super::outside::Outside;
use super::walk::{Index, Owner, Walk};

/// An object that stays.
pub(super) struct Stay {
    pub effect: Effect,
    pub loses: Vec<Index>,
    pub may_lose: Vec<Index>,
    pub why: Option<&'static str>,
}

/// What happens to an object that stays; `None` if nothing does.
pub(super) fn stay(walk: &Walk, outcomes: &Outcomes, modes: &Delays, place: Index) -> Option<Stay> {
    let visited = &walk.visited[place as usize];
    let goes = |owner: Index| outcomes.may[owner as usize];
    let touched: Vec<Index> = visited
        .references
        .iter()
        .filter_map(|reference| match reference.owner {
            Owner::Visited(owner) if goes(owner) => Some(owner),
            Owner::Visited(_) | Owner::Other(_) => None,
        })
        .collect();
    let namesake = visited.references.iter().any(|reference| reference.namesake.is_some_and(goes));
    if touched.is_empty() && !namesake {
        return None;
    }
    let mut outside = outcomes.outside[place as usize].iter();
    let classes: Vec<ReferenceClass> = visited
        .references
        .iter()
        .map(|reference| match reference.owner {
            Owner::Visited(owner) if !goes(owner) => ReferenceClass::Solid,
            Owner::Visited(owner) if walk.orphans(owner) => ReferenceClass::Orphaned,
            Owner::Visited(_) => ReferenceClass::Absent,
            Owner::Other(_) => {
                outside.next().map_or(ReferenceClass::Unresolved, |&outside| of_outside(outside, true))
            }
        })
        .collect();
    let blocking: Vec<bool> = visited.references.iter().map(|reference| reference.blocking).collect();
    let decision = verdict(visited, &blocking, &classes);
    let removed: &[usize] = match &decision {
        Decision::RemoveReferences { remove, .. } => remove,
        _ => &[],
    };
    let (mut loses, mut may_lose) = (Vec::new(), Vec::new());
    // While another owner is still there, the reference to one that has gone is removed.
    let has_other = touched.len() > 1 || outcomes.outside[place as usize].contains(&Outside::Leaving);
    let mut blocks = false;
    for (index, reference) in visited.references.iter().enumerate() {
        let Owner::Visited(owner) = reference.owner else {
            // It is not owned by what has another name, and may block it.
            let Some(owner) = reference.namesake.filter(|&owner| goes(owner)) else { continue };
            may_lose.push(owner);
            blocks |= !removed.contains(&index) && reference.blocking && modes.is_foreground(owner);
            continue;
        };
        if !goes(owner) {
            continue;
        }
        let surely = removed.contains(&index) && outcomes.sure[owner as usize];
        match surely {
            true => loses.push(owner),
            false if removed.contains(&index) || has_other => may_lose.push(owner),
            false => {}
        }
        blocks |= !removed.contains(&index) && reference.blocking && modes.is_foreground(owner);
    }
    let is_released = may_lose.iter().any(|&owner| walk.orphans(owner));
    let is_garbage = matches!(decision, Decision::Delete { .. });
    if touched.is_empty() && (is_garbage || !(blocks || is_released)) {
        return None;
    }
    let keeps = classes.contains(&ReferenceClass::Solid);
    let (effect, why) = match decision {
        _ if keeps => (Effect::Kept, None),
        _ if blocks => {
            (Effect::Blocks, Some("the collector cannot decide about it: an owner cannot be resolved"))
        }
        Decision::RemoveReferences { .. } => (Effect::Orphaned, None),
        _ => (Effect::Kept, Some("the collector cannot decide about it: an owner cannot be resolved")),
    };
    Some(Stay { effect, loses, may_lose, why })
}
