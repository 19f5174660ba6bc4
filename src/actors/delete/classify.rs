//! Classifying the references of one object.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;

use super::DeleteWork;
use super::look_ups::LookedUp;
use crate::actors::context::Interrupted;
use crate::api::{ApiError, ErrorClass, LookUp};
use crate::graph::{ObjectSnapshot, OwnerState, OwnerView, ReferenceSnapshot};
use crate::mutation::{self, Mutation};
use crate::object::{Identity, OwnerReference};
use crate::telemetry::record;
use crate::verdict::{Confirmation, GraphClass, ReferenceClass, from_graph, from_live, from_state};

/// How many owners of one object are looked up at once: one slow or broken owner
/// kind must not make the others wait.
const LOOK_UPS_AT_ONCE: usize = 8;

/// How it is known what an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The catalog alone: the kind is not served, or has the wrong scope.
    Catalog,
    /// A synced monitor shows it, or it was proved absent and is kept as such.
    Graph,
    /// It was proved absent not long ago.
    Remembered,
    /// Looked up just now, or within the last second for another dependent.
    Live,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Catalog => "catalog",
            Self::Graph => "graph",
            Self::Remembered => "remembered",
            Self::Live => "live",
        })
    }
}

/// One reference, classified.
#[derive(Clone, Debug)]
pub struct Classified {
    /// The class.
    pub class: ReferenceClass,
    /// How it is known.
    pub evidence: Evidence,
    /// The identity that the reference means, where its kind resolves.
    pub identity: Option<Identity>,
    /// What a waiting owner's class rests on.
    pub confirmed: Option<Confirmation>,
    /// Why it could not be looked up.
    pub error: Option<Arc<str>>,
    /// How long the API server asks to be left alone with it.
    pub retry_after: Option<Duration>,
    /// Why nobody was asked, if the request was held back.
    pub deferred: Option<ApiError>,
}

impl Classified {
    const fn new(class: ReferenceClass, evidence: Evidence, identity: Option<Identity>) -> Self {
        Self { class, evidence, identity, confirmed: None, error: None, retry_after: None, deferred: None }
    }

    /// Whether nothing can bring the owner back.
    pub(super) const fn is_gone(&self) -> bool {
        matches!(self.class, ReferenceClass::Absent | ReferenceClass::Orphaned)
    }

    /// A kind that the catalog does not know.
    fn not_served(reference: &OwnerReference) -> Self {
        let OwnerReference { api_version, kind, .. } = reference;
        let error = format!("the API server serves no {kind} in {api_version}");
        let class = match mutation::is(Mutation::UnresolvedIsAbsent) {
            true => ReferenceClass::Absent,
            false => ReferenceClass::Unresolved,
        };
        Self { error: Some(error.into()), ..Self::new(class, Evidence::Catalog, None) }
    }
}

impl DeleteWork {
    /// Classifies every reference, never stopping at the first problem.
    pub(super) async fn classify(&self, item: &ObjectSnapshot) -> Result<Vec<Classified>, Interrupted> {
        // In order: the classes are matched to the references by position.
        let each: Vec<_> = item.references.iter().map(|seen| self.classify_one(seen)).collect();
        let classified: Vec<_> = stream::iter(each).buffered(LOOK_UPS_AT_ONCE).collect().await;
        classified.into_iter().collect()
    }

    async fn classify_one(&self, seen: &ReferenceSnapshot) -> Result<Classified, Interrupted> {
        match from_graph(&seen.owner) {
            GraphClass::AskPartition(identity) => {
                let state = self.context.graph.owner_state(identity).await?;
                Ok(self.classify_identity(identity, &state).await)
            }
            GraphClass::Known(class) if seen.owner == OwnerView::InvalidScope => {
                let is_taken_for_absent = mutation::is(Mutation::InvalidScopeIsAbsent);
                let class = if is_taken_for_absent { ReferenceClass::Absent } else { class };
                Ok(Classified::new(class, Evidence::Catalog, None))
            }
            _ => match &seen.owner {
                OwnerView::Local { identity, state } => Ok(self.classify_identity(identity, state).await),
                _ => Ok(Classified::not_served(&seen.reference)),
            },
        }
    }

    async fn classify_identity(&self, identity: &Identity, state: &OwnerState) -> Classified {
        let classified = |class, evidence| Classified::new(class, evidence, Some(identity.clone()));
        let mut classified = match from_state(identity, state) {
            GraphClass::Known(class) => classified(class, Evidence::Graph),
            GraphClass::ConfirmWaiting(identity) => {
                let known = || {
                    let confirmed = Some(self.confirmations.get(identity, state)?);
                    Some(Classified { confirmed, ..classified(ReferenceClass::Waiting, Evidence::Live) })
                };
                match known() {
                    Some(known) => known,
                    None => self.look_up_owner(identity, state, known).await,
                }
            }
            GraphClass::LookUp(identity) | GraphClass::AskPartition(identity) => {
                let known = || {
                    let remembered = self.context.memory.absent.contains(identity);
                    remembered.then(|| classified(ReferenceClass::Absent, Evidence::Remembered))
                };
                let remembered = known();
                record::absent_owner_lookup(remembered.is_some());
                match remembered {
                    Some(remembered) => remembered,
                    None => self.look_up_owner(identity, state, known).await,
                }
            }
        };
        // A dependent of an owner whose dependents were orphaned loses its reference
        // instead of its life, even if it turns up when the owner is gone.
        if classified.class == ReferenceClass::Absent && self.context.memory.orphaned.contains(identity) {
            classified.class = ReferenceClass::Orphaned;
        }
        classified
    }

    /// Looks an owner up, live, unless somebody else has just done so.
    async fn look_up_owner(
        &self,
        identity: &Identity,
        state: &OwnerState,
        known: impl FnOnce() -> Option<Classified>,
    ) -> Classified {
        let classified = |class| Classified::new(class, Evidence::Live, Some(identity.clone()));
        let note = |LookedUp { sent, answer }| match answer {
            Ok(LookUp::Found(facts)) => Classified {
                confirmed: self.confirmations.confirm(
                    identity,
                    state.clone(),
                    &facts,
                    self.confirmations.at(sent),
                ),
                ..classified(from_live(&facts))
            },
            Ok(LookUp::Absent(_)) => classified(ReferenceClass::Absent),
            Err(error) => Classified {
                error: Some(error.to_string().into()),
                retry_after: match error.class {
                    ErrorClass::Throttled { retry_after } => retry_after,
                    _ => None,
                },
                deferred: matches!(error.class, ErrorClass::Deferred { .. }).then(|| error.clone()),
                ..classified(ReferenceClass::Unresolved)
            },
        };
        self.look_ups.look_up_unless(identity, known, note).await
    }
}
