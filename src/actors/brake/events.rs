//! Tells people that deletion is paused, and that it goes on.

use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use tokio_util::sync::CancellationToken;

use super::{Brake, State};
use crate::actors::messages::WakeHeld;
use crate::api::{Api, ErrorClass, EventType};
use crate::object::{GroupResource, Identity, Namespace, ResourceType, Scope, Uid};

/// The reason of the event that deletion is paused.
pub const DELETION_PAUSED: &str = "DeletionPaused";
/// The reason of the event that it goes on.
pub const DELETION_RESUMED: &str = "DeletionResumed";

/// How long to wait before an event that could not be recorded is tried again.
const LATER: Duration = Duration::from_secs(5);

/// Follows the brake: records events, and wakes what was held. To be run as a task.
pub async fn tell(brake: Brake, api: Api, pool: Recipient<WakeHeld>, ending: CancellationToken) {
    let mut states = brake.state();
    let mut told = State::default();
    loop {
        let now = states.borrow_and_update().clone();
        if now.releases != told.releases {
            pool.do_send(WakeHeld);
        }
        let news = match (&told.engaged, &now.engaged) {
            (_, Some(engagement)) if now.releases != told.releases || told.engaged.is_none() => {
                let message = format!("deletion is paused {engagement}; {}", brake.resume());
                Some((EventType::Warning, DELETION_PAUSED, message))
            }
            (Some(engagement), None) => {
                let message = format!("deletion goes on; it was paused {engagement}");
                Some((EventType::Normal, DELETION_RESUMED, message))
            }
            _ => None,
        };
        told = now;
        tokio::select! {
            () = ending.cancelled() => return,
            changed = states.changed() => if changed.is_err() { return },
            () = record(&brake, &api, news), if true => {
                tokio::select! {
                    () = ending.cancelled() => return,
                    changed = states.changed() => if changed.is_err() { return },
                }
            }
        }
    }
}

/// Records an event, and tries again for as long as there is something to hope for.
async fn record(brake: &Brake, api: &Api, news: Option<(EventType, &'static str, String)>) {
    let Some((kind, reason, message)) = news else { return };
    let mut failed = false;
    loop {
        let about = brake.lease().identity.clone().or_else(ourselves);
        let Some(about) = about else { return };
        match api.tell(&about, kind, reason, &message).await {
            Ok(()) => return,
            Err(error) => {
                if !failed {
                    tracing::warn!(%about, reason, %error, "the event could not be recorded");
                }
                failed = true;
                match error.class {
                    // A standby that is about to lead, say.
                    ErrorClass::GateClosed | ErrorClass::Transient | ErrorClass::Throttled { .. } => {
                        tokio::time::sleep(LATER).await;
                    }
                    _ => return,
                }
            }
        }
    }
}

/// What an event can be about without a Lease: the pod, as the downward API names it, or
/// a namespace that there always is.
fn ourselves() -> Option<Identity> {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    match (variable("POD_NAMESPACE"), variable("POD_NAME")) {
        (Some(namespace), Some(name)) => {
            let uid = variable("POD_UID").unwrap_or_else(|| name.clone());
            core("pods", "Pod", Namespace::parse(&namespace), &name, &uid)
        }
        _ => core("namespaces", "Namespace", None, "kube-system", "kube-system"),
    }
}

fn core(resource: &str, kind: &str, namespace: Option<Namespace>, name: &str, uid: &str) -> Option<Identity> {
    let resource = ResourceType {
        group_resource: GroupResource::new("", resource),
        version: "v1".into(),
        kind: kind.into(),
        scope: if namespace.is_some() { Scope::Namespaced } else { Scope::Cluster },
    };
    Some(Identity { resource: Arc::new(resource), namespace, name: name.into(), uid: Uid::parse(uid)? })
}
