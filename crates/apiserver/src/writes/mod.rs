//! Create, update, patch and delete: the rules of metadata.

mod body;
mod collection;
mod create;
mod delete;
mod deletion;
mod json;
mod metadata;
mod namespaces;
mod options;
mod patch;
mod random;
mod strategic;
mod strategy;
mod syntax;
mod update;
mod validation;
mod write;

#[cfg(test)]
mod tests;

pub use collection::delete_collection;
pub use create::create;
pub use delete::delete;
pub use patch::patch;
pub use update::update;
pub use write::Write;
