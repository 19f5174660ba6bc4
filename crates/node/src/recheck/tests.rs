use super::*;
use crate::testing::{NOW, container, image, listed, log_directory, pod, sandbox, symlink, uid};
use crate::view::{Container, Image, LogDirectory, Pod};

/// What there is now; tests change it.
#[derive(Default)]
struct Now {
    runtime: RuntimeView,
    pods: PodView,
    files: Files,
}

impl Now {
    fn look(&self, candidate: &Candidate) -> Result<(), Refusal> {
        let Self { runtime, pods, files } = self;
        still_removable(candidate, &Fresh { runtime, pods, files })
    }
}

fn candidate(target: Target, rule: Rule) -> Candidate {
    Candidate { target, name: String::new(), rule, bytes: None }
}

fn of_container(container: &Container) -> Candidate {
    let target = Target::Container {
        id: container.id.clone(),
        name: container.name.clone(),
        uid: container.pod_uid.clone(),
        state: container.state,
        created_at: container.created_at,
        stop_first: false,
        symlink: None,
    };
    candidate(target, Rule::C3)
}

#[test]
fn a_container_must_be_what_it_was() {
    let dead = container("c", &uid(1), "web", "a");
    let planned = of_container(&dead);
    let mut now = Now::default();
    assert_eq!(now.look(&planned), Err(Refusal::AlreadyGone));
    now.runtime.containers = vec![dead.clone()];
    assert_eq!(now.look(&planned), Ok(()));
    now.runtime.containers[0].state = ContainerState::Running;
    assert_eq!(now.look(&planned), Err(Refusal::Active));
    now.runtime.containers[0].state = ContainerState::Unknown;
    assert_eq!(now.look(&planned), Err(Refusal::Changed));
    now.runtime.containers = vec![dead.clone()];
    now.runtime.containers[0].created_at = NOW;
    assert_eq!(now.look(&planned), Err(Refusal::Changed));
    now.runtime.containers = vec![dead.clone(), dead];
    assert_eq!(now.look(&planned), Err(Refusal::Changed));
}

#[test]
fn what_goes_because_its_pod_is_gone_stays_if_the_pod_is_there() {
    let dead = container("c", &uid(1), "web", "a");
    let mut planned = of_container(&dead);
    let runtime = RuntimeView { containers: vec![dead], ..RuntimeView::default() };
    let now = Now { runtime, pods: listed(vec![pod(1)], vec![]), ..Now::default() };
    assert_eq!(now.look(&planned), Err(Refusal::PodIsBack));
    planned.rule = Rule::C5;
    assert_eq!(now.look(&planned), Ok(()));
}

#[test]
fn a_sandbox_must_not_be_ready_and_have_no_containers() {
    let mut unready = sandbox("s", &uid(1));
    unready.state = SandboxState::NotReady;
    let target = Target::Sandbox { id: "s".to_owned(), uid: uid(1), created_at: unready.created_at };
    let planned = candidate(target, Rule::S1);
    let mut now = Now::default();
    assert_eq!(now.look(&planned), Err(Refusal::AlreadyGone));
    now.runtime.sandboxes = vec![unready];
    assert_eq!(now.look(&planned), Ok(()));
    let mut late = container("c", &uid(1), "web", "a");
    late.sandbox_id = "s".to_owned();
    now.runtime.containers = vec![late];
    assert_eq!(now.look(&planned), Err(Refusal::InUse));
    now.runtime.sandboxes[0].state = SandboxState::Ready;
    assert_eq!(now.look(&planned), Err(Refusal::Active));
    now.runtime.sandboxes[0].uid = uid(2);
    assert_eq!(now.look(&planned), Err(Refusal::Changed));
}

#[test]
fn an_image_must_still_be_unused_as_far_as_a_whole_list_tells() {
    let names = image("a").names().map(str::to_owned).collect();
    let target = Target::Image { id: "a".to_owned(), runtime_handler: None, names };
    let planned = candidate(target, Rule::I4);
    let mut now = Now::default();
    assert_eq!(now.look(&planned), Err(Refusal::AlreadyGone));
    now.runtime.images = vec![image("a")];
    assert_eq!(now.look(&planned), Ok(()));
    now.runtime.containers = vec![container("c", &uid(1), "web", "a")];
    assert_eq!(now.look(&planned), Err(Refusal::InUse));
    now.runtime.containers = vec![container("c", &uid(1), "web", "")];
    assert_eq!(now.look(&planned), Err(Refusal::Unknown));
    now.runtime.containers.clear();
    let mut starting = pod(1);
    starting.images = vec!["a".to_owned()];
    now.pods = listed(vec![starting], vec![]);
    assert_eq!(now.look(&planned), Err(Refusal::InUse));
    now.pods = PodView::None;
    now.runtime.containers_extent = Extent::Slice;
    assert_eq!(now.look(&planned), Err(Refusal::Unknown));
    now.runtime.containers_extent = Extent::Whole;
    now.runtime.images[0].pinned = true;
    assert_eq!(now.look(&planned), Err(Refusal::Changed));
    // By another name, somebody may use it or want to keep it.
    now.runtime.images = vec![image("a")];
    now.runtime.images[0].repo_tags.push("registry.example/kept:1".to_owned());
    assert_eq!(now.look(&planned), Err(Refusal::Changed));
    // The status of CRI-O may have none of the names that its list has.
    now.runtime.images = vec![Image { id: "a".to_owned(), ..Image::default() }];
    assert_eq!(now.look(&planned), Ok(()));
    now.pods = listed(vec![Pod { images: vec!["registry.example/a@sha256:a".to_owned()], ..pod(1) }], vec![]);
    assert_eq!(now.look(&planned), Err(Refusal::InUse));
}

#[test]
fn a_log_directory_must_be_one_and_nothing_of_its_pod_may_run() {
    let LogDirectory { name, .. } = log_directory(1);
    let planned = candidate(Target::LogDirectory { name, uid: uid(1) }, Rule::L1);
    let mut now = Now::default();
    assert_eq!(now.look(&planned), Err(Refusal::AlreadyGone));
    now.files.log_directories = vec![log_directory(1)];
    assert_eq!(now.look(&planned), Ok(()));
    now.runtime.sandboxes = vec![sandbox("s", &uid(1))];
    assert_eq!(now.look(&planned), Err(Refusal::Active));
    now.runtime.sandboxes_extent = Extent::Slice;
    assert_eq!(now.look(&planned), Err(Refusal::Unknown));
    now.files.log_directories[0].is_directory = false;
    assert_eq!(now.look(&planned), Err(Refusal::Changed));
}

#[test]
fn a_symlink_must_still_lead_nowhere() {
    let name = "web_default_app-0123456789.log";
    let planned = candidate(Target::LogSymlink { name: name.to_owned() }, Rule::L2);
    let mut now = Now::default();
    assert_eq!(now.look(&planned), Err(Refusal::AlreadyGone));
    now.files.log_symlinks = vec![symlink(name, SymlinkState::Dangling)];
    assert_eq!(now.look(&planned), Ok(()));
    let mut running = container("0123456789", &uid(1), "app", "a");
    running.state = ContainerState::Running;
    now.runtime.containers = vec![running];
    assert_eq!(now.look(&planned), Err(Refusal::Active));
    now.runtime.containers_extent = Extent::Slice;
    assert_eq!(now.look(&planned), Err(Refusal::Unknown));
    now.files.log_symlinks[0].state = SymlinkState::Leads;
    assert_eq!(now.look(&planned), Err(Refusal::Changed));
}
