//! The rows, one file each.

use crate::row::Row;

mod background;
mod empty;
mod fairness;
mod foreground;
mod full;
mod hostile;
mod latency;
mod orphan;
mod orphan_memory;
mod owners;
mod server_memory;

/// All rows, in the order of the table.
pub const ALL: &[&Row] = &[
    &background::ROW,
    &foreground::ROW,
    &orphan::ROW,
    &owners::ROW,
    &empty::ROW,
    &full::ROW,
    &server_memory::ROW,
    &orphan_memory::ROW,
    &fairness::ROW,
    &latency::ROW,
    &hostile::ROW,
    &hostile::ABSENT,
    &hostile::LIVING,
    &hostile::STANDBY,
];
