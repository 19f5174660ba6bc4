//! Lists and deletes the content of a namespace, and keeps where a deletion goes on in the next turn
//! (rule 11.3).

use std::collections::HashMap;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use tokio::sync::Mutex;
use tokio::time::Instant;

use kube_gc_client::{Api, ApiError, ContentType, ErrorClass, LiveNamespace, Page, PageItem};
use kube_gc_core::namespaces::{Found, TypeSurvey};
use kube_gc_core::object::{GroupResource, Identity, Namespace, Uid};
use kube_gc_core::text::{LISTED, bounded, excerpt};

/// How many types of a namespace are listed or deleted at the same time.
const TYPES: usize = 4;
/// How many objects of a type are deleted at the same time, where no request deletes all.
const OBJECTS: usize = 8;
/// How many pages of a type are read: the rest is only counted.
const PAGES: usize = 10;
/// The time limit of a list. An aggregated API that hangs must not hold up the namespace.
const LIST: Duration = Duration::from_secs(10);
/// How many pages of a type a turn deletes.
const DELETED_PAGES: usize = 20;
/// How long a turn begins new pages of a type.
const DELETION: Duration = Duration::from_secs(5);
/// The time limit of the deletion of a page (rule 11.12). What was deleted by then is deleted.
const DELETION_OF_PAGE: Duration = Duration::from_secs(2);
/// The longest finalizer that is named.
const LONGEST_FINALIZER: usize = 256;
/// The most finalizers of a type that are counted apart.
const FINALIZERS: usize = 64;

/// Looks at all these types.
pub(super) async fn look(api: &Api, namespace: &Namespace, types: &[&ContentType]) -> Vec<TypeSurvey> {
    let api = api.within(LIST);
    let looks: Vec<_> = types.iter().map(|of_type| look_at(&api, namespace, of_type)).collect();
    stream::iter(looks).buffered(TYPES).collect().await
}

async fn look_at(api: &Api, namespace: &Namespace, of_type: &ContentType) -> TypeSurvey {
    let resource = of_type.resource.group_resource.clone();
    let found = if of_type.can_list {
        found(api, namespace, of_type).await.map_err(|error| bounded(&error))
    } else {
        Err(format!("{resource} cannot be listed, so whether there are any is not known"))
    };
    TypeSurvey { resource, found }
}

async fn found(api: &Api, namespace: &Namespace, of_type: &ContentType) -> Result<Found, ApiError> {
    let mut found = Found::default();
    let mut next = String::new();
    for number in 1..=PAGES {
        let Page { items, next: token, more } =
            api.content_page(&of_type.resource, namespace.as_str(), &next).await?;
        for item in items {
            found.count += 1;
            found.alive += u64::from(!item.being_deleted);
            for finalizer in item.finalizers {
                let finalizer = excerpt(&finalizer, LONGEST_FINALIZER).to_string();
                if found.finalizers.len() < FINALIZERS || found.finalizers.contains_key(&finalizer) {
                    *found.finalizers.entry(finalizer).or_default() += 1;
                }
            }
        }
        if token.is_empty() {
            return Ok(found);
        }
        if number == PAGES {
            found.count = found.count.saturating_add(more);
            found.alive = found.alive.saturating_add(more);
        }
        next = token;
    }
    Ok(found)
}

/// Why a deletion has failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the namespace has changed")]
    NamespaceChanged,
    #[error("{0} has an object without a uid")]
    NoUid(GroupResource),
}

/// What was deleted in a turn.
#[derive(Debug, Default)]
pub(super) struct Deleted {
    pub(super) failures: Vec<Failure>,
    /// Whether objects were deleted of a type that has further pages. A look does not show that: it
    /// ends after some pages, and not every server counts what is behind them.
    pub(super) goes_on: bool,
}

impl Deleted {
    /// Whether a right may be missing.
    pub(super) fn is_forbidden(&self) -> bool {
        self.failures.iter().any(|why| matches!(why, Failure::Api(ApiError { code: Some(403), .. })))
    }
}

/// Deletes objects of these types, each from its place on. Changes the places to where the next turn
/// has to go on.
pub(super) async fn delete(
    api: &Api,
    namespace: &Identity,
    types: &[&ContentType],
    places: &mut Places,
) -> Deleted {
    let deletions: Vec<_> = types
        .iter()
        .map(|of_type| {
            let place = places.remove(&of_type.resource.group_resource).unwrap_or_default();
            delete_type(api, namespace, of_type, place)
        })
        .collect();
    let deletions: Vec<Deletion> = stream::iter(deletions).buffered(TYPES).collect().await;
    let mut deleted = Deleted::default();
    for (of_type, deletion) in types.iter().zip(deletions) {
        deleted.failures.extend(deletion.failures);
        if !deletion.place.is_empty() {
            deleted.goes_on |= deletion.had_living;
            places.insert(of_type.resource.group_resource.clone(), deletion.place);
        }
    }
    deleted
}

/// What was done about a type.
#[derive(Default)]
struct Deletion {
    failures: Vec<Failure>,
    /// The token of the next page; empty if the next deletion begins at the first page.
    place: String,
    /// Whether one of the objects was not being deleted yet.
    had_living: bool,
}

