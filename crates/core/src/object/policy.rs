//! Propagation policies.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The `propagationPolicy` of a DELETE: what happens to the object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PropagationPolicy {
    /// The object is removed first, and its dependents follow.
    Background,
    /// The object stays until its blocking dependents are gone.
    Foreground,
    /// The dependents lose the reference and live on.
    Orphan,
}

impl PropagationPolicy {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

impl fmt::Display for PropagationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_spelled_as_in_kubernetes() {
        for policy in
            [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan]
        {
            assert_eq!(serde_json::to_string(&policy).unwrap(), format!("\"{policy}\""));
            assert_eq!(serde_json::from_str::<PropagationPolicy>(&format!("\"{policy}\"")).unwrap(), policy);
        }
    }
}
