use std::fs;
use std::os::unix::fs::symlink;

use kube_gc_node::logs::c8_log_file;

use super::*;

const UID: &str = "0b7b9c1e-3a52-4a44-9d8e-0d5b1a3a8f10";

struct Node {
    directory: tempfile::TempDir,
    logs: Logs,
    roots: LogRoots,
}

fn node() -> Node {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let roots = LogRoots { pods: at("pods"), containers: at("containers") };
    fs::create_dir(&roots.pods).unwrap();
    fs::create_dir(&roots.containers).unwrap();
    Node { logs: Logs::new(roots.clone(), false), directory, roots }
}

impl Node {
    fn pod(&self) -> String {
        format!("{}/default_web_{UID}", self.roots.pods)
    }

    fn link(&self, name: &str, target: &str) {
        symlink(target, format!("{}/{name}", self.roots.containers)).unwrap();
    }

    fn state(&self, name: &str, in_pod: bool) -> SymlinkState {
        let logs = Logs::new(self.roots.clone(), in_pod);
        let found = logs.symlinks(Some(name)).unwrap().items.pop();
        found.map_or(SymlinkState::NotASymlink, |symlink| symlink.state)
    }
}

#[test]
fn directories_are_listed_with_their_sizes_and_a_symlink_is_none() {
    let node = node();
    fs::create_dir_all(format!("{}/web", node.pod())).unwrap();
    fs::write(format!("{}/web/0.log", node.pod()), vec![b'x'; 1000]).unwrap();
    symlink("/etc", format!("{}/link", node.roots.pods)).unwrap();
    let mut seen = node.logs.directories(None).unwrap().items;
    seen.sort_by(|a, b| a.name.cmp(&b.name));
    let found: Vec<_> = seen.iter().map(|d| (d.name.as_str(), d.is_directory, d.bytes >= 1000)).collect();
    assert_eq!(found, [(&*format!("default_web_{UID}"), true, true), ("link", false, false)]);
    assert!(seen[0].modified.is_known());
    let only = |name| node.logs.directories(Some(name)).unwrap().items.pop();
    assert!(only("link").is_some_and(|d| !d.is_directory));
    assert!(only("../containers").is_none() && only("none").is_none());
}

#[test]
fn a_missing_directory_is_empty_and_said_so() {
    let node = node();
    fs::remove_dir(&node.roots.pods).unwrap();
    let seen = node.logs.directories(None).unwrap();
    assert!(seen.items.is_empty());
    assert!(seen.problem.unwrap().contains(&node.roots.pods));
    node.logs.remove_directory("x").unwrap();
}

#[test]
fn safety_5_a_symlink_in_a_log_directory_goes_and_what_it_leads_to_stays() {
    let node = node();
    let outside = node.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "").unwrap();
    fs::create_dir_all(format!("{}/web/deep/deeper", node.pod())).unwrap();
    symlink(&outside, format!("{}/web/link", node.pod())).unwrap();
    symlink(outside.join("precious"), format!("{}/web/0.log", node.pod())).unwrap();
    node.logs.remove_directory(&format!("default_web_{UID}")).unwrap();
    assert!(!fs::exists(node.pod()).unwrap());
    assert!(outside.join("precious").exists());
}

#[test]
fn safety_5_a_log_directory_that_is_a_symlink_is_not_followed() {
    let node = node();
    let outside = node.directory.path().join("outside");
    fs::create_dir_all(outside.join("web")).unwrap();
    fs::write(outside.join("web/0.log"), "").unwrap();
    symlink(&outside, node.pod()).unwrap();
    assert!(node.logs.remove_directory(&format!("default_web_{UID}")).is_err());
    let path = format!("{}/web/0.log", node.pod());
    let log = c8_log_file(&path, UID, &node.roots).unwrap();
    assert!(node.logs.remove_log(&log).is_err());
    assert!(outside.join("web/0.log").exists());
}