impl Deletion {
    fn failed(why: Failure) -> Self {
        Self { failures: vec![why], ..Self::default() }
    }
}

async fn delete_type(api: &Api, namespace: &Identity, of_type: &ContentType, place: String) -> Deletion {
    if of_type.can_delete_collection {
        return delete_pages(api, namespace, of_type, place).await;
    }
    let live = match still_terminating(api, namespace).await {
        Ok(live) => live,
        Err(why) => return Deletion::failed(why),
    };
    match delete_one_by_one(api, namespace, &live, of_type).await {
        Ok(failures) => Deletion { failures, ..Deletion::default() },
        Err(error) => Deletion::failed(error.into()),
    }
}

/// A page may consist of objects that are held by finalizers, so the next one follows whatever is left
/// of it.
async fn delete_pages(api: &Api, namespace: &Identity, of_type: &ContentType, mut place: String) -> Deletion {
    let limited = api.within(DELETION_OF_PAGE);
    let began = Instant::now();
    let mut had_living = false;
    for _ in 0..DELETED_PAGES {
        if let Err(why) = still_terminating(api, namespace).await {
            return Deletion::failed(why);
        }
        match limited.delete_content_page(&of_type.resource, &namespace.name, &place).await {
            Ok(page) if page.next.is_empty() => return Deletion::default(),
            Ok(page) => {
                had_living |= page.items.iter().any(|item| !item.being_deleted);
                place = page.next;
            }
            // The pages before have been deleted, so it is not in vain to begin again.
            Err(error) if error.class == ErrorClass::Expired && !place.is_empty() => place.clear(),
            Err(error) if is_under_way(&error) => break,
            Err(error) => return Deletion::failed(error.into()),
        }
        if began.elapsed() >= DELETION {
            break;
        }
    }
    Deletion { failures: Vec::new(), place, had_living }
}

/// A collection has no uid, so nothing but this look binds a request to the namespace.
async fn still_terminating(api: &Api, namespace: &Identity) -> Result<LiveNamespace, Failure> {
    let live = api.live_namespace(namespace).await?;
    live.filter(|live| live.uid == namespace.uid && live.is_terminating()).ok_or(Failure::NamespaceChanged)
}

/// Whether the request may have deleted a part, and the next one will delete more.
fn is_under_way(error: &ApiError) -> bool {
    error.is_unanswered() || error.class == ErrorClass::TooLong
}

async fn delete_one_by_one(
    api: &Api,
    namespace: &Identity,
    live: &LiveNamespace,
    of_type: &ContentType,
) -> Result<Vec<Failure>, ApiError> {
    let mut failures = Vec::new();
    let mut next = String::new();
    for _ in 0..PAGES {
        let page = api.content_page(&of_type.resource, &namespace.name, &next).await?;
        let living = page.items.into_iter().filter(|item| !item.being_deleted);
        let deletions: Vec<_> =
            living.map(|item| delete_object(api, namespace, live, of_type, item)).collect();
        let failed: Vec<_> = stream::iter(deletions).buffer_unordered(OBJECTS).collect().await;
        failures.extend(failed.into_iter().flatten().take(LISTED));
        next = page.next;
        if next.is_empty() || failures.len() >= LISTED {
            break;
        }
    }
    Ok(failures)
}

/// Deletes exactly the object that was listed.
async fn delete_object(
    api: &Api,
    namespace: &Identity,
    live: &LiveNamespace,
    of_type: &ContentType,
    item: PageItem,
) -> Option<Failure> {
    let PageItem { name, uid, version, .. } = item;
    let Some(uid) = uid else { return Some(Failure::NoUid(of_type.resource.group_resource.clone())) };
    let namespace = Namespace::parse(&namespace.name);
    let identity = Identity { resource: of_type.resource.clone(), namespace, name: name.into(), uid };
    let Some(order) = live.order(identity) else { return Some(Failure::NamespaceChanged) };
    let deleted = api.delete(&order, version.as_ref()).await;
    // An object that has changed is decided on in the next turn.
    deleted.err().filter(|error| error.class != ErrorClass::Conflict).map(Failure::Api)
}

/// How many tokens are kept, of at most 16 KiB each. A deletion without one begins at the first page.
const MOST: usize = 256;

/// The continue tokens of the types of a namespace.
pub(super) type Places = HashMap<GroupResource, String>;

/// The places in all namespaces that wait for their next turn.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<HashMap<Box<str>, (Uid, Places)>>);

impl Kept {
    /// Takes the places of a namespace. Those of an earlier namespace of this name are void.
    pub(super) async fn take(&self, name: &str, uid: &Uid) -> Places {
        let kept = self.0.lock().await.remove(name);
        kept.filter(|(of, _)| of == uid).map(|(_, places)| places).unwrap_or_default()
    }

    /// Keeps the places of a namespace that has another turn.
    pub(super) async fn keep(&self, name: &str, uid: &Uid, places: Places) {
        let mut kept = self.0.lock().await;
        let others: usize = kept.values().map(|(_, places)| places.len()).sum();
        if !places.is_empty() && others + places.len() <= MOST {
            kept.insert(name.into(), (uid.clone(), places));
        }
    }
}

#[cfg(test)]
mod tests;
