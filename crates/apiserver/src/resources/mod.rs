//! The served types, and discovery.

pub mod aggregated;
pub mod api_services;
mod builtin;
mod catalog;
pub mod crds;
mod definition;
pub mod discovery;
mod maturity;
mod name;
mod names;
mod resource;
mod subresource;
#[cfg(test)]
mod tests;

pub use builtin::built_in;
pub use catalog::{Backends, Catalog, Delegated, ServiceName};
pub use definition::{Column, Definition, begin_deletion};
pub use name::ResourceName;
pub use resource::{DefaultPolicy, Resource};
