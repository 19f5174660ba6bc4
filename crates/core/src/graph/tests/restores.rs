//! Broken watches and restored stores.

use crate::graph::testing::world::*;
use crate::graph::{DeletesProve, Epoch, ExpectedChange, OwnerState, Snapshot, WatchEvent};
use crate::object::{Disturbance, ResourceVersion};

fn disturb(w: &mut World, number: u64, found: Option<u64>) {
    let disturbance = Disturbance { number, found: found.map(ResourceVersion::number) };
    for partition in &mut w.partitions {
        partition.disturbed(disturbance.clone(), &mut w.out);
    }
    w.deliver();
}

/// An absence that was proved before watches broke has to be proved again.
#[test]
fn absences_must_be_proved_again_after_a_disturbance() {
    let owner = config("o").at(5);
    let mut w = World::of(2, &[&owner, &pod("p").owned(&owner).at(6)]);
    w.delete(&owner.clone().at(7));
    assert_eq!(w.state(&owner), OwnerState::Absent);
    w.forget();
    disturb(&mut w, 1, None);
    assert_eq!(w.state(&owner), OwnerState::Unknown);
    assert_eq!(w.queued(), ["o"], "the owner must be looked up");
    w.prove_absent(&owner);
    assert_eq!((w.state(&owner), w.queued()), (OwnerState::Absent, vec!["p".to_owned()]));
    disturb(&mut w, 1, Some(8));
    assert_eq!(w.state(&owner), OwnerState::Absent, "there was no further disturbance");
}

/// An owner that was proved absent and whose type is no longer served cannot be looked up.
#[test]
fn a_renewed_proof_that_a_type_is_gone_renews_the_absence_of_its_owners() {
    let owner = obj("widgets.example.com", "ns", "o").at(5);
    let mut w = World::of(1, &[&owner, &pod("p").owned(&owner).at(6)]);
    w.delete(&owner.clone().at(7));
    w.set_catalog(&catalog_without(&["widgets.example.com"]));
    w.remove_type("widgets.example.com");
    assert_eq!(w.state(&owner), OwnerState::Absent);
    w.forget();
    disturb(&mut w, 1, None);
    assert_eq!(w.state(&owner), OwnerState::Unknown);
    w.see(&[&pod("late").owned(&owner).at(20)]);
    w.forget();
    for proved_under in [None, Some(0)] {
        w.remove_type_proved("widgets.example.com", proved_under);
        assert_eq!(w.state(&owner), OwnerState::Unknown, "the type may be back with its objects");
    }
    w.remove_type_proved("widgets.example.com", Some(1));
    assert_eq!(w.state(&owner), OwnerState::Absent, "the type is not back");
    assert!(w.queued().contains(&"p".to_owned()));
}

/// The last deletions of a removed type, after the watches of other types broke.
#[test]
fn an_owner_deleted_with_its_type_is_absent_when_the_type_is_proved_gone() {
    let owner = obj("widgets.example.com", "ns", "o").at(5);
    let mut w = World::of(1, &[&owner, &pod("p").owned(&owner).at(6)]);
    disturb(&mut w, 1, Some(8));
    w.delete(&owner.clone().at(7));
    w.set_catalog(&catalog_without(&["widgets.example.com"]));
    w.forget();
    w.remove_type("widgets.example.com");
    assert_eq!((w.state(&owner), w.queued()), (OwnerState::Absent, vec!["p".to_owned()]));
}

/// A deletion that was read from a watch before it broke, and one after. Fails if a deletion counts that has
/// the version that was found: the store was restored, has reached the version of the deletion by other
/// writes, and has the owner.
#[test]
fn a_deletion_is_proof_only_after_the_version_found_after_the_disturbance() {
    for (found, version, proved) in
        [(None, 9, false), (Some(8), 7, false), (Some(8), 8, false), (Some(8), 9, true)]
    {
        for by_list in [false, true] {
            let owner = config("o").at(5);
            let mut w = World::of(1, &[&owner, &pod("p").owned(&owner).at(6)]);
            disturb(&mut w, 1, found);
            w.forget();
            match by_list {
                true => w.list("configmaps", version, &[]),
                false => w.delete(&owner.clone().at(version)),
            }
            let expected = if proved { OwnerState::Absent } else { OwnerState::Unknown };
            assert_eq!(w.state(&owner), expected, "{found:?} {version} {by_list}");
            assert_eq!(w.queued(), if proved { ["p"] } else { ["o"] }, "{found:?} {version} {by_list}");
        }
    }
}

