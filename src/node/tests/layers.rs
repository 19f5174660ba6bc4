//! How much dead containers have written.

use super::*;

/// A dead container that has written so much.
fn dead(node: &Node, pod: &OnNode, attempt: u32, mib: u64) -> String {
    let new = NewContainer {
        sandbox: pod.sandbox.clone(),
        name: "web".to_owned(),
        attempt,
        image: node.image.clone(),
        state: ContainerState::ContainerExited,
        created_at: nanos(HOUR) + i64::from(attempt),
        image_volumes: Vec::new(),
        log_path: String::new(),
        written: Space { bytes: mib * MIB, inodes: 1 },
    };
    node.server.world(|world| world.add_container(new))
}

fn bytes(look: &Look, id: &str) -> Option<u64> {
    look.plan.entry(What::Container, id).unwrap().bytes
}

#[tokio::test]
async fn b9_a_plan_has_what_dead_containers_have_written_and_each_is_asked_for_once() {
    let mut node = Node::new();
    let living = node.pod().await;
    let (first, second) = (dead(&node, &living, 0, 30), dead(&node, &living, 1, 4));
    let running = node.container(&living, 2, ContainerState::ContainerRunning, &node.image);
    let mut collector = node.collector().await;
    let look = collector.look(now()).await.unwrap();
    assert_eq!((bytes(&look, &first), bytes(&look, &second)), (Some(30 * MIB), Some(4 * MIB)));
    assert_eq!(bytes(&look, &running), None);
    assert_eq!((look.plan.breakdown.dead_containers, look.plan.breakdown.other), (34 * MIB, 0));
    collector.look(now()).await.unwrap();
    assert_eq!(node.server.calls(Rpc::ListContainerStats).len(), 1);
    let third = dead(&node, &living, 3, 5);
    let look = collector.look(now()).await.unwrap();
    assert_eq!((bytes(&look, &first), bytes(&look, &third)), (Some(30 * MIB), Some(5 * MIB)));
    assert_eq!(node.server.calls(Rpc::ListContainerStats).len(), 2);
}

/// What containers free counts, so fewer images are planned.
#[tokio::test]
async fn b3_what_dead_containers_have_written_is_freed_before_images() {
    let mut node = Node::new();
    let gone = node.gone_pod();
    dead(&node, &gone, 0, 100);
    node.images(16, 50);
    // 901 MiB are used, and 101 have to go: the container's 100 and one image.
    let (look, carried) = node.pass().await;
    let images = planned(&look).into_iter().filter(|(what, _)| *what == What::Image).count();
    assert_eq!(images, 1);
    assert_eq!(removed(&carried), planned(&look));
    assert!(node.server.disk_usage().available >= 200 * MIB);
}

#[tokio::test]
async fn a_runtime_that_does_not_tell_sizes_is_asked_once_and_containers_go_all_the_same() {
    let mut node = Node::new();
    let gone = node.gone_pod();
    let id = dead(&node, &gone, 0, 30);
    let fail = server::Effect::Fail(server::Code::Unimplemented, "no such call".to_owned());
    node.server.fault(server::Fault::every(Rpc::ListContainerStats, fail));
    let mut collector = node.collector().await;
    let look = collector.look(now()).await.unwrap();
    assert!(look.notes.iter().any(|note| note.contains("have written")), "{:?}", look.notes);
    assert_eq!((bytes(&look, &id), rule(&look, What::Container, &id).as_str()), (None, "C3"));
    collector.look(now()).await.unwrap();
    assert_eq!(node.server.calls(Rpc::ListContainerStats).len(), 1);
    collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!(node.container_ids().len(), 0);
}

/// A list of sizes would be too long as well.
#[tokio::test]
async fn sizes_are_not_asked_for_where_containers_come_in_slices() {
    let mut node = Node::with(server::Settings { message_limit: 5_000, ..server::Settings::default() });
    let gone = node.gone_pod();
    node.containers(&gone, 20, ContainerState::ContainerExited);
    let look = node.look().await;
    assert!(look.notes.iter().any(|note| note.contains("B1")), "{:?}", look.notes);
    assert_eq!(node.server.calls(Rpc::ListContainerStats), [""; 0]);
}
