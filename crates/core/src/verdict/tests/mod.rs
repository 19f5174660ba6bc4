//! The rules, sentence by sentence, and the invariants that state them anew.

mod conflicts;
mod invariants;
mod table;

use super::testing::*;
use crate::graph::{ForegroundProgress, ObjectSnapshot, OwnerState, OwnerView};
use crate::object::{DeletionState, Finalizers, ObjectFacts, ResourceVersion};
