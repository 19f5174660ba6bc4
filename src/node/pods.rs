//! What the API server says about the pods of this node.

use futures::{StreamExt as _, stream};

use kube_gc_node::view::{Answer, Listed, Proof};
use kube_gc_node::{PodRef, PodView};

use crate::api::{Api, ApiError, PodWatch};

/// How many live GETs are under way at a time.
const PROOFS_AT_A_TIME: usize = 8;

/// Who knows the pods of this node.
#[derive(Clone, Debug)]
pub enum PodSource {
    /// There is no API server.
    None,
    /// The API server.
    Api {
        /// Its client.
        api: Api,
        /// The name of this node.
        node: String,
    },
    /// The API server, and a watch of what it says: for passes that repeat.
    Watched {
        /// Its client.
        api: Api,
        /// The name of this node.
        node: String,
        /// The watch.
        watch: PodWatch,
    },
}

impl PodSource {
    /// The same with a watch instead of a list for each pass.
    #[must_use]
    pub fn watched(self) -> Self {
        match self {
            Self::Api { api, node } => {
                let watch = api.watch_pods(&node);
                Self::Watched { api, node, watch }
            }
            Self::None | Self::Watched { .. } => self,
        }
    }

    /// All pods of this node: from a list that is consistent, or as far as they are known.
    pub async fn view(&self, consistent: bool) -> Result<PodView, ApiError> {
        let pods = match self {
            Self::None => return Ok(PodView::None),
            Self::Watched { watch, .. } if !consistent => watch.pods().await?,
            Self::Api { api, node } | Self::Watched { api, node, .. } => {
                api.pods_of_node(node, consistent).await?
            }
        };
        Ok(PodView::Listed(Listed { pods, consistent, proofs: Vec::new() }))
    }

    /// Asks about pods that the list lacks (safety 2).
    pub async fn proofs(&self, missing: Vec<PodRef>) -> Vec<Proof> {
        let (Self::Api { api, .. } | Self::Watched { api, .. }) = self else { return Vec::new() };
        let ask = |pod: PodRef| async move {
            let answer = match api.prove_pod(&pod).await {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::debug!(namespace = pod.namespace, name = pod.name, %error, "no proof");
                    Answer::Failed
                }
            };
            Proof { pod, answer }
        };
        stream::iter(missing).map(ask).buffer_unordered(PROOFS_AT_A_TIME).collect().await
    }
}
