//! The end of a namespace where no kube-controller-manager runs: when its content is deleted, when
//! it is finalized, and what its conditions say.
//!
//! | module | contents |
//! |---|---|
//! | `survey` | what a look at the content has shown |
//! | `step` | what follows from it: delete, wait or finalize |
//! | `condition` | the conditions of the namespace, in the words of Kubernetes' own controller |
//! | `rival` | signs that another controller finalizes namespaces |
//! | `agenda` | which namespace is worked on when |

mod agenda;
mod condition;
mod rival;
mod step;
mod survey;

#[cfg(test)]
mod tests;

pub use agenda::{Agenda, Ended, NextTurn};
pub use condition::{Condition, ConditionKind, conditions, merged};
pub use rival::{FieldOwner, LeaderRecord, RECENT, Rival, wrote_conditions};
pub use step::{Step, step};
pub use survey::{Found, Survey, TypeSurvey};

/// The finalizer in the `spec` of a namespace that stands for its content.
pub const FINALIZER: &str = "kubernetes";
