//! What happens to every object if one is deleted.
//!
//! | File | Contents |
//! |---|---|
//! | `walk` | collects all objects that the deletion may concern |
//! | `outside` | what the owners that it has not visited do |
//! | `consequences` | which objects go, by the collector's own verdict, what delays those, and what happens to the others |
//! | `listing` | what is said of each object, and of a namespace, a definition or a node that takes others along |
//! | `answer` | the answer, and whether the brake would engage |
//! | `verdict` | the answer in words |

mod answer;
mod consequences;
mod listing;
mod outside;
mod verdict;
mod walk;

pub use answer::{Cascade, Effect, Forecast, Plan, PlannedObject, TypeEffects};
pub use listing::plan;
pub(super) use listing::{OF_DEFINITIONS, OF_NAMESPACES, in_spec, keeps_contents};
pub(super) use walk::Container;
pub use walk::{PlanQuery, Walk};
