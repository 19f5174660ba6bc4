//! One command's view of a cluster: what it serves, how objects are named, and which types and objects
//! are meant.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;
use wildmatch::WildMatch;

use super::InsightError;
use super::lists::{AT_ONCE, INTERRUPTED, Watcher};
use kube_gc_client::{Api, Discovered, ErrorClass, GroupFailure};
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType, Scope, Uid};
use kube_gc_core::text::bounded;
use kube_gc_insight::{LiveObject, Unseen};

/// What a command knows of the cluster.
#[derive(Debug)]
pub struct Session {
    pub(super) api: Api,
    pub(super) discovered: Discovered,
    pub(super) ignored: Vec<GroupResource>,
    /// The namespace of namespaced objects.
    pub(super) namespace: Option<Namespace>,
}

impl Session {
    /// Discovers what the server serves. The collector ignores objects of the types `ignored`.
    ///
    /// # Errors
    ///
    /// Nothing can be discovered.
    pub async fn begin(
        api: Api,
        ignored: Vec<GroupResource>,
        namespace: Option<Namespace>,
    ) -> Result<Self, InsightError> {
        let discovered = api.discover(None).await.map_err(InsightError::Api)?;
        Ok(Self { api, discovered, ignored, namespace })
    }

    /// Finds the object that a type and a name stand for.
    ///
    /// # Errors
    ///
    /// There is no such type or object, or it cannot be read.
    pub(super) async fn find(
        &self,
        of_type: &str,
        name: &str,
    ) -> Result<(Identity, LiveObject), InsightError> {
        let resource = self.discovered.type_named(of_type);
        let resource = Arc::clone(resource.ok_or_else(|| InsightError::NoSuchType(of_type.to_owned()))?);
        let namespace = match resource.scope {
            Scope::Cluster => None,
            Scope::Namespaced => self.namespace.clone(),
        };
        let read = self.api.read_named(&resource, namespace.as_ref(), name).await;
        let Some(live) = read.map_err(InsightError::Api)? else {
            let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
            return Err(InsightError::NoSuchObject(format!("there is no {}/{name}{place}", resource.kind)));
        };
        let uid = live.facts.uid.clone();
        Ok((Identity { resource, namespace, name: name.into(), uid }, live))
    }

    /// The types whose objects may depend on an object in this namespace (on a cluster-scoped
    /// object, those of all types), and how many of them the filter leaves out.
    pub(super) fn types(
        &self,
        namespace: Option<&Namespace>,
        filter: &TypeFilter,
    ) -> (Vec<Arc<ResourceType>>, usize) {
        let watchable = self.discovered.watchable.iter().map(|watchable| &watchable.resource);
        let types = watchable.filter(|resource| {
            (namespace.is_none() || resource.scope == Scope::Namespaced)
                && !self.ignored.contains(&resource.group_resource)
        });
        let (types, left_out): (Vec<_>, Vec<_>) =
            types.cloned().partition(|resource| filter.admits(&resource.group_resource));
        (types, left_out.len())
    }

    /// The parts of the API that could not be discovered.
    pub(super) fn undiscovered(&self) -> Vec<Unseen> {
        self.discovered.failures.iter().map(GroupFailure::unseen).collect()
    }
}

/// The object of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectArgument {
    /// A type, in any form that kubectl knows, and a name.
    Named {
        /// `TYPE`, `TYPE.GROUP` or `TYPE.VERSION.GROUP`.
        of_type: String,
        /// The object's name.
        name: String,
    },
    /// A uid.
    Uid(Uid),
}

impl ObjectArgument {
    /// Reads one or two arguments.
    ///
    /// # Errors
    ///
    /// They name no object, or more than one.
    pub fn read(arguments: &[String]) -> Result<Self, String> {
        let wrong = |why: &str| format!("{why}; an object is TYPE/NAME, TYPE NAME or uid:UID");
        let (of_type, name) = match arguments {
            [one] => {
                if let Some(uid) = one.strip_prefix("uid:") {
                    return Uid::parse(uid).map(Self::Uid).ok_or_else(|| wrong("the uid is empty"));
                }
                one.split_once('/').ok_or_else(|| wrong(&format!("{one:?} has no name")))?
            }
            [of_type, name] if !of_type.contains('/') && !name.contains('/') => {
                (of_type.as_str(), name.as_str())
            }
            _ => return Err(wrong("more than one object is named")),
        };
        if of_type.is_empty() || name.is_empty() || name.contains('/') {
            return Err(wrong(&format!("{of_type}/{name} is not a type and a name")));
        }
        Ok(Self::Named { of_type: of_type.to_owned(), name: name.to_owned() })
    }
}

