//! Types that discovery does not show any more.
//!
//! An answer without a type proves nothing: a server may have started before it knows all
//! of its types, and the type may come back with its objects. So it is kept as it was, with
//! its monitor, until what defines it (its CRD, or the APIService of its version) is seen to be gone, or
//! until it has been missing for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::api::{Definition, GroupFailure};
use kube_gc_core::object::{Catalog, GroupResource, KindKey, ResourceType};
use kube_gc_core::text;

use super::failing::Failing;

/// How long a type, or a kind in some version, has to be missing in complete answers until
/// it is taken for gone although nothing proves it: long enough for an API server that
/// starts, or is replaced by another version, to know all of its types.
const GONE_AFTER: Duration = Duration::from_secs(30 * 60);
/// And in so many of them: the clock may have stood still, or jumped.
const GONE_AFTER_ANSWERS: u32 = 3;

/// What is kept of earlier answers.
#[derive(Debug, Default)]
pub(super) struct Unserved {
    types: BTreeMap<GroupResource, (Arc<ResourceType>, Missing)>,
    kinds: BTreeMap<KindKey, Missing>,
    /// Types that a CRD is known to have defined.
    defined: BTreeSet<GroupResource>,
    /// Types that were proved to be gone, and under which disturbance last.
    gone: BTreeMap<GroupResource, (Arc<ResourceType>, Definition, u64)>,
}

/// How many types that are gone are asked for again when watches have broken. Of others,
/// what hangs on their objects waits until they are back.
const GONE_AT_MOST: usize = 256;

/// Since when something is missing.
#[derive(Clone, Copy, Debug)]
struct Missing {
    since: Instant,
    at: SystemTime,
    /// In how many complete answers.
    answers: u32,
}

impl Missing {
    fn new(now: Instant) -> Self {
        Self { since: now, at: SystemTime::now(), answers: 0 }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.answers >= GONE_AFTER_ANSWERS && now - self.since >= GONE_AFTER
    }
}

/// What a discovery answer says, and what is kept all the same.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    /// The catalog of the answer.
    pub catalog: &'a Catalog,
    /// What was known before.
    pub before: &'a Catalog,
    /// Types that were watched, and which the answer lacks.
    pub missing: Vec<Arc<ResourceType>>,
    /// Those that are proved to be gone.
    pub gone: BTreeSet<GroupResource>,
    /// Versions of groups that are proved to be gone.
    pub gone_versions: BTreeSet<GroupVersion>,
    /// Whether no part of the API failed to answer.
    pub is_complete: bool,
}

/// A group and one of its versions.
pub(super) type GroupVersion = (Box<str>, Box<str>);

impl Unserved {
    /// A CRD defines this type.
    pub(super) fn defined(&mut self, resource: GroupResource) {
        self.defined.insert(resource);
    }

    /// What defines a type, if that can be asked for.
    pub(super) fn definition(&self, resource: &ResourceType) -> Option<Definition> {
        let ResourceType { group_resource, version, .. } = resource;
        if self.defined.contains(group_resource) {
            return Some(Definition::Crd(group_resource.clone()));
        }
        // The core group goes with nobody.
        let group = &group_resource.group;
        (!group.is_empty()).then(|| Definition::ApiService { group: group.clone(), version: version.clone() })
    }

    /// This definition of a type was proved to be gone under a disturbance.
    fn proved_gone(&mut self, resource: &Arc<ResourceType>, definition: Definition, under: u64) {
        if self.gone.len() >= GONE_AT_MOST && !self.gone.contains_key(&resource.group_resource) {
            self.gone.pop_first();
        }
        let proof = (Arc::clone(resource), definition, under);
        self.gone.insert(resource.group_resource.clone(), proof);
    }

    /// Whether any type was proved to be gone.
    pub(super) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Under which disturbance a type was proved to be gone.
    pub(super) fn proved_under(&self, resource: &GroupResource) -> Option<u64> {
        self.gone.get(resource).map(|(.., under)| *under)
    }

    /// What there is to ask before an answer in which these types are missing is taken
    /// in: whether they are gone, and whether those are still that were before watches
    /// broke.
    pub(super) fn questions(&self, missing: &[Arc<ResourceType>], number: u64) -> Vec<Question> {
        let missing = missing.iter().map(|resource| (resource, self.definition(resource)));
        let outdated = self.gone.values().filter(|(.., under)| *under < number);
        let outdated = outdated.map(|(resource, definition, _)| (resource, Some(definition.clone())));
        let all: BTreeMap<_, _> =
            outdated.chain(missing).map(|(of, definition)| (&of.group_resource, (of, definition))).collect();
        all.into_values().map(|(resource, definition)| (Arc::clone(resource), definition)).collect()
    }

