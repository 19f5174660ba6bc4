//! What happens to every object if one is deleted.
//!
//! | File | Contents |
//! |---|---|
//! | `walk` | collects all objects that the deletion may concern |
//! | `outside` | what is known of their other owners |
//! | `outcomes` | which objects go, by the collector's own verdict |
//! | `delay` | what delays those that go |
//! | `stay` | what happens to those that stay |
//! | `judge`, `answer` | the effect on each object, and the answer |
//! | `forecast` | whether the brake would engage |
//! | `sentence` | the answer in words |

mod answer;
mod delay;
mod forecast;
mod judge;
mod outcomes;
mod outside;
mod sentence;
mod stay;
mod walk;

pub use answer::{Cascade, Effect, Forecast, Plan, PlannedObject, TypeEffects};
pub use judge::plan;
pub use walk::{PlanQuery, Walk};
