//! The manifests of `deploy/` on a real control plane, and the collector as they run it: in
//! a file system that holds what its image and its volumes hold, as their user, with their
//! service account.

mod installation;
mod pod;
mod rights;
mod standing;

pub use self::installation::{Installation, NAME, USER, grants, overlays, plane, repository, role_path};
pub use self::pod::Pod;
pub use self::standing::Standing;

use crate::target;

/// Whether in this binary it is the manifests that run the collector: so it is by the
/// binary's name.
pub fn runs_the_collector() -> bool {
    target::name() == "deployment"
}
