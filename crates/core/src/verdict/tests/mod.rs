//! The rules one by one, and their invariants.

mod conflicts;
mod invariants;
mod table;

use super::testing::*;
use crate::graph::{ForegroundProgress, ObjectSnapshot, OwnerState, OwnerView};
use crate::object::{DeletionState, Finalizers, ObjectFacts, ResourceVersion};
