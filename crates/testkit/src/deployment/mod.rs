//! The manifests of `deploy/` on a real control plane, and the collector as they run it: in
//! a file system that holds what its image and its volumes hold, as their user, with their
//! service account.

mod installation;
mod pod;
mod rights;
mod standing;

pub(crate) use self::installation::end;
pub use self::installation::{Installation, NAME, USER, grants, overlays, plane, repository, role_path};
pub use self::pod::Pod;
pub use self::standing::Standing;

use crate::environment::{self, Environment};

/// Whether it is the manifests that run the collector in this scenario.
pub fn runs_the_collector() -> bool {
    environment::current() == Environment::Deployed
}
