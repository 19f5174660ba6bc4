use std::time::Duration;

use super::*;
use crate::PodView;
use crate::testing::{NOW, container, listed, log_directory, pod, proof, sandbox, symlink, uid};
use crate::view::{Answer, Extent};

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
    assert!(c8_log_file("/var/log/pods/u1/app_0.log", "u1", &roots()).is_ok());
}

#[test]
fn c8_no_other_path_is_touched() {
    for (path, expected) in [
        ("", BadPath::Empty),
        ("*", BadPath::Outside),
        ("/etc/passwd", BadPath::Outside),
        ("/var/log/pods", BadPath::Outside),
        ("/var/log/pods/", BadPath::Outside),
        ("/var/log/pods/ns_web_u1", BadPath::Outside),
        ("/var/log/pods/ns_web_u1/", BadPath::Outside),
        ("/var/log/pods/ns_web_u1/../../../../etc/passwd", BadPath::Outside),
        ("/var/log/pods/./0.log", BadPath::Outside),
        ("/var/log/pods//ns_web_u1/0.log", BadPath::Outside),
        ("/var/log/podsx/ns_web_u1/0.log", BadPath::Outside),
        ("var/log/pods/ns_web_u1/0.log", BadPath::Outside),
        ("/var/log/pods/ns_web_u1/a\0b", BadPath::Outside),
        ("/var/log/pods/ns_web_u2/app/0.log", BadPath::OtherPod),
    ] {
        assert_eq!(c8_log_file(path, "u1", &roots()), Err(expected), "{path:?}");
    }
    let long = format!("/var/log/pods/ns_web_u1/{}/0.log", "a/".repeat(4096));
    assert_eq!(c8_log_file(&long, "u1", &roots()), Err(BadPath::Outside));
}

#[test]
fn c8_rotated_logs_go_with_theirs_and_no_others() {
    let file = c8_log_file("/var/log/pods/ns_web_u1/app/1.log", "u1", &roots()).unwrap();
    for name in ["1.log", "1.log.20240102-030405", "1.log.20240102-030405.gz"] {
        assert!(file.includes(name), "{name}");
    }
    for name in ["", ".", "..", "0.log", "10.log", "1.logs", "11.log", "1.log/x", "1.log.\0"] {
        assert!(!file.includes(name), "{name}");
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
    assert_eq!(parse_directory("ns_web_u1").named(), Some(("ns", "web", "u1")));
    assert_eq!(parse_directory("u1").uid(), "u1");
    assert_eq!(parse_directory("u1").named(), None);
    assert_eq!(parse_directory("a_b_c_d").named(), None);
    assert_eq!(parse_directory("a_b").named(), None);
    assert_eq!(parse_directory("").uid(), "");
}

fn l1_of(runtime: &RuntimeView, view: &PodView, directory: LogDirectory) -> Decision {
    let files = Files { log_directories: vec![directory], ..Files::default() };
    let pods = Pods::of(runtime, view, &files);
    l1(runtime, &pods, &files, &Rules::default(), NOW).remove(0)
}

#[test]
fn l1_the_directory_of_a_pod_that_is_gone_goes() {
    let gone = listed(vec![], vec![proof(1, Answer::NotFound)]);
    let runtime = RuntimeView::default();
    assert!(l1_of(&runtime, &gone, log_directory(1)).removes);
    assert!(!l1_of(&runtime, &listed(vec![pod(1)], vec![]), log_directory(1)).removes);
    assert!(!l1_of(&runtime, &listed(vec![], vec![]), log_directory(1)).removes);
    assert!(!l1_of(&runtime, &PodView::None, log_directory(1)).removes);
}

#[test]
fn l1_it_stays_while_something_runs_or_changes_or_may_be_missing() {
    let gone = listed(vec![], vec![proof(1, Answer::NotFound)]);
    let mut running = container("c", &uid(1), "web", "a");
    running.state = ContainerState::Running;
    let runtime = RuntimeView { containers: vec![running], ..RuntimeView::default() };
    assert_eq!(l1_of(&runtime, &gone, log_directory(1)).rule, Rule::Safety1);
    let ready = RuntimeView { sandboxes: vec![sandbox("s", &uid(1))], ..RuntimeView::default() };
    let known_elsewhere = listed(vec![], vec![proof(1, Answer::NotFound)]);
    assert!(!l1_of(&ready, &known_elsewhere, log_directory(1)).removes);
    let mut fresh = log_directory(1);
    fresh.modified = NOW.minus(Duration::from_secs(299));
    assert_eq!(l1_of(&RuntimeView::default(), &gone, fresh).rule, Rule::L1);
    let slice = RuntimeView { containers_extent: Extent::Slice, ..RuntimeView::default() };
    assert_eq!(l1_of(&slice, &gone, log_directory(1)).rule, Rule::B1);
}

#[test]
fn l1_only_directories_go() {
    let gone = listed(vec![], vec![proof(1, Answer::NotFound)]);
    let mut link = log_directory(1);
    link.is_directory = false;
    assert_eq!(l1_of(&RuntimeView::default(), &gone, link).rule, Rule::Safety5);
    let mut way_out = log_directory(1);
    way_out.name = format!("../{}", way_out.name);
    assert_eq!(l1_of(&RuntimeView::default(), &gone, way_out).rule, Rule::Safety5);
}

fn l2_of(runtime: &RuntimeView, link: LogSymlink) -> Decision {
    let files = Files { log_symlinks: vec![link], ..Files::default() };
    let before = Before { containers: HashMap::new(), directories: HashSet::from(["goes"]) };
    l2(runtime, &files, &Rules::default(), &before).remove(0)
}

#[test]
fn l2_a_symlink_that_leads_nowhere_goes_unless_its_container_has_not_exited() {
    let link = symlink("web_ns_app-0123456789ab.log", SymlinkState::Dangling);
    let mut runtime = RuntimeView::default();
    assert!(l2_of(&runtime, link.clone()).removes);
    runtime.containers.push(container("0123456789abcdef", &uid(1), "app", "a"));
    assert!(l2_of(&runtime, link.clone()).removes);
    for state in [ContainerState::Running, ContainerState::Created, ContainerState::Unknown] {
        runtime.containers[0].state = state;
        assert!(!l2_of(&runtime, link.clone()).removes, "{state:?}");
    }
    runtime.containers.clear();
    runtime.containers_extent = Extent::Slice;
    assert_eq!(l2_of(&runtime, link).rule, Rule::B1);
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

#[test]
fn l2_a_symlink_into_a_directory_that_goes_goes_after_it() {
    let mut link = symlink("a-0123456789ab.log", SymlinkState::Leads);
    link.target = "/var/log/pods/goes/app/0.log".to_owned();
    assert!(l2_of(&RuntimeView::default(), link.clone()).removes);
    link.target = "/var/log/pods/stays/app/0.log".to_owned();
    assert!(!l2_of(&RuntimeView::default(), link).removes);
}

#[test]
fn l2_ids_are_what_follows_the_last_hyphen() {
    assert_eq!(l2_container_id("web-0_ns_app-0123456.log"), Some("0123456"));
    assert_eq!(l2_container_id("web-0_ns_app-01234.log"), None);
    assert_eq!(l2_container_id("web"), None);
}
