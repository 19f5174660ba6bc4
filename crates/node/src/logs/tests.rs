use std::time::Duration;

use super::*;
use crate::PodView;
use crate::testing::{NOW, confirmed, container, log_directory, proof, sandbox, symlink, uid};
use crate::view::Answer;

fn roots() -> LogRoots {
    Rules::default().roots
}

#[test]
fn c8_a_log_is_in_the_directory_of_its_pod() {
    let file = c8_log_file("/var/log/pods/ns_web_u1/app/0.log", "u1", &roots()).unwrap();
    assert_eq!(
        (file.directories.as_slice(), &*file.name),
        (&["ns_web_u1".to_owned(), "app".to_owned()][..], "0.log")
    );
    assert!(c8_log_file("/var/log/pods/u1/app_0.log", "u1", &roots()).is_some());
}

#[test]
fn c8_no_other_path_is_touched() {
    for path in [
        "",
        "*",
        "/etc/passwd",
        "/var/log/pods",
        "/var/log/pods/",
        "/var/log/pods/ns_web_u1",
        "/var/log/pods/ns_web_u1/",
        "/var/log/pods/ns_web_u1/../../../../etc/passwd",
        "/var/log/pods/./0.log",
        "/var/log/pods//ns_web_u1/0.log",
        "/var/log/podsx/ns_web_u1/0.log",
        "var/log/pods/ns_web_u1/0.log",
        "/var/log/pods/ns_web_u1/a\0b",
        "/var/log/pods/ns_web_u2/app/0.log",
        &format!("/var/log/pods/ns_web_u1/{}/0.log", "a/".repeat(4096)),
    ] {
        assert_eq!(c8_log_file(path, "u1", &roots()), None, "{path:?}");
    }
}

#[test]
fn c8_the_legacy_symlink_has_pod_namespace_container_and_id() {
    let mut web = container("0123456789", "u1", "app", "a");
    web.pod_name = "web-0".to_owned();
    web.pod_namespace = "shop".to_owned();
    assert_eq!(c8_symlink(&web).unwrap(), "web-0_shop_app-0123456789.log");
    web.pod_name = "ä".repeat(300);
    let long = c8_symlink(&web).unwrap();
    assert!(long.len() <= 255 && long.ends_with(".log"));
    for odd in ["../../etc/x", "a\0"] {
        web.pod_name = odd.to_owned();
        assert_eq!(c8_symlink(&web), None);
    }
}

#[test]
fn l1_names_have_three_parts_or_only_a_uid() {
    assert_eq!(parse_directory("ns_web_u1").named, Some(("ns", "web", "u1")));
    assert_eq!(parse_directory("u1").uid, "u1");
    assert_eq!(parse_directory("u1").named, None);
    assert_eq!(parse_directory("a_b_c_d").named, None);
    assert_eq!(parse_directory("a_b").named, None);
    assert_eq!(parse_directory("").uid, "");
}

fn l1_of(runtime: &RuntimeView, view: &PodView, directory: LogDirectory) -> Decision {
    let files = Files { log_directories: vec![directory], ..Files::default() };
    let pods = Pods::of(runtime, view, &files);
    let clock = Clock { now: NOW, steady: Duration::MAX };
    l1(runtime, &pods, &files, &Rules::default(), clock).remove(0)
}

#[test]
fn l1_it_stays_while_something_runs_or_changes() {
    let mut runtime = RuntimeView::default();
    let gone = confirmed(&mut runtime, vec![proof(1, Answer::NotFound)]);
    let mut fresh = log_directory(1);
    fresh.modified = NOW.minus(Duration::from_secs(299));
    assert_eq!(l1_of(&runtime, &gone, fresh).rule, Rule::L1);
    let mut ready = runtime.clone();
    ready.sandboxes.push(sandbox("s", &uid(1)));
    assert!(!l1_of(&ready, &gone, log_directory(1)).removes);
    let mut running = container("c", &uid(1), "web", "a");
    running.state = ContainerState::Running;
    runtime.containers.push(running);
    assert_eq!(l1_of(&runtime, &gone, log_directory(1)).rule, Rule::Safety1);
}

#[test]
fn l1_only_directories_go() {
    let mut runtime = RuntimeView::default();
    let gone = confirmed(&mut runtime, vec![proof(1, Answer::NotFound)]);
    let mut link = log_directory(1);
    link.is_directory = false;
    assert_eq!(l1_of(&runtime, &gone, link).rule, Rule::Safety5);
    let mut way_out = log_directory(1);
    way_out.name = format!("../{}", way_out.name);
    assert_eq!(l1_of(&runtime, &gone, way_out).rule, Rule::Safety5);
}

fn l2_of(runtime: &RuntimeView, link: LogSymlink) -> Decision {
    let files = Files { log_symlinks: vec![link], ..Files::default() };
    let before = Before { containers: HashMap::new(), directories: HashSet::from(["goes"]) };
    l2(runtime, &files, &Rules::default(), &before).remove(0)
}

#[test]
fn l2_other_files_stay() {
    let runtime = RuntimeView::default();
    for (name, state) in [
        ("a-0123456789ab.log", SymlinkState::Leads),
        ("a-0123456789ab.log", SymlinkState::Unknown),
        ("a-0123456789ab.log", SymlinkState::NotASymlink),
        ("a-0123456789ab.txt", SymlinkState::Dangling),
        ("../a-0123456789ab.log", SymlinkState::Dangling),
    ] {
        assert!(!l2_of(&runtime, symlink(name, state)).removes, "{name} {state:?}");
    }
}
