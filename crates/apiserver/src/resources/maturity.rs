//! The order of the versions of a group.

/// The order of versions: `v2`, `v1`, `v2beta1`, `v1alpha3`, and then all others alphabetically.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Maturity {
    /// Not a Kubernetes version.
    Other(std::cmp::Reverse<Box<str>>),
    /// `v1alpha2`.
    Alpha(u64, u64),
    /// `v1beta2`.
    Beta(u64, u64),
    /// `v1`.
    Stable(u64),
}

impl Maturity {
    /// Parses a version.
    #[must_use]
    pub fn of(version: &str) -> Self {
        Self::read(version).unwrap_or_else(|| Self::Other(std::cmp::Reverse(version.into())))
    }

    fn read(version: &str) -> Option<Self> {
        let version = version.strip_prefix('v')?;
        if let Some((major, minor)) = version.split_once("alpha") {
            return Some(Self::Alpha(major.parse().ok()?, minor.parse().ok()?));
        }
        if let Some((major, minor)) = version.split_once("beta") {
            return Some(Self::Beta(major.parse().ok()?, minor.parse().ok()?));
        }
        Some(Self::Stable(version.parse().ok()?))
    }
}