/// Patterns of types as kubectl writes them, such as `pods`, `*.example.com` or `*`. `*` stands for any text,
/// and `?` for one character.
#[derive(Clone, Debug, Default)]
pub struct TypeFilter {
    /// Only these; empty for all.
    pub only: Vec<String>,
    /// None of these.
    pub without: Vec<String>,
}

impl TypeFilter {
    /// Whether it leaves nothing out.
    pub const fn is_empty(&self) -> bool {
        self.only.is_empty() && self.without.is_empty()
    }

    /// Whether objects of a type are looked at.
    pub fn admits(&self, resource: &GroupResource) -> bool {
        let name = resource.to_string();
        let any = |patterns: &[String]| patterns.iter().any(|pattern| WildMatch::new(pattern).matches(&name));
        (self.only.is_empty() || any(&self.only)) && !any(&self.without)
    }
}

/// The status of a request that the server does not understand.
const BAD_REQUEST: u16 = 400;

/// The objects that a selector names.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub uids: HashSet<Uid>,
    /// The types that could not be listed.
    pub unseen: Vec<Unseen>,
}

impl Selection {
    /// Adds what could not be listed, unless it is named already.
    pub fn add_unseen_to(&self, unseen: &mut Vec<Unseen>) {
        for missing in &self.unseen {
            if !unseen.iter().any(|known| known.what == missing.what) {
                unseen.push(missing.clone());
            }
        }
    }
}

impl Session {
    /// Lists the objects that a selector names; `None` if there is no selector.
    ///
    /// # Errors
    ///
    /// The server does not understand the selector.
    pub(super) async fn select(
        &self,
        namespace: Option<&Namespace>,
        filter: &TypeFilter,
        selector: Option<&str>,
        watcher: &Watcher<'_>,
    ) -> Result<Option<Selection>, InsightError> {
        let Some(selector) = selector else { return Ok(None) };
        let (types, _) = self.types(namespace, filter);
        let mut lists = futures::stream::iter(types)
            .map(async |resource| {
                let mut uids = Vec::new();
                let list = self
                    .api
                    .list_selected(&resource, namespace, Some(selector), |facts| uids.push(facts.uid));
                let listed = watcher.interrupted.run_until_cancelled(list).await;
                (resource, uids, listed)
            })
            .buffer_unordered(AT_ONCE);
        let mut selection = Selection::default();
        while let Some((resource, uids, listed)) = lists.next().await {
            selection.uids.extend(uids);
            let why = match listed {
                Some(Ok(_)) => continue,
                Some(Err(error)) if error.class == ErrorClass::Refused && error.code == Some(BAD_REQUEST) => {
                    return Err(InsightError::Selector(bounded(&error)));
                }
                Some(Err(error)) => bounded(&error),
                None => INTERRUPTED.to_owned(),
            };
            selection.unseen.push(Unseen { what: resource.group_resource.to_string(), why });
        }
        Ok(Some(selection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_three_forms_and_anything_else_is_an_error() {
        let named = ObjectArgument::Named { of_type: "deployments.v1.apps".into(), name: "web".into() };
        for (arguments, expected) in [
            (&["deployments.v1.apps/web"][..], Some(named.clone())),
            (&["deployments.v1.apps", "web"], Some(named)),
            (&["uid:a-b"], Uid::parse("a-b").map(ObjectArgument::Uid)),
            (&["web"], None),
            (&["uid:"], None),
            (&["/web"], None),
            (&["deploy/"], None),
            (&["a/b/c"], None),
            (&["deploy/a", "deploy/b"], None),
            (&["a", "b", "c"], None),
            (&[], None),
        ] {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            assert_eq!(ObjectArgument::read(&arguments).ok(), expected, "{arguments:?}");
        }
    }

    #[test]
    fn a_type_is_left_out_or_the_only_one() {
        let filter = TypeFilter { only: vec!["*.example.com".into()], without: vec!["b.*".into()] };
        let admits = |name: &str| filter.admits(&GroupResource::parse(name));
        assert!(admits("a.example.com") && !admits("b.example.com") && !admits("pods"));
        assert!(TypeFilter::default().admits(&GroupResource::parse("pods")));
    }
}
