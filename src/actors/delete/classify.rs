//! Classifying the references of one object.

use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;

use super::DeleteWork;
use super::confirm::Waiting;
use crate::actors::context::Interrupted;
use crate::api::LookUp;
use crate::graph::{ObjectSnapshot, OwnerState, OwnerView, ReferenceSnapshot};
use crate::object::{Identity, ResourceVersion};
use crate::verdict::{GraphClass, ReferenceClass, from_graph, from_live};

/// How many owners of one object are looked up at once: one slow or broken owner
/// kind must not make the others wait.
const LOOK_UPS_AT_ONCE: usize = 8;

/// How it is known what an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A synced monitor shows it, or showed its deletion.
    Graph,
    /// It was proved absent not long ago.
    Remembered,
    /// Looked up just now.
    Live,
    /// The catalog alone: the kind is not served, or has the wrong scope.
    Catalog,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Graph => "graph",
            Self::Remembered => "remembered",
            Self::Live => "live",
            Self::Catalog => "catalog",
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
    /// The owner's version in the graph that a waiting class was confirmed for.
    pub confirmed: Option<Waiting>,
    /// Why it could not be looked up.
    pub error: Option<Arc<str>>,
}

impl Classified {
    fn new(class: ReferenceClass, evidence: Evidence, identity: Option<Identity>) -> Self {
        Self { class, evidence, identity, confirmed: None, error: None }
    }
}

impl DeleteWork {
    /// Classifies every reference, never stopping at the first problem.
    pub(super) async fn classify(&self, item: &ObjectSnapshot) -> Result<Vec<Classified>, Interrupted> {
        // In order and bounded: the classes are matched to the references by position.
        let classified: Vec<_> = stream::iter(&item.references)
            .map(|seen| self.classify_one(seen))
            .buffered(LOOK_UPS_AT_ONCE)
            .collect()
            .await;
        classified.into_iter().collect()
    }

    async fn classify_one(&self, seen: &ReferenceSnapshot) -> Result<Classified, Interrupted> {
        let (identity, state) = match &seen.owner {
            OwnerView::Unresolved => {
                return Ok(Classified::new(ReferenceClass::Unresolved, Evidence::Catalog, None));
            }
            OwnerView::InvalidScope => {
                return Ok(Classified::new(ReferenceClass::InvalidScope, Evidence::Catalog, None));
            }
            OwnerView::Remote(identity) => (identity, self.context.graph.owner_state(identity).await?),
            OwnerView::Local { identity, state } => (identity, state.clone()),
        };
        match from_graph(&state) {
            GraphClass::Known(class) => {
                Ok(Classified::new(self.spare_orphans(class, identity), Evidence::Graph, Some(identity.clone())))
            }
            GraphClass::ConfirmWaiting => self.confirm_waiting(identity, &state).await,
            GraphClass::LookUp if self.context.memory.absent.contains(identity) => Ok(Classified::new(
                self.spare_orphans(ReferenceClass::Absent, identity),
                Evidence::Remembered,
                Some(identity.clone()),
            )),
            GraphClass::LookUp => self.look_up_owner(identity).await,
        }
    }

    /// A dependent of an owner whose dependents were orphaned loses its reference
    /// instead of its life, even if it turns up when the owner is gone.
    fn spare_orphans(&self, class: ReferenceClass, identity: &Identity) -> ReferenceClass {
        match class {
            ReferenceClass::Absent if self.context.memory.orphaned.contains(identity) => ReferenceClass::Orphaned,
            other => other,
        }
    }

    async fn look_up_owner(&self, identity: &Identity) -> Result<Classified, Interrupted> {
        let classified = match self.look_ups.look_up(identity).await {
            Ok(LookUp::Found(facts)) => {
                Classified::new(from_live(&facts), Evidence::Live, Some(identity.clone()))
            }
            Ok(LookUp::Absent(_)) => Classified::new(
                self.spare_orphans(ReferenceClass::Absent, identity),
                Evidence::Live,
                Some(identity.clone()),
            ),
            Err(error) => Classified {
                error: Some(error.to_string().into()),
                ..Classified::new(ReferenceClass::Unresolved, Evidence::Live, Some(identity.clone()))
            },
        };
        Ok(classified)
    }

    /// The graph says that the owner is deleting its dependents: one live look
    /// confirms it for all of them, for one version of the owner and one second.
    async fn confirm_waiting(&self, identity: &Identity, state: &OwnerState) -> Result<Classified, Interrupted> {
        let OwnerState::Observed { resource_version, .. } = state else {
            return Err(Interrupted::Changed("the owner's state changed while it was read"));
        };
        let version: Option<ResourceVersion> = resource_version.clone();
        if let Some(waiting) = self.confirmations.get(identity, version.as_ref()) {
            return Ok(Classified {
                confirmed: Some(waiting),
                ..Classified::new(ReferenceClass::Waiting, Evidence::Live, Some(identity.clone()))
            });
        }
        let mut classified = self.look_up_owner(identity).await?;
        if classified.class == ReferenceClass::Waiting {
            classified.confirmed = Some(self.confirmations.put(identity, version));
        }
        Ok(classified)
    }
}
