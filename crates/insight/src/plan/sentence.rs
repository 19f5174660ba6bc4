//! A plan in words.

use crate::name::ObjectName;
use crate::neighbourhood::State;
use kube_gc_core::object::GroupResource;
use kube_gc_core::text::Thousands;

use super::answer::{Cascade, Effect, Plan, TypeEffects};

/// A number of things.
fn counted(number: usize, what: &str) -> String {
    format!("{} {what}{}", Thousands(number), if number == 1 { "" } else { "s" })
}

/// The plan in one sentence.
pub(super) fn verdict(plan: &Plan, root: Effect, after: Option<&ObjectName>) -> String {
    let object = &plan.object;
    let sum = |of: fn(&TypeEffects) -> usize| plan.by_type.iter().map(of).sum::<usize>();
    let (held, blocks) = (sum(|of| of.held), sum(|of| of.blocks));
    let (orphaned, kept) = (sum(|of| of.orphaned), sum(|of| of.kept));
    let how = match plan.cascade {
        Cascade::Background => "is deleted at once, and its dependents follow",
        Cascade::Foreground => "is deleted after the dependents that block it",
        Cascade::Orphan => "is deleted, and its dependents are released",
    };
    let mut text = format!("{object} {how}");
    text.push_str(&match plan.deletes.saturating_sub(1) {
        0 => "; no other object goes".to_owned(),
        others => format!(
            "; {} with it",
            counted(others, "other object") + if others == 1 { " goes" } else { " go" }
        ),
    });
    let mut add = |count: usize, what: &str| {
        if count > 0 {
            text.push_str(&format!(", {} {what}", Thousands(count)));
        }
    };
    add(held, if held == 1 { "is held by finalizers" } else { "are held by finalizers" });
    add(blocks, if blocks == 1 { "blocks it" } else { "block it" });
    add(orphaned, if orphaned == 1 { "is orphaned" } else { "are orphaned" });
    add(kept, if kept == 1 { "is kept by another owner" } else { "are kept by other owners" });
    add(plan.perhaps_deletes, "may go or stay");
    text.push('.');
    if root == Effect::Held {
        text.push_str(&format!(" {object} itself stays until its finalizers are removed."));
    } else if let Some(after) = after {
        text.push_str(&format!(" {object} waits for {after}."));
    }
    if plan.truncated {
        text.push_str(" There are more objects than were looked at.");
    }
    text
}

/// The verdict on an object that does not exist, or that could not be read.
pub(super) fn not_there(object: &ObjectName, state: State) -> String {
    match state {
        State::Absent => format!("{object} does not exist."),
        _ => format!("{object} could not be looked at."),
    }
}

/// What nobody can know beforehand.
pub(super) fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = vec![
        "Admission webhooks may refuse a deletion, and controllers may create objects anew: a plan cannot know."
            .to_owned(),
    ];
    let goes = |name: &str| {
        let name = GroupResource::parse(name).to_string();
        plan.by_type.iter().any(|of| of.resource == name && of.deleted + of.held > 0)
    };
    if goes("pods") {
        notes.push("A running Pod stays for its grace period.".to_owned());
    }
    if goes("namespaces") {
        notes.push(
            "The namespace controller of kube-controller-manager deletes what is in a namespace, whatever its owners."
                .to_owned(),
        );
    }
    if goes("customresourcedefinitions.apiextensions.k8s.io") {
        notes.push("The API server deletes the objects of a type before its definition goes.".to_owned());
    }
    if goes("persistentvolumeclaims") {
        notes.push(
            "What happens to the data behind a PersistentVolumeClaim depends on the reclaim policy of its volume."
                .to_owned(),
        );
    }
    notes
}
