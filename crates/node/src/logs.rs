//! C8, L1, L2: which log files and symlinks go, and what their names say.
//!
//! Paths come from the runtime and names from directories that others write to. None of them is
//! trusted: a file goes only if it is beneath one of the two roots, in the directory of its own pod
//! (safety 5).

use std::collections::{HashMap, HashSet};

use crate::mutation::{self, Mutation};
use crate::pods::{PodState, Pods};
use crate::rule::{Decision, words};
use crate::rules::LogRoots;
use crate::view::{Container, ContainerState, LogDirectory, LogSymlink, SandboxState, SymlinkState};
use crate::{Clock, Files, Rule, Rules, RuntimeView};

/// Whether this is the name of an entry of a directory, and not a way out of it.
pub fn is_entry(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= 255 && !name.contains(['/', '\0'])
}

/// What the name of a log directory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryName<'a> {
    /// Namespace, name and uid of the pod, if all are there.
    pub named: Option<(&'a str, &'a str, &'a str)>,
    /// The uid of the pod.
    pub uid: &'a str,
}

/// `parsePodUIDFromLogsDirectory` in `kuberuntime/helpers.go`: `NAMESPACE_NAME_UID`, or `UID`.
pub fn parse_directory(name: &str) -> DirectoryName<'_> {
    let Some((rest, uid)) = name.rsplit_once('_') else {
        return DirectoryName { named: None, uid: name };
    };
    let parts = rest.split_once('_').filter(|(_, name)| !name.contains('_'));
    DirectoryName { named: parts.map(|(namespace, name)| (namespace, name, uid)), uid }
}

/// The file of a container's log, beneath the root of the pods' logs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogFile {
    /// The directories below the root: that of the pod first.
    pub directories: Vec<String>,
    /// The name of the file. Rotated logs have it as their beginning.
    pub name: String,
}

