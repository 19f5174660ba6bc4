//! What follows from a look at a namespace.

use super::survey::{Survey, TypeSurvey};
use crate::object::GroupResource;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything was looked at, and nothing is left.
    Finalize,
    /// Delete the objects of these types.
    Delete(Vec<GroupResource>),
    /// Objects wait for finalizers or for their grace period, or a type could not be looked at.
    Wait,
}

/// The next step (rules 11.2 to 11.4).
///
/// Pods go first, and nothing else is deleted while there are any: they may need what is around
/// them to shut down, and a network policy must not go before the pods that it restricts.
pub fn step(survey: &Survey) -> Step {
    if survey.is_empty() {
        return Step::Finalize;
    }
    let pods_may_remain = survey.types.iter().any(|of_type| of_type.is_pods() && !of_type.is_empty());
    let has_living = |of_type: &&TypeSurvey| of_type.found.as_ref().is_ok_and(|found| found.alive > 0);
    let types: Vec<_> = survey
        .types
        .iter()
        .filter(|of_type| of_type.is_pods() || !pods_may_remain)
        .filter(has_living)
        .map(|of_type| of_type.resource.clone())
        .collect();
    if types.is_empty() { Step::Wait } else { Step::Delete(types) }
}
