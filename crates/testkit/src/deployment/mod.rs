//! The manifests of `deploy/` on a real control plane, and the collector as they run it: with a
//! file system that has only the content of its image and volumes, as their user, and with their
//! service account.

mod installation;
mod pod;

pub(crate) use self::installation::end;
pub use self::installation::{
    Installation, NAME, NODE, USER, grants, overlays, plane, repository, role_path,
};
pub use self::pod::{NODE_NAME, Pod};
