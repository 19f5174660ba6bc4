//! Records an event when deletion is paused, and when it resumes.

use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Brake, State};
use crate::actors::pool::PoolCommand;
use crate::api::{Api, ErrorClass, EventType};
use crate::telemetry::Structured;
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType, Scope, Uid};

/// The reason of the event that deletion is paused.
pub const DELETION_PAUSED: &str = "DeletionPaused";
/// The reason of the event that it resumes.
pub const DELETION_RESUMED: &str = "DeletionResumed";

/// How long to wait before an event is retried.
const LATER: Duration = Duration::from_secs(5);

/// An event to record.
struct BrakeEvent {
    kind: EventType,
    reason: &'static str,
    message: String,
}

/// Follows the brake: records events, and wakes the keys that it held. To be run as a task.
pub async fn tell(brake: Brake, api: Api, pools: Vec<Recipient<PoolCommand>>, ending: CancellationToken) {
    let follow = async {
        let mut states = brake.state();
        let mut told = State::default();
        loop {
            let now = states.borrow_and_update().clone();
            if now.releases != told.releases {
                pools.iter().for_each(|pool| pool.do_send(PoolCommand::WakeBraked));
            }
            for news in between(&told, &now, &brake) {
                while record(&brake, &api, &news).await == Recorded::Later {
                    // A newer state makes it pointless.
                    if timeout(LATER, states.changed()).await.is_ok() {
                        states.mark_changed();
                        break;
                    }
                }
            }
            told = now;
            if states.changed().await.is_err() {
                return;
            }
        }
    };
    ending.run_until_cancelled(follow).await;
}

/// The events between two states. The brake may have been released and have engaged again.
fn between(told: &State, now: &State, brake: &Brake) -> Vec<BrakeEvent> {
    let released = now.releases != told.releases;
    let resumed = told.paused().filter(|_| released).map(|what| BrakeEvent {
        kind: EventType::Normal,
        reason: DELETION_RESUMED,
        message: format!("deletion is resumed; it was {what}"),
    });
    let new = if released { now.paused() } else { now.paused_since(told) };
    let paused = new.map(|what| BrakeEvent {
        kind: EventType::Warning,
        reason: DELETION_PAUSED,
        message: format!("deletion is {what}; {}", brake.resume()),
    });
    resumed.into_iter().chain(paused).collect()
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    /// It was recorded, or a retry would not help.
    Finally,
    /// Not now, for example because this is a standby that is about to lead.
    Later,
}

async fn record(brake: &Brake, api: &Api, news: &BrakeEvent) -> Recorded {
    let variable = |name: &str| std::env::var(name).ok();
    let about = brake.lease().identity.clone().or_else(|| ourselves(variable));
    let Some(about) = about else { return Recorded::Finally };
    let BrakeEvent { kind, reason, message } = news;
    let Err(error) = api.tell(&about, *kind, reason, message).await else { return Recorded::Finally };
    match error.class {
        ErrorClass::GateClosed
        | ErrorClass::Transient
        | ErrorClass::Throttled { .. }
        | ErrorClass::Deferred { .. } => {
            tracing::debug!(
                object = Structured::object(&about).logged(),
                event = reason,
                %error,
                "cannot create the event about the brake; kube-gc retries"
            );
            Recorded::Later
        }
        _ => {
            tracing::warn!(
                object = Structured::object(&about).logged(),
                event = reason,
                %error,
                "cannot create the event about the brake; check that kube-gc may create events"
            );
            Recorded::Finally
        }
    }
}

/// The object of an event when there is no Lease: the pod, as the downward API names it, or else
/// the namespace kube-system, which always exists.
fn ourselves(variable: impl Fn(&str) -> Option<String>) -> Option<Identity> {
    let variable = |name| variable(name).filter(|value| !value.is_empty());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_lease_an_event_is_about_the_pod_or_about_a_namespace_that_always_exists() {
        let in_a_pod = ourselves(|name| {
            let value = match name {
                "POD_NAMESPACE" => "gc",
                "POD_NAME" => "kube-gc-1",
                _ => "u-1",
            };
            Some(value.to_owned())
        })
        .unwrap();
        assert_eq!(in_a_pod.to_string(), "pods gc/kube-gc-1 (u-1)");
        let outside = ourselves(|_| None).unwrap();
        assert_eq!(outside.to_string(), "namespaces kube-system (kube-system)");
        assert_eq!(ourselves(|_| Some(String::new())).unwrap(), outside, "empty is as good as not set");
    }
}
