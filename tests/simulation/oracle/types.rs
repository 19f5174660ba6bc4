//! Which types were served, and when (rules 2.1 and 2.9).

use std::collections::BTreeMap;
use std::time::Duration;

use kube_gc_apiserver::resources::{Resource, ResourceName};

use super::reference::Reference;

/// A period in which an `apiVersion` and kind meant a type.
#[derive(Clone, Debug)]
pub struct Era {
    /// The kind in its proper case.
    kind: Box<str>,
    /// The type.
    pub resource: ResourceName,
    /// Whether the type is namespaced.
    pub namespaced: bool,
    /// The end of the period; `None` if it has not ended.
    until: Option<Duration>,
}

/// Group, version, kind in lower case.
type KindKey = (String, String, String);

/// The types that are and were served.
#[derive(Debug, Default)]
pub struct Types {
    served: BTreeMap<ResourceName, Resource>,
    eras: BTreeMap<KindKey, Vec<Era>>,
}

impl Types {
    /// These types are served from now on. Returns those that no longer are.
    pub fn serve<'a>(
        &mut self,
        served: impl IntoIterator<Item = &'a Resource>,
        now: Duration,
    ) -> Vec<ResourceName> {
        let mut gone = std::mem::take(&mut self.served);
        for resource in served {
            match gone.remove_entry(&resource.name) {
                Some((name, same)) if same == *resource => {
                    self.served.insert(name, same);
                }
                changed => {
                    if let Some((_, old)) = changed {
                        self.end(&old, now);
                    }
                    self.begin(resource);
                    self.served.insert(resource.name.clone(), resource.clone());
                }
            }
        }
        for resource in gone.values() {
            self.end(resource, now);
        }
        gone.into_keys().collect()
    }

    fn begin(&mut self, resource: &Resource) {
        for key in keys(resource) {
            let era = Era {
                kind: resource.kind.clone(),
                resource: resource.stored_as.clone(),
                namespaced: resource.namespaced,
                until: None,
            };
            self.eras.entry(key).or_default().push(era);
        }
    }

    fn end(&mut self, resource: &Resource, now: Duration) {
        for key in keys(resource) {
            let eras = self.eras.entry(key).or_default().iter_mut();
            for era in eras.filter(|era| era.resource == resource.stored_as && era.until.is_none()) {
                era.until = Some(now);
            }
        }
    }

    /// The present meaning of a reference's kind. `None` if it is unknown, which says nothing
    /// about objects.
    pub fn resolve(&self, reference: &Reference) -> Option<&Era> {
        self.eras_of(reference).find(|era| era.until.is_none())
    }

    /// All its meanings since then.
    pub fn meant(&self, reference: &Reference, since: Duration) -> impl Iterator<Item = &Era> {
        self.eras_of(reference).filter(move |era| era.until.is_none_or(|until| until >= since))
    }

    /// A kind may be written in all lower case (rule 1.5).
    fn eras_of<'a>(&'a self, reference: &Reference) -> impl Iterator<Item = &'a Era> + use<'a> {
        let (group, version) = reference.group_version();
        let (lower, kind) = (reference.kind.to_lowercase(), reference.kind.clone());
        let eras = self.eras.get(&(group.to_owned(), version.to_owned(), lower.clone()));
        eras.into_iter().flatten().filter(move |era| kind == *era.kind || kind == lower)
    }

    /// Whether its objects can be deleted, listed and watched.
    pub fn is_watchable(&self, resource: &ResourceName) -> bool {
        let needed = ["delete", "list", "watch"];
        let served = self.served.get(resource);
        served.is_some_and(|resource| needed.iter().all(|verb| resource.verbs.contains(verb)))
    }
}

fn keys(resource: &Resource) -> Vec<KindKey> {
    let (group, kind) = (&resource.name.group, resource.kind.to_lowercase());
    resource.versions.iter().map(|version| (group.to_string(), version.to_string(), kind.clone())).collect()
}
