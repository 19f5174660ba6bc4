//! `[leader]`

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::text;

/// `[leader]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaderSettings {
    /// Whether replicas elect a leader, which alone writes.
    pub enabled: bool,
    /// The namespace of the Lease; empty means that of the pod or of the kubeconfig's context.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this replica in the Lease; empty means the hostname. A random suffix
    /// is added.
    pub identity: String,
    /// How long other replicas wait for a renewal.
    #[serde(with = "text::duration")]
    pub lease_duration: Duration,
    /// How long this replica writes after a renewal.
    #[serde(with = "text::duration")]
    pub renew_deadline: Duration,
    /// The interval between attempts to acquire or renew the Lease.
    #[serde(with = "text::duration")]
    pub retry_period: Duration,
}

impl Default for LeaderSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            namespace: String::new(),
            name: "kube-gc".to_owned(),
            identity: String::new(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}
