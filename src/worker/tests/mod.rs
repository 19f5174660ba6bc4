//! The workers as a whole.

mod large;
mod quiet;
