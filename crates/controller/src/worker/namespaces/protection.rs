//! Takes the protection off claims and volumes that are being deleted and not used
//! (`remove_protection_finalizers`, rules 11.13 and 11.14). All of them together have turns as a namespace has.

use super::Rivals;
use super::turn::Stop;
use crate::worker::context::WorkContext;
use kube_gc_core::namespaces::Ended;

pub(super) async fn turn(context: &WorkContext, rivals: &Rivals) -> Result<Ended, Stop> {
    let WorkContext { api, brake, .. } = context.now();
    let storage = if rivals.are_alone().await? { api.held_storage().await? } else { Vec::new() };
    let mut errors = Vec::new();
    for object in storage.iter().filter(|object| brake.holds(object.namespace.as_ref()).is_none()) {
        // One that fails does not delay the others.
        errors.extend(api.unprotect(object).await.err());
    }
    if let Some(error) = errors.first() {
        let failed = errors.len();
        tracing::warn!(%error, failed, "claims or volumes keep their protection for now; kube-gc tries again");
    }
    // The next change of a claim, a volume or a pod.
    Ok(Ended::Held { awaited: 1 })
}
