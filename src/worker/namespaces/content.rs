//! Lists and deletes the content of a namespace.

use std::time::Duration;

use futures::{StreamExt as _, stream};

use crate::api::{Api, ApiError, ContentType, ErrorClass, Page, PageItem};
use kube_gc_core::namespaces::{Found, TypeSurvey};
use kube_gc_core::object::{Identity, Namespace, PropagationPolicy};
use kube_gc_core::text::{LISTED, bounded, excerpt};

/// How many types of a namespace are listed or deleted at the same time.
const TYPES: usize = 4;
/// How many objects of a type are deleted at the same time, where no request deletes all.
const OBJECTS: usize = 8;
/// How many pages of a type are read: the rest is only counted.
const PAGES: usize = 10;
/// The time limit of a list. An aggregated API that hangs must not hold up the namespace.
const LIST: Duration = Duration::from_secs(10);
/// The time limit of the deletion of a collection. What was deleted by then is deleted.
const COLLECTION: Duration = Duration::from_secs(5);
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

/// Deletes the objects of these types that are not being deleted. Returns why that has failed.
pub(super) async fn delete(api: &Api, namespace: &Identity, types: &[&ContentType]) -> Vec<String> {
    let deletions: Vec<_> = types.iter().map(|of_type| delete_type(api, namespace, of_type)).collect();
    let failures: Vec<Vec<String>> = stream::iter(deletions).buffered(TYPES).collect().await;
    failures.into_iter().flatten().collect()
}

async fn delete_type(api: &Api, namespace: &Identity, of_type: &ContentType) -> Vec<String> {
    // A collection has no uid, so nothing but this look binds the request to the namespace.
    match api.live_namespace(namespace).await {
        Ok(Some(live)) if live.uid == namespace.uid && live.is_terminating() => {}
        Ok(_) => return vec!["the namespace has changed".to_owned()],
        Err(error) => return vec![bounded(&error)],
    }
    if of_type.can_delete_collection {
        let deleted = api.within(COLLECTION).delete_content(&of_type.resource, &namespace.name).await;
        return deleted
            .err()
            .filter(|error| !is_under_way(error))
            .map(|error| bounded(&error))
            .into_iter()
            .collect();
    }
    match delete_one_by_one(api, namespace, of_type).await {
        Ok(failures) => failures,
        Err(error) => vec![bounded(&error)],
    }
}

/// Whether the request may have deleted a part, and the next one will delete more.
fn is_under_way(error: &ApiError) -> bool {
    error.is_unanswered() || error.class == ErrorClass::TooLong
}

async fn delete_one_by_one(
    api: &Api,
    namespace: &Identity,
    of_type: &ContentType,
) -> Result<Vec<String>, ApiError> {
    let mut failures = Vec::new();
    let mut next = String::new();
    for _ in 0..PAGES {
        let page = api.content_page(&of_type.resource, &namespace.name, &next).await?;
        let living = page.items.into_iter().filter(|item| !item.being_deleted);
        let deletions: Vec<_> = living.map(|item| delete_object(api, namespace, of_type, item)).collect();
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
    of_type: &ContentType,
    item: PageItem,
) -> Option<String> {
    let PageItem { name, uid, version, .. } = item;
    let Some(uid) = uid else {
        return Some(format!("{} has an object without a uid", of_type.resource.group_resource));
    };
    let namespace = Namespace::parse(&namespace.name);
    let identity = Identity { resource: of_type.resource.clone(), namespace, name: name.into(), uid };
    let deleted = api.delete(&identity, PropagationPolicy::Background, version.as_ref()).await;
    // An object that has changed is decided on in the next turn.
    deleted.err().filter(|error| error.class != ErrorClass::Conflict).map(|error| bounded(&error))
}
