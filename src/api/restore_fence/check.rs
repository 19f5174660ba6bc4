//! Checks the store before a write.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::time::timeout;

use super::{AT_MOST, Query, RESTORED};
use crate::api::call::Call;
use crate::api::client::Api;
use crate::api::error::{ApiError, ErrorClass};
use kube_gc_core::object::{GroupResource, ResourceType, ResourceVersion, Scope};

/// The result of a query that found the store unchanged.
const LIFTED: (ErrorClass, Cow<'static, str>) = (
    ErrorClass::Fenced,
    Cow::Borrowed("watches were interrupted after this decision; kube-gc decides again"),
);

/// Why a write that was decided before the latest disturbance is not sent.
const SUPERSEDED: &str = "watches were interrupted after this decision; kube-gc decides again";

/// The error of a write that was decided before the latest disturbance and was not sent.
pub(in crate::api) fn not_sent(call: &Call<'_>) -> ApiError {
    call.error(ErrorClass::Fenced, format!("not sent: {SUPERSEDED}"), None)
}

impl Api {
    /// Before a write: if the fence is raised, checks the store's version. The write is not
    /// sent either way, because what it was decided on may be over when the answer comes.
    pub(in crate::api) async fn check_restore_fence(&self, call: &Call<'_>) -> Result<(), ApiError> {
        let fence = self.restore_fence();
        if !fence.is_raised() {
            if self.decided_under().is_some_and(|number| fence.is_superseded(number)) {
                fence.all_acknowledged().await;
                return Err(not_sent(call));
            }
            return Ok(());
        }
        let failed_queries = fence.state().failed_queries;
        let querying = fence.0.querying.lock().await;
        // Unless the query that this one waited for has failed.
        let query = fence.query(self.high_water()).filter(|_| fence.state().failed_queries == failed_queries);
        let (class, why) = match query {
            Some(query) => self.run_query(&query).await,
            None if fence.is_raised() => (
                ErrorClass::GateClosed,
                "watches were interrupted, and kube-gc cannot check yet whether the API server's data was \
                 restored from a backup; the write is retried"
                    .into(),
            ),
            None => LIFTED,
        };
        drop(querying);
        if class == ErrorClass::Fenced {
            fence.all_acknowledged().await;
        }
        Err(call.error(class, format!("not sent: {why}"), None))
    }

    /// Asks for the store's version: by a list of namespaces, because they are few, built in,
    /// and read without a webhook. If that fails or is behind, lists the type itself, which
    /// may have its own store.
    async fn run_query(&self, query: &Query) -> (ErrorClass, Cow<'static, str>) {
        let Query { number, resource, seen } = query;
        let fence = self.restore_fence();
        let (mut behind, mut failed) = (None, String::new());
        for listed in [&namespaces(), resource] {
            let answer = timeout(AT_MOST, self.present_version(listed)).await;
            match answer.map(|answer| answer.map(|envelope| envelope.resource_version)) {
                Ok(Ok(Some(found))) if seen.is_after(&found) => behind = Some(found),
                Ok(Ok(found)) => {
                    fence.lift_up_to(*number, found.as_ref());
                    return LIFTED;
                }
                Ok(Err(error)) => failed = error.to_string(),
                Err(_) => {
                    let of = &listed.group_resource;
                    failed = format!("LIST {of}: no answer within {} s", AT_MOST.as_secs());
                }
            }
        }
        fence.state().failed_queries += 1;
        let Some(found) = behind else {
            let why = format!(
                "watches were interrupted, and kube-gc cannot check whether the API server's data was restored \
                 from a backup; the write is retried: {failed}"
            );
            return (ErrorClass::GateClosed, why.into());
        };
        self.report_older_store(&resource.group_resource, seen, &found);
        (ErrorClass::GateClosed, RESTORED.into())
    }

    /// Whether a consistent list at version `found`, requested after `seen` was seen of the
    /// type, proves that the store was restored. If so, reports it.
    pub(in crate::api) fn proves_restore(
        &self,
        resource: &GroupResource,
        seen: Option<&ResourceVersion>,
        found: Option<&ResourceVersion>,
    ) -> bool {
        let (Some(seen), Some(found)) = (seen, found) else { return false };
        // Unless the restore was found meanwhile and the graph was rebuilt.
        let still = self.restore_fence().last_seen(resource, self.high_water());
        let is_behind = seen.is_after(found) && still.is_some_and(|still| !seen.is_after(&still));
        if is_behind {
            self.report_older_store(resource, seen, found);
        }
        is_behind
    }

    fn report_older_store(&self, of: &GroupResource, seen: &ResourceVersion, found: &ResourceVersion) {
        self.restore_fence().report_restore(format!(
            "it is at version {found} now, but {of} had reached version {seen} before"
        ));
    }
}

fn namespaces() -> Arc<ResourceType> {
    Arc::new(ResourceType {
        group_resource: GroupResource::parse("namespaces"),
        version: "v1".into(),
        kind: "Namespace".into(),
        scope: Scope::Cluster,
    })
}
