//! One command's view of a cluster: what it serves, how objects are named, and which types and objects
//! are meant.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use wildmatch::WildMatch;

use super::InsightError;
use super::lists::Lists;
use kube_gc_client::{Api, ApiError, Discovered, ErrorClass, GroupFailure};
use kube_gc_core::graph::{SearchQuery, ViewLimits};
use kube_gc_core::object::{GroupResource, Identity, Namespace, ObjectFacts, ResourceType, Scope, Uid};
use kube_gc_core::text::listed;
use kube_gc_insight::{AbsenceEvidence, LeftOut, Live, LiveObject, ObjectName, Outside, counted};

/// The most names that are offered for completion.
const MOST_NAMES: u32 = 500;

/// What a command knows of the cluster.
#[derive(Debug)]
pub struct Session {
    pub(super) api: Api,
    pub(super) discovered: Discovered,
    pub(super) ignored: Vec<GroupResource>,
    /// The namespace of namespaced objects.
    pub(super) namespace: Option<Namespace>,
    pub(super) waiting: Waiting,
}

/// Who waits for a command.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Is told how many of how many types have been listed.
    pub progress: fn(usize, usize),
    /// Ends lists and reads early. What is known until then is shown.
    pub interrupted: CancellationToken,
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
        waiting: Waiting,
    ) -> Result<Self, ApiError> {
        let discovered = api.discover(None).await?;
        Ok(Self { api, discovered, ignored, namespace, waiting })
    }

    /// Waits for something without which there is no answer.
    pub(super) async fn wait<T, E: Into<InsightError>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, InsightError> {
        match self.waiting.interrupted.run_until_cancelled(answer).await {
            Some(answer) => answer.map_err(Into::into),
            None => Err(InsightError::Interrupted),
        }
    }

    /// Finds the object that a type and a name stand for.
    ///
    /// # Errors
    ///
    /// There is no such type or object, or it cannot be read.
    pub(super) async fn find(
        &self,
        of_type: &str,
        namespace: Option<&Namespace>,
        name: &str,
    ) -> Result<(Identity, LiveObject), InsightError> {
        let resource = self.type_named(of_type)?;
        let namespace = match resource.scope {
            Scope::Cluster => None,
            Scope::Namespaced => namespace.or(self.namespace.as_ref()).cloned(),
        };
        let read = self.api.read_named(&resource, namespace.as_ref(), name).await;
        let read = read.map_err(|error| match error.code {
            Some(404 | 405) if !self.types_to_name().contains(&resource.group_resource.to_string()) => {
                InsightError::NotCollected(resource.group_resource.to_string())
            }
            // Nothing was sent: no object can have this name.
            None if error.class == ErrorClass::Refused => InsightError::NoSuchObject(error.to_string()),
            _ => InsightError::Api(error),
        });
        let Some(live) = read? else {
            let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
            let left = if *resource.kind == *"Namespace" { self.left_in(name).await } else { None };
            let left = left.unwrap_or_default();
            let not_found = format!("{} {name:?} not found{place}{left}", resource.group_resource);
            return Err(InsightError::NoSuchObject(not_found));
        };
        let uid = live.facts.uid.clone();
        Ok((Identity { resource, namespace, name: name.into(), uid }, live))
    }

    /// The namespace of this name, unless it cannot be read.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(super) async fn namespace_named(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<(Identity, LiveObject)>, InsightError> {
        match self.wait(self.find("namespaces", None, namespace.as_str())).await {
            Ok(found) => Ok(Some(found)),
            Err(error @ (InsightError::NoSuchObject(_) | InsightError::Interrupted)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// What is left in a namespace that does not exist, and what that means.
    async fn left_in(&self, name: &str) -> Option<String> {
        let mut lists = Lists::new(self, ViewLimits::default());
        lists.list(Some(&Namespace::parse(name)?), &TypeFilter::default()).await.ok()?;
        let left = lists.graph.search(&SearchQuery::default()).into_iter();
        let mut left: Vec<_> = left.map(|(object, _)| ObjectName::from(&object)).collect();
        // What holds data comes first.
        left.sort_by_cached_key(|object| (object.kind != "PersistentVolumeClaim", object.clone()));
        let least = if lists.unseen.is_empty() { "" } else { "at least " };
        let (objects, are) = (counted(left.len(), "object"), if left.len() == 1 { "is" } else { "are" });
        let names = listed(", ", left.len(), &left);
        (!left.is_empty()).then(|| {
            format!(
                "; {least}{objects} {are} left in it ({names}). The API server refuses to create or change anything there \
                 as long as the namespace does not exist. Creating the namespace alone keeps what is in it"
            )
        })
    }

    /// The object of this type and name that has this uid, in whatever namespace it is. Who may not look there
    /// is told nothing.
    pub(super) async fn holder_of(&self, owner: &Identity) -> Option<ObjectName> {
        let Identity { resource, name, uid, .. } = owner;
        // A selector has a grammar.
        let selector = format!("metadata.name={name}");
        let selector = (!name.contains([',', '=', '!', '\\'])).then_some(("fieldSelector", &*selector))?;
        let mut found = None;
        let visit = |facts: ObjectFacts| {
            if facts.uid == *uid && facts.name == *name {
                found = Some(ObjectName::from(&Identity { namespace: facts.namespace, ..owner.clone() }));
            }
        };
        self.api.list(resource, None, Some(selector), visit).await.ok()?;
        found
    }

    /// What may be meant by an owner that did not exist: one in another namespace, or another one of that name.
    pub(super) async fn whereabouts(&self, owner: &Identity) -> Option<String> {
        if let Some(namespace) = self.holder_of(owner).await.and_then(|found| found.namespace) {
            let must = "; owners must be in the dependent's namespace, and the uid is of one in namespace";
            return Some(format!("{must} {namespace}"));
        }
        match self.api.read_live(owner).await {
            Live::Absent(AbsenceEvidence::OtherUid(uid)) => {
                Some(format!("; another object has that name now: {}", uid.shown()))
            }
            _ => None,
        }
    }

    /// The type that a name stands for.
    pub(super) fn type_named(&self, name: &str) -> Result<Arc<ResourceType>, InsightError> {
        let resource = self.discovered.type_named(name);
        resource.cloned().ok_or_else(|| {
            // TYPE.GROUP or TYPE.VERSION.GROUP
            let rest = name.split_once('.').map_or("", |(_, rest)| rest);
            let (own, of) = rest.split_once('.').unwrap_or_default();
            let is_its = |GroupFailure { group, version, .. }: &&GroupFailure| {
                *rest == **group
                    || (*of == **group && version.as_ref().is_none_or(|version| **version == *own))
            };
            match self.discovered.failures.iter().find(is_its) {
                Some(silent) => InsightError::UnreadType { name: name.to_owned(), silent: silent.part() },
                None => InsightError::NoSuchType(name.to_owned()),
            }
        })
    }

    /// A filter with the names of types as the server has them, for `deploy` or `Deployment`, too.
    ///
    /// # Errors
    ///
    /// It names a type that the server does not have.
    pub(super) fn resolve(&self, filter: &TypeFilter) -> Result<TypeFilter, InsightError> {
        let name = |pattern: &String| {
            let named = self.discovered.type_named(pattern).map(|named| named.group_resource.to_string());
            named.unwrap_or_else(|| pattern.clone())
        };
        let all = |patterns: &[String]| patterns.iter().map(name).collect();
        let resolved =
            TypeFilter { only: all(&filter.only), without: all(&filter.without), ..filter.clone() };
        let types = self.types_to_name();
        let is_nothing = |pattern: &&String| !types.iter().any(|name| WildMatch::new(pattern).matches(name));
        let is_served = |pattern: &String| {
            let mut all = self.discovered.catalog.types();
            all.any(|served| WildMatch::new(pattern).matches(&served.group_resource.to_string()))
        };
        // What is never listed may be left out.
        let unknown = resolved.without.iter().find(|pattern| !is_served(pattern));
        match resolved.only.iter().find(is_nothing).or(unknown) {
            Some(pattern) if is_served(pattern) => Err(InsightError::NotCollected(pattern.clone())),
            // A type of a part of the API that does not answer is not known.
            Some(pattern) if self.outside().silent_objects.is_empty() => {
                Err(InsightError::NoSuchType(pattern.clone()))
            }
            Some(_) | None => Ok(resolved),
        }
    }

    /// The types whose objects may depend on an object in this namespace (on a cluster-scoped
    /// object, those of all types), and how many of them the filter leaves out.
    pub(super) fn types(
        &self,
        namespace: Option<&Namespace>,
        filter: &TypeFilter,
    ) -> (Vec<Arc<ResourceType>>, LeftOut) {
        let watchable = self.discovered.watchable.iter().map(|watchable| &watchable.resource);
        let types = watchable.filter(|resource| {
            (namespace.is_none() || resource.scope == Scope::Namespaced)
                && !self.ignored.contains(&resource.group_resource)
        });
        let (types, left_out): (Vec<_>, Vec<_>) =
            types.cloned().partition(|resource| filter.admits(&resource.group_resource));
        let left_out = match left_out.len() {
            0 => LeftOut::None,
            count if filter.only.is_empty() && filter.without.is_empty() => LeftOut::Ignored(count),
            count => LeftOut::Chosen(count),
        };
        (types, left_out)
    }

    /// The names of the first objects of a type.
    ///
    /// # Errors
    ///
    /// There is no such type, or its objects cannot be listed.
    pub async fn names(&self, of_type: &str) -> Result<Vec<String>, InsightError> {
        let resource = self.type_named(of_type)?;
        let namespace = self.namespace.as_ref().filter(|_| resource.scope == Scope::Namespaced);
        self.api.first_names(&resource, namespace, MOST_NAMES).await.map_err(InsightError::Api)
    }

    /// The types that people may name.
    pub fn types_to_name(&self) -> Vec<String> {
        let types = self.discovered.watchable.iter();
        types.map(|watchable| watchable.resource.group_resource.to_string()).collect()
    }

    /// What no list shows.
    pub(super) fn outside(&self) -> Outside {
        GroupFailure::outside(&self.discovered.failures)
    }
}

/// The object of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectArgument {
    /// A type as `TYPE`, `TYPE.GROUP` or `TYPE.VERSION.GROUP`, a name, and perhaps a namespace of its own.
    Named { of_type: String, namespace: Option<Namespace>, name: String },
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
        match <[Self; 1]>::try_from(Self::read_all(arguments)?) {
            Ok([one]) => Ok(one),
            Err(_) => Err(wrong("more than one object is named")),
        }
    }

    /// Reads the names of objects: `TYPE/NAME...`, `TYPE NAME...` or `uid:UID...`.
    ///
    /// # Errors
    ///
    /// They name no objects.
    pub fn read_all(arguments: &[String]) -> Result<Vec<Self>, String> {
        match arguments {
            [of_type, names @ ..] if !names.is_empty() && !of_type.contains(['/', ':']) => {
                let types = of_type.split(',');
                types.flat_map(|of| names.iter().map(move |name| Self::named(of, name))).collect()
            }
            all => all.iter().map(|one| Self::word(one)).collect(),
        }
    }

    fn word(word: &str) -> Result<Self, String> {
        if let Some(uid) = word.strip_prefix("uid:") {
            return Uid::parse(uid).map(Self::Uid).ok_or_else(|| wrong("the uid is empty"));
        }
        let (of_type, name) =
            word.split_once('/').ok_or_else(|| format!("{word:?} is not TYPE/NAME, such as deploy/web"))?;
        Self::named(of_type, name)
    }

    fn named(of_type: &str, name: &str) -> Result<Self, String> {
        if of_type.is_empty() || name.is_empty() || name.contains('/') {
            return Err(wrong(&format!("{of_type}/{name} is not a type and a name")));
        }
        Ok(Self::Named { of_type: of_type.to_owned(), namespace: None, name: name.to_owned() })
    }
}

