//! What happens to every object if one is deleted.
//!
//! | File | Contents |
//! |---|---|
//! | `walk` | collects all objects that the deletion may concern, and what is known of their other owners |
//! | `outcomes` | which objects go, by the collector's own verdict, and what delays those |
//! | `judge` | what happens to those that stay, and the effect on each object |
//! | `answer` | the answer, in words too, and whether the brake would engage |

mod answer;
mod judge;
mod outcomes;
mod walk;

pub use answer::{Cascade, Effect, Forecast, Plan, PlannedObject, TypeEffects};
pub use judge::plan;
pub use walk::{PlanQuery, Walk};
