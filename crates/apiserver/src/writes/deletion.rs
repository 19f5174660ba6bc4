//! Decides the effect of a DELETE: keep the object, keep it for some time, or remove it.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use crate::object::{parse_time, timestamp};
use crate::resources::{DefaultPolicy, Resource};
use crate::writes::metadata::{self, finalizers, number, text};
use crate::writes::options::{DeleteOptions, Policy};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The default grace period of a Pod.
const DEFAULT_GRACE: i64 = 30;

/// The effect of a DELETE.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Deletion {
    /// None: a graceful deletion is in progress, and this one would not shorten it.
    Pending,
    /// The object stays, in this state.
    Kept(Value),
    /// The object is removed, after it has taken this state, if any.
    Removed(Option<Value>),
    /// The object is removed in its current state, because none of its finalizers is left. It would
    /// have taken this state.
    Freed(Value),
}

/// Decides the effect.
pub(super) fn decide(
    object: &Value,
    options: &DeleteOptions,
    resource: &Resource,
    now: SystemTime,
) -> Deletion {
    let mut new = object.clone();
    let grace = match graceful(&mut new, options, resource, now) {
        Grace::Pending => return Deletion::Pending,
        Grace::None => None,
        Grace::Seconds(seconds) => Some(seconds),
    };
    let held = finalizers(metadata::of(object)).next().is_some();
    let wanted = finalizers_after(metadata::of(object), options, resource.default_policy);
    if grace.is_none() && !held && wanted.is_none() {
        return Deletion::Removed(None);
    }
    let fields = metadata::of_mut(&mut new);
    if let Some(wanted) = wanted {
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        metadata::set_finalizers(fields, wanted);
    }
    let held = finalizers(fields).next().is_some();
    if held && grace.is_none() {
        mark_as_deleting(fields, now);
    }
    if held || grace.is_some_and(|grace| grace > 0) {
        Deletion::Kept(new)
    } else if grace.is_some() {
        Deletion::Removed(Some(new))
    } else {
        Deletion::Freed(new)
    }
}

enum Grace {
    /// The object has no graceful deletion.
    None,
    /// The pending deletion stays as it is.
    Pending,
    /// This many seconds are left, which the object states.
    Seconds(i64),
}

fn graceful(object: &mut Value, options: &DeleteOptions, resource: &Resource, now: SystemTime) -> Grace {
    if !resource.graceful {
        return Grace::None;
    }
    // A negative period is one second.
    let asked = options.grace_period_seconds.map(|grace| if grace < 0 { 1 } else { grace });
    let fields = metadata::of(object);
    if let Some(ends) = Some(text(fields, "deletionTimestamp")).filter(|time| !time.is_empty()) {
        let Some(left) = number(fields, "deletionGracePeriodSeconds").filter(|left| *left != 0) else {
            return Grace::None;
        };
        return match (asked, parse_time(ends)) {
            (Some(asked), Some(ends)) if asked < left => {
                let fields = metadata::of_mut(object);
                let ends = ends.checked_sub(seconds(left.saturating_sub(asked))).unwrap_or(ends);
                set_grace(fields, ends, asked);
                Grace::Seconds(asked)
            }
            _ => Grace::Pending,
        };
    }
    let own = || object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let grace = if has_ended(object) { 0 } else { asked.or_else(own).unwrap_or(DEFAULT_GRACE) };
    let fields = metadata::of_mut(object);
    set_grace(fields, now.checked_add(seconds(grace)).unwrap_or(now), grace);
    count(fields);
    Grace::Seconds(grace)
}

/// Whether no container of a Pod can be running: it is bound to no node, or finished.
fn has_ended(pod: &Value) -> bool {
    let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default();
    text("/spec/nodeName").is_empty() || matches!(text("/status/phase"), "Failed" | "Succeeded")
}

fn seconds(grace: i64) -> Duration {
    Duration::from_secs(grace.unsigned_abs())
}

fn set_grace(fields: &mut Map<String, Value>, ends: SystemTime, grace: i64) {
    fields.insert("deletionTimestamp".to_owned(), timestamp(ends).into());
    fields.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
}

/// Increases the generation when a deletion begins. Types that do not count generations let clients
/// write any number, even the greatest.
fn count(fields: &mut Map<String, Value>) {
    if let Some(generation) = number(fields, "generation").filter(|generation| *generation > 0) {
        fields.insert("generation".to_owned(), generation.wrapping_add(1).into());
    }
}

fn mark_as_deleting(fields: &mut Map<String, Value>, now: SystemTime) {
    let since = parse_time(text(fields, "deletionTimestamp"));
    if since.is_none() {
        count(fields);
    }
    if since.is_none_or(|since| since > now) {
        fields.insert("deletionTimestamp".to_owned(), timestamp(now).into());
    }
    fields.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
}

/// The finalizers after applying the policy, if they change: the collector's finalizers are
/// removed, and the one of the policy is appended.
fn finalizers_after(
    fields: &Map<String, Value>,
    options: &DeleteOptions,
    default: DefaultPolicy,
) -> Option<Vec<String>> {
    let policy = match effective_policy(fields, options, default) {
        Policy::Orphan => Some(ORPHAN),
        Policy::Foreground => Some(FOREGROUND),
        Policy::Background => None,
    };
    let others = finalizers(fields).filter(|finalizer| !matches!(*finalizer, ORPHAN | FOREGROUND));
    let wanted: Vec<&str> = others.chain(policy).collect();
    let same = BTreeSet::from_iter(wanted.iter().copied()) == finalizers(fields).collect();
    (!same).then(|| wanted.into_iter().map(str::to_owned).collect())
}

/// The policy of the DELETE, or else of the object's finalizers, or else of the type.
fn effective_policy(fields: &Map<String, Value>, options: &DeleteOptions, default: DefaultPolicy) -> Policy {
    if default == DefaultPolicy::Unsupported {
        return Policy::Background;
    }
    match (options.orphan_dependents, options.propagation_policy) {
        (Some(true), _) => return Policy::Orphan,
        (Some(false), _) => return Policy::Background,
        (None, Some(policy)) => return policy,
        (None, None) => {}
    }
    for finalizer in finalizers(fields) {
        match finalizer {
            ORPHAN => return Policy::Orphan,
            FOREGROUND => return Policy::Foreground,
            _ => {}
        }
    }
    if default == DefaultPolicy::Orphan { Policy::Orphan } else { Policy::Background }
}
