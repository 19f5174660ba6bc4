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

use crate::api::{Api, Definition, GroupFailure};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{Catalog, GroupResource, KindKey, ResourceType};
use kube_gc_core::text;

use super::Failing;

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
    definition: Option<Definition>,
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

/// Which of these versions are proved to be gone.
pub(super) async fn gone_versions(api: &Api, missing: BTreeSet<GroupVersion>) -> BTreeSet<GroupVersion> {
    let mut gone = BTreeSet::new();
    for (group, version) in missing {
        let definition = Definition::ApiService { group: group.clone(), version: version.clone() };
        // An error says nothing.
        if api.is_defined(&definition).await.is_ok_and(|is_defined| !is_defined) {
            gone.insert((group, version));
        }
    }
    gone
}

/// Asks for what defines these types.
pub(super) async fn weigh(api: &Api, questions: Vec<Question>) -> Vec<Weighed> {
    let mut all = Vec::new();
    for (resource, definition) in questions {
        let is_gone = match &definition {
            _ if mutation::is(Mutation::RetireAtOnce) => Some(true),
            None => None,
            Some(definition) => match api.is_defined(definition).await {
                Ok(is_defined) => Some(!is_defined),
                Err(error) => {
                    let resource = &resource.group_resource;
                    tracing::warn!(%resource, %error, "type is not served any more, and nobody says whether it is gone; it is kept");
                    None
                }
            },
        };
        all.push(Weighed { resource, definition, is_gone });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_core::object::{Scope, ServedKind};

    fn widgets() -> Arc<ResourceType> {
        Arc::new(ResourceType {
            group_resource: GroupResource::parse("widgets.example.com"),
            version: "v1".into(),
            kind: "Widget".into(),
            scope: Scope::Namespaced,
        })
    }

    fn with_widgets() -> Catalog {
        let mut builder = Catalog::builder();
        builder.add(ServedKind { version: "v1".into(), resource: widgets() });
        builder.build()
    }

    /// What is missing, and whether it is gone from now on.
    struct Looks {
        unserved: Unserved,
        catalog: Arc<Catalog>,
        now: Instant,
    }

    impl Looks {
        fn new() -> Self {
            Self { unserved: Unserved::default(), catalog: Arc::new(with_widgets()), now: Instant::now() }
        }

        fn without(&mut self, is_complete: bool, is_gone: bool) -> bool {
            let name = widgets().group_resource.clone();
            let answer = Answer {
                catalog: &Catalog::default(),
                before: &self.catalog,
                missing: vec![widgets()],
                gone: is_gone.then_some(name).into_iter().collect(),
                gone_versions: BTreeSet::new(),
                is_complete,
            };
            let (catalog, gone) = self.unserved.answered(answer, self.now);
            self.catalog = catalog;
            let is_kept = self.catalog.resolve("example.com/v1", "Widget").is_some();
            assert_eq!(is_kept, self.unserved.keeps(&widgets().group_resource));
            assert_eq!(is_kept, gone.is_empty());
            !is_kept
        }

        fn with(&mut self) {
            let answer = Answer {
                catalog: &with_widgets(),
                before: &self.catalog,
                missing: Vec::new(),
                gone: BTreeSet::new(),
                gone_versions: BTreeSet::new(),
                is_complete: true,
            };
            assert!(self.unserved.answered(answer, self.now).1.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_type_is_kept_until_it_has_been_missing_for_long() {
        let mut looks = Looks::new();
        assert!(!looks.without(true, false));
        let said = looks.unserved.failing();
        assert_eq!(
            (&*said[0].failure.group, said[0].failure.version.as_deref()),
            ("example.com", Some("v1"))
        );
        assert!(said[0].failure.error.contains("widgets"), "{}", said[0].failure.error);
        looks.now += GONE_AFTER;
        assert!(!looks.without(true, false), "the clock alone proves nothing");
        assert!(looks.without(true, false));
        assert!(looks.unserved.failing().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_with_it_begins_the_time_anew_and_an_incomplete_one_does_not_count() {
        let mut looks = Looks::new();
        assert!(!looks.without(true, false));
        looks.with();
        looks.now += GONE_AFTER;
        for _ in 0..10 {
            assert!(!looks.without(true, false));
        }
        looks.now += GONE_AFTER;
        assert!(!looks.without(false, false), "a part of the API did not answer");
        assert!(looks.without(true, false));
    }

    /// What names an owner through it is unresolved from then on, as before it was served.
    #[tokio::test(start_paused = true)]
    async fn a_version_that_is_gone_is_not_kept() {
        let mut looks = Looks::new();
        let versions = missing_versions(&looks.catalog, &Catalog::default());
        assert_eq!(versions, BTreeSet::from([("example.com".into(), "v1".into())]));
        let answer = Answer {
            catalog: &Catalog::default(),
            before: &looks.catalog,
            missing: Vec::new(),
            gone: BTreeSet::new(),
            gone_versions: versions,
            is_complete: true,
        };
        let (catalog, _) = looks.unserved.answered(answer, looks.now);
        assert!(catalog.resolve("example.com/v1", "Widget").is_none());
    }

    /// Rule 2.9.
    #[tokio::test(start_paused = true)]
    async fn a_type_whose_definition_is_gone_is_gone() {
        let mut looks = Looks::new();
        let api_service = Definition::ApiService { group: "example.com".into(), version: "v1".into() };
        assert_eq!(looks.unserved.definition(&widgets()), Some(api_service));
        looks.unserved.defined(widgets().group_resource.clone());
        let crd = Definition::Crd(widgets().group_resource.clone());
        assert_eq!(looks.unserved.definition(&widgets()), Some(crd));
        assert!(!looks.without(true, false));
        assert!(looks.without(true, true));
    }

    #[test]
    fn a_version_that_is_left_out_as_a_whole_is_watched_on() {
        let named = |version: &str, name: &str, kind: &str| {
            let resource = ResourceType {
                group_resource: GroupResource::parse(name),
                version: version.into(),
                kind: kind.into(),
                scope: Scope::Namespaced,
            };
            ServedKind { version: version.into(), resource: Arc::new(resource) }
        };
        let catalog = |kinds: Vec<ServedKind>| {
            let mut builder = Catalog::builder();
            for kind in kinds {
                builder.add(kind);
            }
            builder.build()
        };
        let older = || named("v1beta1", "widgets.example.com", "Widget");
        let without = catalog(vec![older()]);
        let with_others = catalog(vec![older(), named("v1", "gadgets.example.com", "Gadget")]);
        let kept = with_widgets();
        assert!(is_version_kept(&widgets(), &without, &kept));
        assert!(!is_version_kept(&widgets(), &with_others, &kept), "the version is shown, without the kind");
        assert!(!is_version_kept(&widgets(), &without, &without), "it is known to be gone");
        assert!(!is_version_kept(&widgets(), &kept, &kept), "another reason to begin anew");
    }
}
