//! The messages of CRI v1, as far as node collection uses them.
//!
//! Messages, fields and values have the names of the definition, `api.proto`; the comments say
//! what this project uses them for. A decoder skips the fields that are missing here. v1alpha2 has
//! the same messages.
//!
//! `tests/definition.rs` compares every field's number, type and label with the definition.

mod container;
mod create;
mod image;
mod runtime;
mod sandbox;
mod stats;

pub use container::*;
pub use create::*;
pub use image::*;
pub use runtime::*;
pub use sandbox::*;
pub use stats::*;