impl LogFile {
    /// Whether an entry of the file's directory is this log, or what rotation has made of it:
    /// `0.log`, `0.log.20240102-030405`, `0.log.20240102-030405.gz`.
    ///
    /// `Clean` in `logs/container_log_manager.go` takes whatever begins with the path.
    pub fn includes(&self, entry: &str) -> bool {
        is_entry(entry)
            && entry.strip_prefix(&self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// C8, `removeContainerLog` in `kuberuntime_container.go`: where a container's log is. What the
/// runtime says must lead into the directory of the container's own pod. Otherwise nothing may be
/// removed there, and the container goes without its log. To the kubelet's glob, an empty path would
/// be every file of its working directory.
pub fn c8_log_file(path: &str, uid: &str, roots: &LogRoots) -> Option<LogFile> {
    if mutation::is(Mutation::TrustLogPath) && !path.is_empty() {
        let directories = vec!["..".to_owned()];
        return Some(LogFile { directories, name: path.to_owned() });
    }
    let below = path.strip_prefix(roots.pods.as_str())?.strip_prefix('/')?;
    let mut parts: Vec<String> = below.split('/').map(str::to_owned).collect();
    let is_beneath = path.len() <= 4096 && parts.iter().all(|part| is_entry(part));
    let name = parts.pop()?;
    let is_of_pod = parse_directory(parts.first()?).uid == uid;
    (is_beneath && is_of_pod).then_some(LogFile { directories: parts, name })
}

/// C8, `legacyLogSymlink` in `kuberuntime/legacy.go`: the name of the symlink to a container's log.
/// Nothing, if labels are such that it would be no name in that directory.
pub fn c8_symlink(container: &Container) -> Option<String> {
    /// The longest name of a file.
    const LONGEST: usize = 255;
    const SUFFIX: &str = ".log";
    let Container { pod_name, pod_namespace, name, id, .. } = container;
    let mut name = format!("{pod_name}_{pod_namespace}_{name}-{id}");
    let longest = LONGEST - SUFFIX.len();
    let end = (0..=longest.min(name.len())).rev().find(|&end| name.is_char_boundary(end)).unwrap_or_default();
    name.truncate(end);
    Some(name + SUFFIX).filter(|name| is_entry(name))
}

/// L1, `evictPodLogsDirectories` in `kuberuntime_gc.go`: the log directories of pods that are gone.
/// Decides about every directory, in the order of the view.
pub fn l1(
    runtime: &RuntimeView,
    pods: &Pods<'_>,
    files: &Files,
    rules: &Rules,
    clock: Clock,
) -> Vec<Decision> {
    let used = running_pods(runtime);
    let decide = |directory| l1_one(directory, pods, rules, clock, &used);
    files.log_directories.iter().map(decide).collect()
}

/// The uids of the pods of which something is running.
fn running_pods(runtime: &RuntimeView) -> HashSet<&str> {
    let running = runtime
        .containers
        .iter()
        .filter(|container| matches!(container.state, ContainerState::Running | ContainerState::Unknown));
    let ready = runtime.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
    let mut used: HashSet<&str> = running.clone().map(|container| container.pod_uid.as_str()).collect();
    used.extend(ready.map(|sandbox| sandbox.uid.as_str()));
    // A container without a label may belong to any sandbox's pod.
    let sandboxes: HashMap<&str, &str> =
        runtime.sandboxes.iter().map(|sandbox| (sandbox.id.as_str(), sandbox.uid.as_str())).collect();
    used.extend(running.filter_map(|container| sandboxes.get(container.sandbox_id.as_str())));
    used
}

fn l1_one(
    directory: &LogDirectory,
    pods: &Pods<'_>,
    rules: &Rules,
    clock: Clock,
    used: &HashSet<&str>,
) -> Decision {
    if !is_entry(&directory.name) || !directory.is_directory {
        return Decision::keep(Rule::Safety5, "it is not a directory");
    }
    let uid = parse_directory(&directory.name).uid;
    let why = match pods.state(uid) {
        PodState::Gone(why) => why,
        PodState::Active | PodState::Terminated => return Decision::keep(Rule::L1, "its pod exists"),
        PodState::Unknown(why) => return Decision::keep(Rule::Safety2, why.to_string()),
    };
    if used.contains(uid) {
        return Decision::keep(Rule::Safety1, "something of its pod is still running");
    }
    let grace = rules.created_grace;
    if !grace.is_zero() && !clock.is_past(directory.modified, grace) {
        return Decision::keep(Rule::L1, format!("it has changed in the last {}", words(grace)));
    }
    Decision::remove(Rule::L1, why.to_string())
}

/// What this plan removes before it comes to the symlinks.
#[derive(Debug)]
pub struct Before<'a> {
    /// The places of the containers in the plan, by the names of their symlinks.
    pub containers: HashMap<String, u32>,
    /// The names of the log directories.
    pub directories: HashSet<&'a str>,
}

/// L2, `evictPodLogsDirectories` in `kuberuntime_gc.go`: symlinks that lead nowhere, or will when
/// their log directory has gone. Rotation makes a symlink lead nowhere for a moment, so one of a
/// container that has not exited stays. Decides about every symlink, in the order of the view.
pub fn l2(runtime: &RuntimeView, files: &Files, rules: &Rules, before: &Before<'_>) -> Vec<Decision> {
    let decisions = files.log_symlinks.iter().map(|symlink| {
        if before.containers.contains_key(&symlink.name) {
            if symlink.state == SymlinkState::NotASymlink {
                return Decision::keep(Rule::Safety5, "it is not a symlink");
            }
            return Decision::remove(Rule::C8, "it goes before its container");
        }
        l2_one(symlink, runtime, rules, before)
    });
    decisions.collect()
}

fn l2_one(symlink: &LogSymlink, runtime: &RuntimeView, rules: &Rules, before: &Before<'_>) -> Decision {
    if !is_entry(&symlink.name) || !symlink.name.ends_with(".log") {
        return Decision::keep(Rule::L2, "its name is not that of a log");
    }
    let reason = match symlink.state {
        SymlinkState::NotASymlink => return Decision::keep(Rule::Safety5, "it is not a symlink"),
        SymlinkState::Unknown => return Decision::keep(Rule::L2, "it is not known where it leads"),
        SymlinkState::Dangling => "it leads nowhere",
        SymlinkState::Leads if leads_into(&symlink.target, rules, before) => "its log directory goes",
        SymlinkState::Leads => return Decision::keep(Rule::L2, "it leads to a log"),
    };
    if let Some(id) = l2_container_id(&symlink.name) {
        let lives =
            |container: &Container| container.id.starts_with(id) && container.state != ContainerState::Exited;
        if runtime.containers.iter().any(lives) {
            return Decision::keep(Rule::L2, "its container has not exited; its log may be rotated just now");
        }
    }
    Decision::remove(Rule::L2, reason)
}

/// Whether a symlink leads into a directory that goes.
fn leads_into(target: &str, rules: &Rules, before: &Before<'_>) -> bool {
    let below = target.strip_prefix(rules.roots.pods.as_str()).and_then(|rest| rest.strip_prefix('/'));
    let directory = below.and_then(|below| below.split_once('/')).map(|(directory, _)| directory);
    directory.is_some_and(|directory| before.directories.contains(directory))
}

/// `getContainerIDFromLegacyLogSymlink` in `kuberuntime/legacy.go`: what follows the last hyphen. A
/// runtime finds a container by the beginning of its id, if that has at least six characters.
pub fn l2_container_id(symlink: &str) -> Option<&str> {
    let (_, id) = symlink.strip_suffix(".log")?.rsplit_once('-')?;
    (id.len() >= 6).then_some(id)
}

#[cfg(test)]
mod tests;
