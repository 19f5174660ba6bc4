//! The second look at a candidate, right before its removal (safety 1).
//!
//! A plan is as old as the lists that it was made from. By the time of a removal, a container may
//! have been started, a sandbox may have got one, and an image may be in use.

use std::collections::BTreeSet;

use crate::mutation::{self, Mutation};
use crate::plan::{Candidate, Target};
use crate::pods::{PodState, Pods, is_whole};
use crate::users::Users;
use crate::view::{ContainerState, Extent, Image, SandboxState, SymlinkState};
use crate::{Files, PodView, Rule, RuntimeView};

/// What there is now, as far as a candidate needs it:
///
/// | candidate | runtime | files |
/// |---|---|---|
/// | container | the container itself | none |
/// | sandbox | the sandbox itself and all containers in it | none |
/// | log directory | all containers and sandboxes | the directory itself |
/// | symlink | all containers | the symlink itself |
/// | image | all containers, and the image itself | none |
///
/// The labels of an image need no second look: they are in its configuration, of which the id is the digest.
#[derive(Clone, Copy, Debug)]
pub struct Fresh<'a> {
    /// What the runtime says.
    pub runtime: &'a RuntimeView,
    /// What the API server says.
    pub pods: &'a PodView,
    /// What the file system says.
    pub files: &'a Files,
}

/// Why a candidate stays after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Somebody else has removed it.
    #[error("it is already gone")]
    AlreadyGone,
    /// It is not what it was: another state, another age, or something else of the same name.
    #[error("it has changed since the plan was made")]
    Changed,
    /// It is running or ready.
    #[error("it is running by now")]
    Active,
    /// Something uses it.
    #[error("it is in use by now")]
    InUse,
    /// Its pod is there again.
    #[error("its pod is there by now")]
    PodIsBack,
    /// What is needed to be sure is not known.
    #[error("it is not known whether it is still unused")]
    Unknown,
}

/// Whether a candidate may still go.
///
/// # Errors
/// If it may not; it stays, and the next pass decides anew.
pub fn still_removable(candidate: &Candidate, fresh: &Fresh<'_>) -> Result<(), Refusal> {
    if mutation::is(Mutation::NoSecondLook) {
        return Ok(());
    }
    let runtime = fresh.runtime;
    match &candidate.target {
        Target::Container { id, name, uid, state, created_at, .. } => {
            if candidate.rule == Rule::C3 {
                pod_is_not_back(uid, fresh)?;
            }
            let now = the_only(&runtime.containers, |container| container.id == *id)?;
            if now.created_at != *created_at || now.name != *name {
                return Err(Refusal::Changed);
            }
            match now.state {
                ContainerState::Running => Err(Refusal::Active),
                found if found != *state => Err(Refusal::Changed),
                ContainerState::Created | ContainerState::Exited | ContainerState::Unknown => Ok(()),
            }
        }
        Target::Sandbox { id, uid, created_at } => {
            let now = the_only(&runtime.sandboxes, |sandbox| sandbox.id == *id)?;
            if now.created_at != *created_at || now.uid != *uid {
                return Err(Refusal::Changed);
            }
            if now.state == SandboxState::Ready {
                return Err(Refusal::Active);
            }
            let in_it = runtime.containers.iter().any(|container| container.sandbox_id == *id);
            if in_it { Err(Refusal::InUse) } else { Ok(()) }
        }
        Target::LogDirectory { name, uid } => {
            pod_is_not_back(uid, fresh)?;
            log_directory(name, uid, fresh)
        }
        Target::LogSymlink { name } => symlink(name, fresh),
        Target::Image { id, runtime_handler, names } => image(id, runtime_handler.as_deref(), names, fresh),
    }
}

/// What is meant by an id. It has changed if several things have that id by now.
fn the_only<T>(all: &[T], is_it: impl Fn(&T) -> bool) -> Result<&T, Refusal> {
    let mut found = all.iter().filter(|item| is_it(item));
    let first = found.next().ok_or(Refusal::AlreadyGone)?;
    if found.next().is_some() { Err(Refusal::Changed) } else { Ok(first) }
}

/// What goes because its pod is gone must not go if the pod is there. A pod that was gone because it had
/// ended is still in the list, so only a living one counts.
fn pod_is_not_back(uid: &str, fresh: &Fresh<'_>) -> Result<(), Refusal> {
    let pods = Pods::of(fresh.runtime, fresh.pods, fresh.files);
    if pods.is_known(uid) && !matches!(pods.state(uid), PodState::Gone(_) | PodState::Terminated) {
        return Err(Refusal::PodIsBack);
    }
    Ok(())
}

fn log_directory(name: &str, uid: &str, fresh: &Fresh<'_>) -> Result<(), Refusal> {
    let Fresh { runtime, files, .. } = fresh;
    let directory = files.log_directories.iter().find(|directory| directory.name == *name);
    if !directory.ok_or(Refusal::AlreadyGone)?.is_directory {
        return Err(Refusal::Changed);
    }
    if !is_whole(runtime) {
        return Err(Refusal::Unknown);
    }
    let runs = |state| matches!(state, ContainerState::Running | ContainerState::Unknown);
    let running =
        runtime.containers.iter().any(|container| container.pod_uid == *uid && runs(container.state));
    let ready =
        runtime.sandboxes.iter().any(|sandbox| sandbox.uid == *uid && sandbox.state == SandboxState::Ready);
    if running || ready { Err(Refusal::Active) } else { Ok(()) }
}

fn symlink(name: &str, fresh: &Fresh<'_>) -> Result<(), Refusal> {
    let Fresh { runtime, files, .. } = fresh;
    let symlink = files.log_symlinks.iter().find(|symlink| symlink.name == *name);
    if symlink.ok_or(Refusal::AlreadyGone)?.state != SymlinkState::Dangling {
        return Err(Refusal::Changed);
    }
    if runtime.containers_extent == Extent::Slice {
        return Err(Refusal::Unknown);
    }
    let id = crate::logs::l2_container_id(name);
    let lives = runtime.containers.iter().any(|container| {
        container.state != ContainerState::Exited && id.is_some_and(|id| container.id.starts_with(id))
    });
    if lives { Err(Refusal::Active) } else { Ok(()) }
}

fn image(
    id: &str,
    handler: Option<&str>,
    names: &BTreeSet<String>,
    fresh: &Fresh<'_>,
) -> Result<(), Refusal> {
    let Fresh { runtime, pods, .. } = fresh;
    if runtime.containers_extent == Extent::Slice {
        return Err(Refusal::Unknown);
    }
    let found = runtime
        .images
        .iter()
        .find(|image| image.id == *id && image.runtime_handler.as_deref() == handler)
        .ok_or(Refusal::AlreadyGone)?;
    let found_names: BTreeSet<&str> = found.names().collect();
    // CRI-O lists an image without names by one that it had, and its status has none.
    if found.pinned || !(found_names.is_empty() || found_names.into_iter().eq(names)) {
        return Err(Refusal::Changed);
    }
    let known = Image { repo_tags: names.iter().cloned().collect(), ..found.clone() };
    let users = Users::of(runtime, pods);
    if users.unclear().is_some() {
        return Err(Refusal::Unknown);
    }
    if users.user(&known).is_some() { Err(Refusal::InUse) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