#[test]
fn safety_5_names_that_lead_out_remove_nothing() {
    let node = node();
    for name in ["..", ".", "", "../containers", "a/b"] {
        assert!(node.logs.remove_directory(name).is_err(), "{name:?}");
    }
    assert!(fs::exists(&node.roots.containers).unwrap());
}

#[test]
fn c8_a_log_goes_with_its_rotated_parts_and_others_stay() {
    let node = node();
    let directory = format!("{}/web", node.pod());
    fs::create_dir_all(&directory).unwrap();
    let all = ["0.log", "0.log.20240102-030405", "0.log.20240102-030405.gz", "0.log2", "1.log", "10.log"];
    for name in all {
        fs::write(format!("{directory}/{name}"), "").unwrap();
    }
    let log = c8_log_file(&format!("{directory}/0.log"), UID, &node.roots).unwrap();
    node.logs.remove_log(&log).unwrap();
    let mut left: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["0.log2", "1.log", "10.log"]);
    node.logs.remove_log(&log).unwrap();
}

#[test]
fn where_symlinks_lead_is_seen() {
    let node = node();
    let log = format!("{}/0.log", node.roots.pods);
    fs::write(&log, "").unwrap();
    node.link("leads.log", &log);
    node.link("dangling.log", &format!("{}/none/0.log", node.roots.pods));
    node.link("loop.log", "loop.log");
    fs::write(format!("{}/file.log", node.roots.containers), "").unwrap();
    for in_pod in [false, true] {
        assert_eq!(node.state("leads.log", in_pod), SymlinkState::Leads);
        assert_eq!(node.state("dangling.log", in_pod), SymlinkState::Dangling);
        assert_eq!(node.state("loop.log", in_pod), SymlinkState::Unknown);
        assert_eq!(node.state("file.log", in_pod), SymlinkState::NotASymlink);
    }
    let all = node.logs.symlinks(None).unwrap();
    assert_eq!((all.items.len(), all.problem), (4, None));
}

#[test]
fn in_a_pod_a_log_that_is_kept_outside_of_the_mounts_is_not_taken_for_missing() {
    let node = node();
    let log = format!("{}/0.log", node.roots.pods);
    symlink("/var/lib/docker/containers/not/mounted.log", &log).unwrap();
    node.link("docker.log", &log);
    node.link("elsewhere.log", "/not/mounted/either.log");
    assert_eq!(node.state("docker.log", true), SymlinkState::Unknown);
    assert_eq!(node.state("elsewhere.log", true), SymlinkState::Unknown);
    assert_eq!(node.state("docker.log", false), SymlinkState::Dangling);
}

#[test]
fn safety_5_only_symlinks_go() {
    let node = node();
    let logs = &node.logs;
    fs::write(format!("{}/file.log", node.roots.containers), "").unwrap();
    node.link("link.log", "/nowhere");
    assert!(logs.remove_symlink("file.log").unwrap_err().contains("not a symlink"));
    logs.remove_symlink("link.log").unwrap();
    logs.remove_symlink("link.log").unwrap();
    for name in ["..", "", "../pods", "a/b"] {
        let _ = logs.remove_symlink(name);
    }
    assert!(fs::exists(&node.roots.pods).unwrap());
    assert!(fs::exists(format!("{}/file.log", node.roots.containers)).unwrap());
}

#[test]
fn directories_that_are_too_deep_stay_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let deep = "d/".repeat(DEEPEST + 3);
    fs::create_dir_all(directory.path().join("pod").join(&deep)).unwrap();
    let parent = root(directory.path().to_str().unwrap()).unwrap().unwrap();
    let error = remove_tree(&parent, "pod", DEEPEST).unwrap_err().to_string();
    assert!(error.contains("too deep"), "{error}");
    assert_eq!(size(&parent, "none"), 0);
}

#[test]
fn a_sparse_file_counts_what_it_takes() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("pod")).unwrap();
    let file = fs::File::create(directory.path().join("pod/0.log")).unwrap();
    file.set_len(1 << 40).unwrap();
    let parent = root(directory.path().to_str().unwrap()).unwrap().unwrap();
    assert!(size(&parent, "pod") < 1 << 20);
}