fn wrong(why: &str) -> String {
    format!("{why}; an object is TYPE/NAME, TYPE NAME or uid:UID")
}

/// Patterns of types as kubectl writes them, such as `pods`, `*.example.com` or `*`. `*` stands for any text,
/// and `?` for one character.
#[derive(Clone, Debug, Default)]
pub struct TypeFilter {
    /// Only these; empty for all.
    pub only: Vec<String>,
    /// None of these.
    pub without: Vec<String>,
    /// Nor of these, which the server need not have.
    pub ignored: Vec<String>,
}

impl TypeFilter {
    /// Whether it leaves nothing out.
    pub const fn is_empty(&self) -> bool {
        self.only.is_empty() && self.without.is_empty() && self.ignored.is_empty()
    }

    /// Whether objects of a type are looked at.
    pub fn admits(&self, resource: &GroupResource) -> bool {
        let name = resource.to_string();
        let any = |patterns: &[String]| patterns.iter().any(|pattern| WildMatch::new(pattern).matches(&name));
        (self.only.is_empty() || any(&self.only)) && !any(&self.without) && !any(&self.ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_three_forms_and_anything_else_is_an_error() {
        let (of_type, name) = ("deployments.v1.apps".into(), "web".into());
        let named = ObjectArgument::Named { of_type, namespace: None, name };
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
        let several = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            ObjectArgument::read_all(&words).map(|objects| objects.len())
        };
        assert_eq!((several("deploy a b c"), several("deploy/a svc/b uid:c")), (Ok(3), Ok(3)));
        assert_eq!(several("deploy,svc a b"), Ok(4));
        assert_eq!(several("web"), Err("\"web\" is not TYPE/NAME, such as deploy/web".to_owned()));
        assert!(several("deploy a/b").is_err() && several("deploy/a b").is_err());
    }

    #[test]
    fn a_type_is_left_out_or_the_only_one() {
        let filter = TypeFilter {
            only: vec!["*.example.com".into()],
            without: vec!["b.*".into()],
            ..TypeFilter::default()
        };
        let admits = |name: &str| filter.admits(&GroupResource::parse(name));
        assert!(admits("a.example.com") && !admits("b.example.com") && !admits("pods"));
        assert!(TypeFilter::default().admits(&GroupResource::parse("pods")));
    }
}