#[test]
fn writes_before_a_disturbance_await_no_event() {
    let (owner, child) = (config("o").at(5), pod("p").owned(&config("o")).at(6));
    let mut w = World::of(1, &[&owner, &child]);
    w.partition("ns").expect_event(&child.key(), &ExpectedChange::Removed);
    assert_eq!(w.snapshot_and_queue(&child), Snapshot::AwaitsEvent);
    w.forget();
    disturb(&mut w, 1, None);
    assert_eq!(w.queued(), ["p"], "the key that waited is queued");
    assert!(matches!(w.snapshot_and_queue(&child), Snapshot::Object(_)));
}

/// The versions of an object only grow. If a list shows a lower one, the store was restored,
/// whatever the list's own version is.
#[test]
fn an_object_that_a_list_shows_at_a_lower_version_proves_a_restore() {
    let (owner, child) = (config("o").at(5), pod("p").at(6));
    let mut w = World::of(1, &[&owner, &child, &child.clone().owned(&owner).at(9)]);
    w.list("pods", 1_000_000, &[&child]);
    let proof = w.out.restored.take().expect("a proof");
    assert!(
        proof.contains("pods") && proof.contains("version 6, but its version 9 was seen before"),
        "{proof}"
    );
    assert!(w.object(&child).references.is_empty(), "the list is applied");
    assert_eq!(w.object(&child).resource_version, child.facts.resource_version);
}

#[test]
fn a_repeated_event_and_a_list_of_unknown_version_prove_no_restore() {
    let child = pod("p").at(6);
    let mut w = World::of(1, &[&child.clone().at(9), &child]);
    w.change(&child, WatchEvent::Init { resource_version: None });
    w.see(&[&child]);
    assert_eq!(w.out.restored, None);
    assert_eq!(w.object(&child).resource_version, Some(ResourceVersion::number(9)));
}

/// Versions of aggregated APIs may be arbitrary.
#[test]
fn an_older_version_from_an_aggregated_api_is_accepted() {
    let mut w = World::unsynced(1);
    w.deletes_prove = DeletesProve::Nothing;
    w.epoch = Epoch(2);
    w.start("pods");
    let (late, early) = (pod("p").at(1_700_000_000), pod("p").owned(&config("o")).at(3));
    w.list("pods", 1_700_000_001, &[&late]);
    w.list("pods", 4, &[&early]);
    assert_eq!(w.out.restored, None, "versions of aggregated APIs prove nothing");
    assert_eq!(w.object(&early).references.len(), 1);
    w.see(&[&late]);
    assert!(w.object(&late).references.is_empty(), "a watch is applied, too");
    // Its watch and its answers to writes use different versions.
    w.partition("ns")
        .expect_event(&late.key(), &ExpectedChange::Version(ResourceVersion::number(1_800_000_000)));
    assert_eq!(w.snapshot_and_queue(&late), Snapshot::AwaitsEvent);
    w.see(&[&early]);
    assert!(matches!(w.snapshot_and_queue(&early), Snapshot::Object(_)), "any event ends the wait");
}

/// The API server itself now serves an API that an aggregated server used to serve. Their versions
/// cannot be compared.
#[test]
fn another_server_of_a_type_proves_no_restore_and_no_absence() {
    let mut w = World::unsynced(1);
    w.deletes_prove = DeletesProve::Nothing;
    w.epoch = Epoch(2);
    w.start("configmaps");
    let (owner, gone) = (config("o").at(9_000), config("gone").at(9_001));
    w.list("configmaps", 9_002, &[&owner, &gone]);
    w.deletes_prove = DeletesProve::Absence;
    w.epoch = Epoch(3);
    w.start("configmaps");
    w.start("pods");
    let of_gone = pod("p").owned(&gone).at(20);
    w.list("pods", 20, &[&of_gone]);
    w.forget();
    w.list("configmaps", 21, &[&owner.clone().at(10)]);
    assert_eq!(w.out.restored, None);
    assert!(w.is_observed(&owner));
    assert_eq!((w.state(&gone), w.queued()), (OwnerState::Unknown, vec!["gone".to_owned()]));
    w.list("configmaps", 22, &[&owner.at(9)]);
    assert!(w.out.restored.is_some(), "versions are comparable from now on");
}

/// Its dependents no longer count as orphaned, because it may be deleted again with another policy
/// (rule 5.12).
#[test]
fn a_returned_object_is_reported() {
    let owner = config("o").at(5);
    let mut w = World::of(1, &[&owner, &pod("p").owned(&owner).at(6)]);
    w.delete(&owner.clone().at(7));
    w.forget();
    w.see(&[&owner]);
    assert!(w.out.revived.is_empty(), "a watch may repeat an event");
    w.delete(&owner.clone().at(7));
    w.list("configmaps", 9, &[&owner.clone().foreground()]);
    assert!(w.out.revived.is_empty(), "it is being deleted");
    w.delete(&owner.clone().at(9));
    w.list("configmaps", 10, &[&owner]);
    assert_eq!(w.out.revived, [owner.identity()]);
}
