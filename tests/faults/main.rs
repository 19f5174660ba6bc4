//! What the collector does when the API server refuses, fails, is late, or when
//! clients change the world between a decision and its effect.
//!
//! Each test puts a [proxy](kube_gc_testkit::proxy) between the collector and a real API
//! server, by which it sees every request, and holds or spoils those that it
//! names. Waiting is for conditions, never for time.

mod absence;
mod bookmarks;
mod conflicts;
mod discovery;
mod disorder;
mod foreground;
mod hanging;
mod inflight;
mod orphan_late;
mod orphan_many;
mod orphan_rounds;
mod outages;
mod patches;
mod preconditions;
mod races;
mod refusals;
mod restore;
mod stage;
mod startup;
mod throttling;
mod watches;
