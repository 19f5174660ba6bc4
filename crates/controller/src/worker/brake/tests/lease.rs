//! The annotations of the brake on the Lease.

use std::sync::Arc;
use std::time::SystemTime;

use super::super::*;
use kube_gc_client::ReplicaRole;
use kube_gc_core::brake::lease::{ENGAGED, RESUME};
use kube_gc_core::brake::{Engagement, Limits};
use kube_gc_leader::testing::{Delivery, Replica, Server};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// A replica with a brake.
struct Braked {
    replica: Replica,
    brake: Brake,
}

impl Braked {
    fn start(name: &str, server: Server) -> Self {
        let brake = Brake::new(Limits { per_minute: Some(std::num::NonZeroU32::MIN), ..Limits::default() });
        let annotations = Arc::new(brake.clone());
        Self {
            replica: Replica::start_with(name, server, |elector| elector.with_annotations(annotations)),
            brake,
        }
    }

    fn engage(&self) {
        self.brake.engage(None, Engagement { since: SystemTime::UNIX_EPOCH, why: "too many".to_owned() });
    }

    fn is_engaged(&self) -> bool {
        self.brake.warning().is_some()
    }

    /// The value of an annotation of the Lease.
    fn says(&self, key: &str) -> Option<String> {
        let stored = self.replica.server.stored.lock().unwrap();
        stored.lease.as_ref()?.metadata.annotations.as_ref()?.get(key).cloned()
    }

    /// As `kubectl annotate` does it.
    fn annotate(&self, key: &str, value: &str) {
        let mut stored = self.replica.server.stored.lock().unwrap();
        let mut lease = stored.lease.clone().unwrap();
        lease.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        stored.write(lease);
    }
}

/// Long enough for two renewals.
const SOON: Duration = Duration::from_secs(7);
/// Soon enough that no renewal was due.
const AT_ONCE: Duration = Duration::from_millis(10);

/// A leader whose brake is engaged, and its standby.
async fn engaged() -> (Braked, Braked) {
    let one = Braked::start("one", Server::default());
    one.replica.leads().await;
    let two = Braked::start("two", one.replica.server.again());
    sleep(30 * SECOND + SECOND / 2).await;
    assert_eq!(one.says(ENGAGED), None);
    one.engage();
    sleep(AT_ONCE).await;
    assert_eq!(one.says(ENGAGED).as_deref(), Some("1970-01-01T00:00:00Z too many"), "written at once");
    sleep(30 * SECOND).await;
    assert!(one.replica.writes() && one.is_engaged() && !two.is_engaged());
    (one, two)
}

#[tokio::test(start_paused = true)]
async fn an_annotation_from_before_the_engagement_has_no_effect() {
    let one = Braked::start("one", Server::default());
    one.replica.leads().await;
    one.annotate(RESUME, "whatever may come");
    one.annotate("other", "kept");
    sleep(SOON).await;
    assert_eq!(one.says(RESUME), None, "taken away");
    one.engage();
    sleep(SOON).await;
    assert!(one.is_engaged());
    assert_eq!(one.says("other").as_deref(), Some("kept"));
}

#[tokio::test(start_paused = true)]
async fn a_successor_of_a_killed_leader_inherits_the_brake_before_it_writes() {
    let (one, two) = engaged().await;
    one.replica.killed();
    let mut role = two.replica.gate.role();
    role.wait_for(ReplicaRole::writes).await.unwrap();
    assert!(two.is_engaged(), "before the gate was opened");
    assert!(two.brake.warning().unwrap().contains("since 1970-01-01T00:00:00Z: too many"));
    sleep(SOON).await;
    assert!(two.says(ENGAGED).is_some(), "for whoever comes next");
    two.annotate(RESUME, "now");
    sleep(SOON).await;
    assert!(!two.is_engaged() && two.says(ENGAGED).is_none());
}

/// Whoever resumes it: a person who annotates the Lease that has no leader, or a restart.
#[tokio::test(start_paused = true)]
async fn what_resumes_deletion_without_a_leader_holds_for_the_next_leader() {
    for is_restart in [false, true] {
        let (one, two) = engaged().await;
        if is_restart {
            one.replica.ended().await;
            assert_eq!(two.says(ENGAGED), None);
        } else {
            one.replica.killed();
            two.annotate(RESUME, "now");
        }
        two.replica.leads().await;
        assert!(!two.is_engaged());
        sleep(SOON).await;
        assert_eq!((two.says(RESUME), two.says(ENGAGED)), (None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_lost_the_lease_leaves_the_brake_to_the_leader() {
    let (one, two) = engaged().await;
    one.replica.server.set_delivery(Delivery::Silent);
    two.replica.leads().await;
    one.replica.server.set_delivery(Delivery::Open);
    let standby = ReplicaRole::Standby { holder: Some(two.replica.me.shared()) };
    one.replica.gate.role().wait_for(|role| *role == standby).await.unwrap();
    assert!(two.is_engaged() && !one.is_engaged());
    // A release by the other leader is not undone when the first one leads again.
    two.annotate(RESUME, "now");
    sleep(SOON).await;
    two.replica.ended().await;
    one.replica.leads().await;
    assert!(!one.is_engaged());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_regains_its_own_lease_still_has_the_brake_engaged() {
    let (one, two) = engaged().await;
    two.replica.killed();
    one.replica.server.set_delivery(Delivery::Refused);
    one.replica.stands_by().await;
    assert!(one.is_engaged());
    one.replica.server.set_delivery(Delivery::Open);
    one.replica.leads().await;
    assert!(one.is_engaged() && one.says(ENGAGED).is_some());
}
