//! What happens to every object if one is deleted.
//!
//! | File | Contents |
//! |---|---|
//! | `walk` | collects all objects that the deletion may concern, and what is known of their other owners |
//! | `effects` | which objects go, by the collector's own verdict, what delays those, and what happens to the others |
//! | `answer` | the answer, in words too, and whether the brake would engage |

mod answer;
mod effects;
mod walk;

pub use answer::{Cascade, Effect, Forecast, Plan, PlannedObject, TypeEffects};
pub use effects::plan;
pub use walk::{PlanQuery, Walk};
pub(super) use walk::{as_definition, as_namespace};
