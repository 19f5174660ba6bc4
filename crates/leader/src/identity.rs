//! The identity of a replica in the Lease.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use uuid::Uuid;

/// The identity of one process among the replicas. It is unique, even among successive
/// processes of the same pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaId(Arc<str>);

impl ReplicaId {
    /// A new identity that begins with `beginning` or, if that is empty, with the host's name.
    /// The rest is random: two processes with the same identity would both hold the lease.
    pub fn new(beginning: &str) -> Self {
        let host = rustix::system::uname();
        let beginning = match (beginning, host.nodename().to_str()) {
            ("", Ok(host)) => host,
            (beginning, _) => beginning,
        };
        // The operating system provides the random keys.
        let random = RandomState::new();
        let unique = Uuid::from_u64_pair(random.hash_one(0), random.hash_one(1));
        Self(format!("{beginning}_{unique}").into())
    }

    /// The holder identity in the Lease.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A shared copy.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_identities_differ_even_with_the_same_name() {
        let (one, other) = (ReplicaId::new("pod"), ReplicaId::new("pod"));
        assert!(one.as_str().starts_with("pod_"), "{one}");
        assert_ne!(one, other);
        assert!(ReplicaId::new("").as_str().find('_').is_some_and(|at| at > 0), "the host has a name");
    }
}