    /// Takes in which types are proved to be gone, of those that were asked for. Answers
    /// those of which that was known before.
    pub(super) fn weighed(&mut self, asked: Vec<Weighed>, number: u64) -> Vec<Arc<ResourceType>> {
        let mut again = Vec::new();
        for Weighed { resource, definition, is_gone } in asked {
            let was_gone = self.gone.contains_key(&resource.group_resource);
            match definition {
                Some(definition) if is_gone == Some(true) => {
                    self.proved_gone(&resource, definition, number);
                    again.extend(was_gone.then_some(resource));
                }
                _ if is_gone == Some(false) => drop(self.gone.remove(&resource.group_resource)),
                _ => {}
            }
        }
        again
    }

    /// Takes an answer in: the catalog with what is kept, and the types that are gone
    /// from now on.
    pub(super) fn answered(
        &mut self,
        answer: Answer<'_>,
        now: Instant,
    ) -> (Arc<Catalog>, Vec<GroupResource>) {
        let Answer { catalog, before, missing, mut gone, gone_versions, is_complete } = answer;
        self.gone.retain(|name, _| catalog.resource(name).is_none());
        let counted = u32::from(is_complete);
        let was = std::mem::take(&mut self.types);
        for resource in missing {
            let name = resource.group_resource.clone();
            let mut entry = was.get(&name).map_or_else(|| Missing::new(now), |(_, missing)| *missing);
            entry.answers += counted;
            if gone.contains(&name) {
                self.defined.remove(&name);
            } else if is_complete && entry.is_over(now) {
                tracing::info!(resource = %name, "type has not been served for long; it is taken for gone");
                gone.insert(name);
            } else {
                self.types.insert(name, (resource, entry));
            }
        }
        let new = self.types.keys().filter(|name| !was.contains_key(*name));
        let total = new.clone().count();
        if total > 0 {
            let types = text::listed(", ", total, new);
            tracing::warn!(
                types,
                "discovery does not show types that are not known to be gone; they are kept"
            );
        }
        let mut kinds = BTreeMap::new();
        for (key, resource) in before.kinds_missing_in(catalog) {
            let mut entry = self.kinds.get(key).copied().unwrap_or_else(|| Missing::new(now));
            entry.answers += counted;
            let (group, version, _) = key;
            let is_over = is_complete && entry.is_over(now)
                || gone_versions.contains(&(group.clone(), version.clone()));
            if !is_over && !gone.contains(&resource.group_resource) {
                kinds.insert(key.clone(), entry);
            }
        }
        self.kinds = kinds;
        let merged =
            catalog.keeping(before, |key| self.kinds.contains_key(key), |name| self.types.contains_key(name));
        (Arc::new(merged), gone.into_iter().collect())
    }

    /// Whether a type is kept although it is not served.
    pub(super) fn keeps(&self, resource: &GroupResource) -> bool {
        self.types.contains_key(resource)
    }

    /// The types that are kept.
    pub(super) fn types(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.types.values().map(|(resource, _)| resource)
    }

    /// What is to be told of them: by group and version, since when.
    pub(super) fn failing(&self) -> Vec<Failing> {
        let mut parts: BTreeMap<(&str, &str), (Vec<String>, SystemTime)> = BTreeMap::new();
        for (resource, missing) in self.types.values() {
            let ResourceType { group_resource: GroupResource { group, resource: plural }, version, .. } =
                &**resource;
            let (plurals, since) = parts.entry((group, version)).or_insert_with(|| (Vec::new(), missing.at));
            plurals.push(plural.to_string());
            *since = (*since).min(missing.at);
        }
        parts
            .into_iter()
            .map(|((group, version), (plurals, since))| {
                let error = format!(
                    "not served any more, and not known to be gone: {}; what was seen of their objects is \
                     kept until their definition is gone, or for 30 minutes",
                    plurals.join(", ")
                );
                let failure = GroupFailure {
                    group: group.into(),
                    version: Some(version.into()),
                    error,
                    forbidden: false,
                };
                Failing { failure, since }
            })
            .collect()
    }
}

/// Is this type gone, which is if what defines it is?
pub(super) type Question = (Arc<ResourceType>, Option<Definition>);

/// The answer to a [`Question`].
#[derive(Debug)]
pub(super) struct Weighed {
    pub resource: Arc<ResourceType>,
    pub definition: Option<Definition>,
    /// `None`: nobody says so.
    pub is_gone: Option<bool>,
}

/// Versions of groups through which something was served, and is not by this answer.
pub(super) fn missing_versions(before: &Catalog, answer: &Catalog) -> BTreeSet<GroupVersion> {
    let missing = before.kinds_missing_in(answer);
    // The core group goes with nobody.
    let named = missing.filter(|((group, ..), _)| !group.is_empty());
    named.map(|((group, version, _), _)| (group.clone(), version.clone())).collect()
}

/// Whether a type is still watched in the version that it has: an answer leaves out all of that
/// version, and it is kept. An API server that starts may show a group without some of its
/// versions.
pub(super) fn is_version_kept(watched: &ResourceType, answer: &Catalog, kept: &Catalog) -> bool {
    let ResourceType { group_resource, version, kind, .. } = watched;
    !answer.has_version(&group_resource.group, version)
        && kept.resolve(&watched.api_version(), kind).is_some()
}

#[cfg(test)]
mod tests;
