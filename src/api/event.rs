//! Warnings on objects, as Kubernetes Events.

use super::client::Api;
use super::error::ApiError;
use crate::object::Identity;

impl Api {
    /// Records a warning about an object: a core/v1 Event of the component
    /// [`EVENT_COMPONENT`](super::EVENT_COMPONENT), in the object's namespace or,
    /// for cluster-scoped ones, in `default`. The same warning again only counts up.
    ///
    /// # Errors
    ///
    /// It could not be recorded. Events are for people: nothing depends on them.
    pub async fn warn(&self, _about: &Identity, _reason: &str, _message: &str) -> Result<(), ApiError> {
        unimplemented!()
    }
}
