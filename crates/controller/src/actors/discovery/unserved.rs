//! Types that discovery does not show any more.
//!
//! An answer without a type proves nothing. An API server that has just started may not know all
//! of its types yet, and the type may come back with its objects. A missing type is kept, with its
//! monitor, until its definition (its CRD, or the APIService of its version) is proved to be gone,
//! or until it has been missing for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use kube_gc_client::{Api, Definition, GroupFailure};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{Catalog, GroupResource, KindKey, ResourceType};
use kube_gc_core::text;
use kube_gc_observe::telemetry::Structured;

use super::failing::DiscoveryFailure;

/// How long a type, or a kind in some version, must be missing from complete answers before it
/// counts as gone without a proof. An API server that starts, or is upgraded, knows all of its
/// types by then.
const GONE_AFTER: Duration = Duration::from_secs(30 * 60);
/// The number of complete answers in which it must be missing. The time alone is not enough,
/// because the clock may stand still or jump.
const GONE_AFTER_ANSWERS: u32 = 3;

/// What is kept of earlier answers.
#[derive(Debug, Default)]
pub(super) struct Unserved {
    types: BTreeMap<GroupResource, (Arc<ResourceType>, Missing)>,
    kinds: BTreeMap<KindKey, Missing>,
    /// Types that a CRD defined.
    defined: BTreeSet<GroupResource>,
    /// Types that were proved to be gone, with the disturbance of the latest proof.
    gone: BTreeMap<GroupResource, (Arc<ResourceType>, Definition, u64)>,
}

/// How many types that are gone are checked again after watches broke. The dependents of other
/// types' objects wait until those types are back.
const GONE_AT_MOST: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Missing {
    since: Instant,
    at: SystemTime,
    /// The number of complete answers without it.
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

/// What a discovery answer lacks, and what was found out about that.
#[derive(Debug, Default)]
pub(super) struct Absences {
    pub missing: Vec<Arc<ResourceType>>,
    /// Those of them that are proved to be gone.
    pub gone: BTreeSet<GroupResource>,
    /// Versions of groups that are proved to be gone.
    pub versions: BTreeSet<GroupVersion>,
}

/// A group and one of its versions.
pub(super) type GroupVersion = (Box<str>, Box<str>);

impl Unserved {
    /// Notes that a CRD defines this type.
    pub(super) fn defined(&mut self, resource: GroupResource) {
        self.defined.insert(resource);
    }

    /// What defines a type, if that can be asked for.
    pub(super) fn definition(&self, resource: &ResourceType) -> Option<Definition> {
        let ResourceType { group_resource, version, .. } = resource;
        if self.defined.contains(group_resource) {
            return Some(Definition::Crd(group_resource.clone()));
        }
        // No APIService defines the core group.
        let group = &group_resource.group;
        (!group.is_empty()).then(|| Definition::ApiService { group: group.clone(), version: version.clone() })
    }

    /// Notes a proof that a type is gone.
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

    /// The disturbance under which a type was proved to be gone.
    pub(super) fn proved_under(&self, resource: &GroupResource) -> Option<u64> {
        self.gone.get(resource).map(|(.., under)| *under)
    }

    /// What must be asked before an answer without these types is applied: are they gone, and are
    /// the types still gone whose proofs are older than the latest disturbance?
    pub(super) fn questions(&self, missing: &[Arc<ResourceType>], number: u64) -> Vec<Question> {
        let missing = missing.iter().map(|resource| (resource, self.definition(resource)));
        let outdated = self.gone.values().filter(|(.., under)| *under < number);
        let outdated = outdated.map(|(resource, definition, _)| (resource, Some(definition.clone())));
        let all: BTreeMap<_, _> =
            outdated.chain(missing).map(|(of, definition)| (&of.group_resource, (of, definition))).collect();
        all.into_values().map(|(resource, definition)| (Arc::clone(resource), definition)).collect()
    }

    /// Notes which of these types are proved to be gone. Returns those that were gone before.
    pub(super) fn definitions_checked(
        &mut self,
        asked: Vec<DefinitionCheck>,
        number: u64,
    ) -> Vec<Arc<ResourceType>> {
        let mut again = Vec::new();
        for DefinitionCheck { resource, definition, is_gone } in asked {
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

    /// Applies the catalog of an answer, which is complete if no part of the API failed to answer.
    /// Returns it with what is kept of the one before, and the types that are gone from now on.
    pub(super) fn apply(
        &mut self,
        before: &Catalog,
        catalog: &Catalog,
        absences: Absences,
        is_complete: bool,
        now: Instant,
    ) -> (Arc<Catalog>, Vec<GroupResource>) {
        let Absences { missing, mut gone, versions } = absences;
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
                tracing::info!(resource = %name, "type has not been served for a long time; kube-gc treats it as removed");
                gone.insert(name);
            } else {
                self.types.insert(name, (resource, entry));
            }
        }
        let new: Vec<_> = self.types.keys().filter(|name| !was.contains_key(*name)).collect();
        if let Some(types) = Structured::list("types", new.into_iter()) {
            tracing::warn!(
                types = types.logged(),
                "discovery no longer lists types that may still exist; kube-gc keeps watching them"
            );
        }
        let mut kinds = BTreeMap::new();
        for (key, resource) in before.kinds_missing_in(catalog) {
            let mut entry = self.kinds.get(key).copied().unwrap_or_else(|| Missing::new(now));
            entry.answers += counted;
            let (group, version, _) = key;
            let is_over =
                is_complete && entry.is_over(now) || versions.contains(&(group.clone(), version.clone()));
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

    pub(super) fn types(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.types.values().map(|(resource, _)| resource)
    }

    /// The kept types as failures, by group and version.
    pub(super) fn failing(&self) -> Vec<DiscoveryFailure> {
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
                    "discovery does not list {}, although nothing shows that they were removed; kube-gc \
                     keeps their objects until the CRD or APIService is gone, or for 30 minutes",
                    text::listed(", ", plurals.len(), plurals)
                );
                let failure = GroupFailure { group: group.into(), version: Some(version.into()), error };
                DiscoveryFailure { failure, since, is_logged: false }
            })
            .collect()
    }
}

