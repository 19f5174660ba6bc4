//! The answer in words.

use std::collections::BTreeSet;

use crate::name::{ObjectName, Source};
use crate::plan::answer::{Cascade, Plan, TypeEffects};
use crate::sentence::counted;
use kube_gc_core::text::{LISTED, Thousands, listed};

/// How many objects do not simply go.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) held: usize,
    /// They go when controllers of Kubernetes remove their finalizers.
    pub(super) unsure: usize,
    /// They are being deleted already.
    pub(super) begun: usize,
}

/// What the first sentence says, besides the numbers of the plan.
#[cfg_attr(test, derive(Default))]
pub(super) struct Verdict<'a> {
    /// How many objects go before a root that goes last.
    pub(super) contents: Option<usize>,
    pub(super) roots: Tally,
    /// Of these, only those that are held count as being deleted already.
    pub(super) others: Tally,
    /// What has to happen before one root goes that finalizers hold.
    pub(super) held_by: Option<String>,
    /// Who removes those finalizers of one root, and when.
    pub(super) freed_by: Option<String>,
    /// What becomes of the volume of a claim, if that is known.
    pub(super) volume: Option<String>,
    /// That one root is being deleted already.
    pub(super) begun: Option<String>,
    /// Why a namespace among the roots does not go.
    pub(super) hangs: Option<&'a str>,
    /// Whether one root waits for objects that the brake holds.
    pub(super) is_braked: bool,
    /// The first objects that roots wait for.
    pub(super) holders: BTreeSet<ObjectName>,
}

impl Verdict<'_> {
    /// The plan in a few sentences.
    pub(super) fn of(&self, plan: &Plan) -> String {
        let sum = |of: fn(&TypeEffects) -> usize| plan.by_type.iter().map(of).sum::<usize>();
        let object = &plan.object;
        let (subject, [are, its, it, they]) = match plan.others.len() {
            0 => (object.to_string(), ["is", "its", "it", "it"]),
            more => (format!("{object} and {} more", Thousands(more)), ["are", "their", "them", "they"]),
        };
        let (roots, contents) = (1 + plan.others.len(), self.contents.unwrap_or_default());
        let held = sum(|of| of.held).saturating_sub(self.roots.held);
        // Of what is in it, those that are held are among the last.
        let said = roots + if contents > 0 { contents } else { held + self.others.unsure };
        let go = sum(|of| of.deleted) + sum(|of| of.held) + self.roots.unsure + self.others.unsure;
        let others = go.saturating_sub(said);
        let follow = match plan.cascade {
            Cascade::Orphan => sum(|of| of.orphaned),
            _ => others + held + self.others.unsure + sum(|of| of.blocks) + plan.perhaps_deletes,
        };
        let is_alone =
            self.contents == Some(0) || (self.contents.is_none() && follow == 0 && !plan.depends_on_unseen);
        let marked =
            self.held_by.as_ref().filter(|_| is_alone && self.begun.is_none() && self.hangs.is_none());
        let waits = self.roots.held + self.roots.unsure == roots;
        let then = if waits { format!(" when {they} {are} gone") } else { String::new() };
        let is_marked = waits && self.contents.is_none() && plan.cascade != Cascade::Foreground;
        let deleted = if is_marked { "marked for deletion" } else { "deleted" };
        let (mut text, goes) = match (&self.begun, marked) {
            (Some(begun), _) => (format!("{subject} {begun}"), ", and goes"),
            (None, Some(by)) => (format!("{subject} is marked for deletion and stays until {by}"), ""),
            (None, None) => (format!("{subject} {are} {deleted}"), ""),
        };
        match (self.contents, plan.cascade) {
            (Some(_), _) if plan.depends_on_unseen => text.push_str(&format!(
                "{goes} last, after its objects, unless something that was not looked at holds it"
            )),
            _ if is_alone => {}
            (Some(1), _) => text.push_str(&format!("{goes} last, after its only object")),
            (Some(count), _) => {
                text.push_str(&format!("{goes} last, after its {}", counted(count, "object")));
            }
            (None, Cascade::Background) => {
                let pods = if object.resource.as_deref() == Some("nodes") { "pods and " } else { "" };
                text.push_str(&format!(", and {its} {pods}dependents follow{then}"));
            }
            (None, Cascade::Foreground) => {
                text.push_str(&format!("{goes} after the dependents that block {it}"));
            }
            (None, Cascade::Orphan) => text.push_str(&format!(", and {its} dependents are released")),
        }
        let least = if plan.depends_on_unseen { "at least " } else { "" };
        // Those that the brake holds do not go now.
        let others = others.saturating_sub(plan.braked);
        let go = if others == 1 { "goes" } else { "go" };
        let volume = match (&self.volume, object.resource.as_deref()) {
            (Some(known), _) => known,
            (None, Some("persistentvolumeclaims")) => ", but perhaps its volume (by its reclaim policy)",
            (None, _) => "",
        };
        let now = if plan.braked + plan.braked_held > 0 { " now" } else { "" };
        match (others, contents) {
            (0, 0) if plan.perhaps_deletes + self.others.unsure > 0 => {}
            (0, 0) if plan.depends_on_unseen => text.push_str("; no other object that was looked at goes"),
            (0, 0) if marked.is_some() => text.push_str(&format!("; nothing else goes{volume}")),
            (0, 0) => text.push_str(&format!("; no other object goes{now}{volume}")),
            (0, _) => {}
            (_, 0) => text.push_str(&format!("; {least}{} {go}", counted(others, "other"))),
            _ => text.push_str(&format!("; {least}{} more {go}", Thousands(others))),
        }
        let mut add = |count: usize, [one, several]: [&str; 2], rest: &str| match count {
            0 => {}
            1 => text.push_str(&format!("; 1 {one}{rest}")),
            _ => text.push_str(&format!("; {} {several}{rest}", Thousands(count))),
        };
        let held_now = held - self.others.begun - plan.braked_held;
        add(plan.braked, ["waits", "wait"], " until the brake of the collector is released");
        add(self.others.begun, ["is", "are"], " being deleted already");
        let both = ["waits for the brake and until its", "wait for the brake and until"];
        add(plan.braked_held, both, " finalizers are removed");
        add(held_now, ["stays until its", "stay until"], " finalizers are removed");
        add(sum(|of| of.blocks), ["blocks ", "block "], it);
        add(sum(|of| of.orphaned), ["is", "are"], " orphaned");
        add(sum(|of| of.kept), ["is kept by another", "are kept by another"], " owner reference");
        add(plan.perhaps_deletes + self.others.unsure, ["may go or stay"; 2], "");
        text.push('.');
        let until = self.held_by.as_ref();
        match self.hangs {
            Some(hangs) if roots == 1 => {
                let until = until.map(|by| format!(", and {by}")).unwrap_or_default();
                text.push_str(&format!(" {subject} {hangs}{until}."));
            }
            Some(hangs) => text.push_str(&format!(" A namespace among them {hangs}.")),
            None if roots > 1 => {
                let stay = if self.roots.held == 1 {
                    "stays until what holds it"
                } else {
                    "stay until what holds them"
                };
                let are = if self.roots.begun == 1 { "is" } else { "are" };
                let each = [
                    (self.roots.begun, format!("{are} being deleted already")),
                    (self.roots.held, format!("{stay} is gone")),
                    (self.roots.unsure, "may go or stay".to_owned()),
                ];
                for (count, what) in each.iter().filter(|(count, _)| *count > 0) {
                    text.push_str(&format!(" {} of those named {what}.", Thousands(*count)));
                }
            }
            None => {
                text.extend(
                    self.freed_by.as_ref().map(|by| format!(" {object} itself may go or stay: {by}.")),
                );
                let until = until.filter(|_| marked.is_none());
                text.extend(until.map(|by| format!(" {object} itself stays until {by}.")));
            }
        }
        if !self.holders.is_empty() {
            let more = if self.holders.len() > LISTED { ", and others" } else { "" };
            let holders = listed(", ", self.holders.len().min(LISTED), &self.holders);
            let who = if roots == 1 { format!("{object} waits") } else { "Some of these wait".to_owned() };
            text.push_str(&format!(" {who} for {holders}{more}."));
        }
        if self.is_braked {
            text.push_str(&format!(" {object} waits for the brake, too."));
        }
        if plan.truncated {
            text.push_str(" There are more objects than were looked at.");
        }
        text
    }
}

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// What is to be said if objects of a type go.
const NOTES: [(&str, &str); 6] = [
    (
        "pods",
        "A running Pod stays for its grace period, and a deleted PersistentVolumeClaim until no Pod uses it.",
    ),
    ("services", "The control plane deletes the Endpoints of a Service, and its IPAddresses."),
    (
        "nodes",
        "PodGC of kube-controller-manager deletes the pods of a node that is gone, without a grace period.",
    ),
    (
        "namespaces",
        // KEP-5080.
        "The namespace controller of kube-controller-manager or a collector with --finish-namespaces deletes what is in \
         a namespace, whatever its owners. Pods go first, but the controller does that from Kubernetes 1.33 on only.",
    ),
    (DEFINITIONS, "The API server deletes the objects of a type before its definition goes."),
    (
        "persistentvolumeclaims",
        "The reclaim policy of a volume decides whether it goes, with its data, after its PersistentVolumeClaim.",
    ),
];

