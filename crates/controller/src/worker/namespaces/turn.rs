//! One turn of a namespace: look, delete, look again, and finalize it if nothing is left.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::content::{self, Kept, Places};
use super::{HELD, Rivals};
use crate::worker::WorkContext;
use crate::worker::after;
use kube_gc_client::{Api, ApiError, ContentType, ContentTypes, FIELD_MANAGER, LiveNamespace};
use kube_gc_core::namespaces::{Ended, Rival, Step, Survey, conditions, merged, step, wrote_conditions};
use kube_gc_core::object::{Identity, Namespace, ResourceType, Scope, Uid};
use kube_gc_core::text::bounded;
use kube_gc_observe::telemetry::record;

/// How often a turn looks at everything. Pods, and then the rest, take two.
const LOOKS: usize = 4;

/// Why a turn ended before its time.
#[derive(Debug)]
pub(super) enum Stop {
    Api(ApiError),
    Rival(Rival),
    Broken(String),
}

impl From<ApiError> for Stop {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// What all turns share.
#[derive(Debug)]
pub(super) struct Turns {
    context: WorkContext,
    pub(super) rivals: Rivals,
    namespaces: Arc<ResourceType>,
    /// The last discovery, and when it began.
    types: Mutex<Option<(Instant, Arc<ContentTypes>)>>,
    kept: Kept,
}

impl Turns {
    pub(super) fn new(context: WorkContext, rivals: Rivals) -> Self {
        let namespaces = ResourceType::of("namespaces", "v1", "Namespace", Scope::Cluster);
        Self { context, rivals, namespaces, types: Mutex::default(), kept: Kept::default() }
    }

    /// Works on a namespace for a short time.
    pub(super) async fn turn(&self, name: &str, uid: &Uid, is_quiet: bool) -> Result<Ended, Stop> {
        // If watches break, the store may be another one, and nothing is written that was decided
        // before.
        let context = self.context.now();
        let resource = Arc::clone(&self.namespaces);
        let namespace = Identity { resource, namespace: None, name: name.into(), uid: uid.clone() };
        let live = match context.api.live_namespace(&namespace).await? {
            Some(live) if live.uid == *uid && live.is_terminating() && live.is_held() => live,
            // It is gone, finalized, or another one, about which there is an event of its own.
            Some(_) | None => {
                record::namespace_turn("gone");
                return Ok(Ended::Done);
            }
        };
        let owners = live.condition_owners();
        if let Some(rival) = wrote_conditions(&owners, FIELD_MANAGER, self.rivals.since) {
            return Err(Stop::Rival(rival));
        }
        if !self.rivals.are_alone().await? {
            record::namespace_turn("held");
            return Ok(HELD);
        }
        let mut places = self.kept.take(name, uid).await;
        let emptied = self.empty(&context, &namespace, live, is_quiet, &mut places).await;
        if !matches!(emptied, Ok((_, Ended::Done))) {
            self.kept.keep(name, uid, places).await;
        }
        let (outcome, ended) = emptied?;
        record::namespace_turn(outcome);
        Ok(ended)
    }

    /// Deletes what can be deleted, and finalizes the namespace if a whole look shows nothing and it
    /// has been quiet for long enough before.
    async fn empty(
        &self,
        WorkContext { api, graph, registry, .. }: &WorkContext,
        namespace: &Identity,
        live: LiveNamespace,
        is_quiet: bool,
        places: &mut Places,
    ) -> Result<(&'static str, Ended), ApiError> {
        let discovered = self.discover(Instant::now()).await;
        let Some(inside) = Namespace::parse(&namespace.name) else { return Ok(("gone", Ended::Done)) };
        let all: Vec<&ContentType> = discovered.types.iter().collect();
        let mut progress = false;
        let mut survey = Survey::default();
        for _ in 0..LOOKS {
            survey = Survey {
                undiscovered: discovered.undiscovered.clone(),
                unparsed: discovered.unparsed.clone(),
                types: content::look(api, &inside, &all).await,
                failures: Vec::new(),
            };
            let next = step(&survey);
            if api.gate().is_dry_run() {
                would(namespace, &next, &survey);
                return Ok(("dry_run", Ended::Done));
            }
            let deletable = match next {
                Step::Finalize if !is_quiet || progress => {
                    self.report(api, namespace, live, &survey).await?;
                    return Ok(("empty", if progress { Ended::Emptied } else { Ended::Empty }));
                }
                Step::Finalize => {
                    let live = self.report(api, namespace, live, &survey).await?;
                    if let Some(now) = api.finalize_namespace(namespace, &live).await? {
                        graph.expect(&namespace.key(), after(live.version().as_ref(), now.version()));
                    }
                    tracing::info!(namespace = &*namespace.name, "finalized a namespace that is empty");
                    return Ok(("finalized", Ended::Done));
                }
                Step::Wait => break,
                Step::Delete(types) => types,
            };
            let before = survey.clone();
            let chosen: Vec<_> = all
                .iter()
                .copied()
                .filter(|known| deletable.contains(&known.resource.group_resource))
                .collect();
            let deleted = content::delete(api, namespace, &chosen, places).await;
            if deleted.is_forbidden() {
                registry.refused().notify_one();
            }
            survey.failures = deleted.failures.iter().map(bounded).collect();
            for newer in content::look(api, &inside, &chosen).await {
                survey.update(newer);
            }
            if !deleted.goes_on && !survey.has_less_than(&before) {
                break;
            }
            progress = true;
            // The rest of such a type is for the next turn, and other namespaces come first.
            if !places.is_empty() {
                break;
            }
        }
        self.report(api, namespace, live, &survey).await?;
        let held = ("held", Ended::Held { awaited: survey.awaited() });
        Ok(if progress { ("progress", Ended::Progress) } else { held })
    }

    /// Writes what is left into the conditions of the namespace, if that is news.
    async fn report(
        &self,
        api: &Api,
        namespace: &Identity,
        live: LiveNamespace,
        survey: &Survey,
    ) -> Result<LiveNamespace, ApiError> {
        let now = humantime::format_rfc3339_seconds(api.settings().clock.now()).to_string();
        match merged(&live.conditions(), conditions(survey, &now)) {
            Some(conditions) => api.set_conditions(namespace, &live, &conditions).await,
            None => Ok(live),
        }
    }

    /// The types that a namespace may contain, by a discovery that began no earlier than this. Turns
    /// that begin while one is under way share the next one.
    async fn discover(&self, no_earlier: Instant) -> Arc<ContentTypes> {
        let mut types = self.types.lock().await;
        if let Some((began, known)) = &*types
            && *began >= no_earlier
        {
            return Arc::clone(known);
        }
        let began = Instant::now();
        let found = self.context.api.content_types().await.unwrap_or_else(|error| ContentTypes {
            undiscovered: vec![("the list of API groups".to_owned(), bounded(&error))],
            ..ContentTypes::default()
        });
        let found = Arc::new(found);
        *types = Some((began, Arc::clone(&found)));
        found
    }
}

/// Logs what a dry run leaves out.
fn would(namespace: &Identity, next: &Step, survey: &Survey) {
    let (name, remaining) = (&*namespace.name, survey.remaining());
    match next {
        Step::Finalize => tracing::info!(namespace = name, "dry run: the empty namespace would be finalized"),
        Step::Delete(types) => {
            let types = types.len();
            tracing::info!(
                namespace = name,
                remaining,
                types,
                "dry run: objects in the namespace would be deleted"
            );
        }
        Step::Wait => tracing::info!(namespace = name, remaining, "dry run: the namespace is held"),
    }
}
