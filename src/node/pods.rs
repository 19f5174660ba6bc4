//! What the API server says about the pods of this node.

use futures::{StreamExt as _, stream};

use kube_gc_node::view::{Answer, Listed, Proof};
use kube_gc_node::{PodRef, PodView};

use crate::api::{Api, ApiError};

/// How many live GETs are under way at a time.
const PROOFS_AT_A_TIME: usize = 8;

/// Who knows the pods of this node.
#[derive(Clone, Debug)]
pub enum PodSource {
    /// Nobody.
    None,
    /// The API server.
    Api {
        /// Its client.
        api: Api,
        /// The name of this node.
        node: String,
    },
}

impl PodSource {
    /// All pods of this node, from a list that is consistent or may be behind.
    pub async fn view(&self, consistent: bool) -> Result<PodView, ApiError> {
        match self {
            Self::None => Ok(PodView::None),
            Self::Api { api, node } => {
                let pods = api.pods_of_node(node, consistent).await?;
                Ok(PodView::Listed(Listed { pods, consistent, proofs: Vec::new() }))
            }
        }
    }

    /// Asks about pods that the list lacks (safety 2).
    pub async fn proofs(&self, missing: Vec<PodRef>) -> Vec<Proof> {
        let Self::Api { api, .. } = self else { return Vec::new() };
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