/// What nobody can know beforehand.
pub(super) fn notes(plan: &Plan, source: Source) -> Vec<String> {
    let always = "A plan cannot know what admission webhooks refuse, and what controllers create anew or delete \
                  besides.";
    let mut roots = std::iter::once(&plan.object).chain(&plan.others).enumerate();
    let has_contents = roots.any(|(place, root)| {
        matches!(root.resource.as_deref(), Some("namespaces" | DEFINITIONS))
            && plan.states.get(place).is_none_or(|(.., keeps_contents)| !keeps_contents)
    });
    let ends_it = plan.cascade != Cascade::Background && !has_contents;
    let collector = if ends_it {
        "With this policy, nothing goes unless a collector runs."
    } else {
        "Dependents go only if a collector runs."
    };
    // One that answers runs, and that it is in a dry run is said of each answer.
    let is_needed = source == Source::Lists && (ends_it || !plan.by_collector.is_empty());
    let needs_collector = is_needed.then_some(collector);
    let goes = |name: &str| {
        plan.by_type.iter().any(|of| of.resource == name && of.deleted + of.held + of.unknown > 0)
    };
    let is_node = plan.object.resource.as_deref() == Some("nodes");
    let is_kept = plan.states.iter().any(|(.., keeps_contents)| *keeps_contents);
    let is_other = |of: &str| is_node && of == "pods" || is_kept && of == "namespaces";
    let of_types = NOTES.iter().filter(|(resource, _)| goes(resource) && !is_other(resource));
    let of_types = of_types.map(|(_, note)| *note);
    std::iter::once(always).chain(needs_collector).chain(of_types).map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
