//! The rows, one file each.

use crate::row::Row;

mod background;

/// All of them, in the order of the table.
pub const ALL: &[&Row] = &[&background::ROW];