/// Is this type gone? It is if its definition is.
pub(super) type Question = (Arc<ResourceType>, Option<Definition>);

/// The answer to a [`Question`].
#[derive(Debug)]
pub(super) struct DefinitionCheck {
    pub resource: Arc<ResourceType>,
    pub definition: Option<Definition>,
    /// `None` if it cannot be determined.
    pub is_gone: Option<bool>,
}

/// The versions of groups that served a kind before this answer, and do not any more.
pub(super) fn missing_versions(before: &Catalog, answer: &Catalog) -> BTreeSet<GroupVersion> {
    let missing = before.kinds_missing_in(answer);
    // No APIService defines the core group.
    let named = missing.filter(|((group, ..), _)| !group.is_empty());
    named.map(|((group, version, _), _)| (group.clone(), version.clone())).collect()
}

/// Whether a type keeps its watched version although the answer lacks the whole version. An API
/// server that starts may show a group without some of its versions.
pub(super) fn is_version_kept(watched: &ResourceType, answer: &Catalog, kept: &Catalog) -> bool {
    let ResourceType { group_resource, version, kind, .. } = watched;
    !answer.has_version(&group_resource.group, version)
        && kept.resolve(&watched.api_version(), kind).is_some()
}

/// The versions whose APIService is gone.
pub(super) async fn gone_versions(api: &Api, missing: BTreeSet<GroupVersion>) -> BTreeSet<GroupVersion> {
    let mut gone = BTreeSet::new();
    for (group, version) in missing {
        let definition = Definition::ApiService { group: group.clone(), version: version.clone() };
        // An error proves nothing.
        if api.is_defined(&definition).await.is_ok_and(|is_defined| !is_defined) {
            gone.insert((group, version));
        }
    }
    gone
}

/// Looks up the definitions of these types. A failure is logged once for each type: those in
/// `known` were missing before.
pub(super) async fn check(
    api: &Api,
    questions: Vec<Question>,
    known: &BTreeSet<GroupResource>,
) -> Vec<DefinitionCheck> {
    let mut all = Vec::new();
    for (resource, definition) in questions {
        let is_gone = match &definition {
            _ if mutation::is(Mutation::RetireAtOnce) => Some(true),
            None => None,
            Some(definition) => match api.is_defined(definition).await {
                Ok(is_defined) => Some(!is_defined),
                Err(error) => {
                    let resource = &resource.group_resource;
                    if known.contains(resource) {
                        tracing::debug!(%resource, %error, "cannot find out whether this type was removed");
                    } else {
                        tracing::warn!(
                            %resource,
                            %error,
                            "discovery no longer lists this type, and kube-gc cannot find out whether it was \
                             removed; kube-gc keeps its objects"
                        );
                    }
                    None
                }
            },
        };
        all.push(DefinitionCheck { resource, definition, is_gone });
    }
    all
}

#[cfg(test)]
mod tests;
