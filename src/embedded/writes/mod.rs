//! Create, update, patch and delete: the rules of metadata.
