//! Owner references with which something is wrong.
//!
//! A [`Survey`] looks at all objects of a graph that lists have filled, and finds the few that may
//! have something wrong. [`check_object`] asks what is needed about each of them, which may take
//! live reads, and classifies its references. The effect of an object is the collector's verdict
//! on it.

mod finding;
mod hint;
mod object;
mod odd;
mod report;
mod rings;
mod survey;

pub use finding::{CheckEffect, Class, Finding};
pub use object::{CheckedObject, check_object};
pub use report::{CheckReport, EffectCounts};
pub use rings::Circles;
pub use survey::{Survey, Suspect};
