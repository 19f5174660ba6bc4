//! A plan is what a pass then does.

use kube_gc_node::Moment;

use std::sync::Mutex;

use super::actor::Running;
use super::*;

#[tokio::test]
async fn a_plan_says_exactly_what_a_pass_then_does() {
    let mut node = Node::set_up();
    let living = node.pod().await;
    let of_living = node.containers(&living, 4, ContainerState::ContainerRunning);
    let gone = node.gone_pod();
    let of_gone = node.containers(&gone, 3, ContainerState::ContainerExited);
    let images = node.images(18, 50);
    fs::create_dir_all(format!(
        "{}/default_old_{}",
        node.rules.roots.pods, "ffffffff-0000-4000-8000-000000000000"
    ))
    .unwrap();

    let look = node.look().await;
    let before = (node.container_ids(), node.image_ids(), node.sandbox_ids());
    assert_eq!(look.notes, []);
    assert!(node.changes().is_empty());
    let (again, carried) = node.pass().await;
    assert_eq!(planned(&look), planned(&again));
    assert_eq!(removed(&carried), planned(&look));
    assert_eq!((carried.failed, carried.refused), (0, 0));

    // C5: of the living pod, the running one and the newest dead one stay. C3: of the gone pod, nothing.
    assert_eq!(node.container_ids(), set(&of_living[2..]));
    assert!(before.0.is_superset(&set(&of_gone)));
    // S1, L1, C8.
    assert_eq!(node.sandbox_ids(), set(std::slice::from_ref(&living.sandbox)));
    let directories = node.logs().directories(None).unwrap().items;
    assert_eq!(directories.len(), 1);
    assert!(directories[0].name.ends_with(&living.uid));
    assert_eq!(node.logs().symlinks(None).unwrap().items.len(), 2);
    let mut logs: Vec<_> = fs::read_dir(format!("{}/web", node.log_directory(&living)))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    logs.sort();
    assert_eq!(logs, ["2.log", "3.log"]);
    // I4: 901 MiB of 1000 were used; 101 had to go.
    assert_eq!(node.image_ids(), {
        let mut left = set(&images[3..]);
        left.insert(node.image.clone());
        left
    });
    assert!(node.server.available() >= 200 * MIB);
}

/// No look comes between, and a restart does not change that: the state file lacks what has gone.
#[actix::test]
async fn i5_an_image_that_is_removed_and_pulled_again_is_young() {
    let mut node = Node::set_up();
    let handled = node
        .server
        .world(|world| world.add_image(NewImage { handler: "gvisor".to_owned(), ..image("handled", 50) }));
    node.ledger.set(&format!("{handled},gvisor"), Age { detected: HOUR, used: None });
    let images = [node.images(1, 50).remove(0), handled];
    node.rules.all = true;
    node.rules.images.min_age = Duration::from_secs(60);
    let all = node.server.world(|world| world.clone());
    let mut collector = node.collector().await;
    for expected in [2, 0] {
        let look = collector.look(now()).await.unwrap();
        let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
        assert_eq!(carried.removed, expected);
        if expected == 0 {
            assert!(images.iter().all(|id| rule(&look, What::Image, id) == "I5"));
        }
        node.server.world(|world| *world = all.clone());
    }
    // To it, they are old.
    for file in fs::read_dir(node.directory.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let _ = fs::remove_file(file);
    }
    let mut running = Running::start(&node).await;
    running.until(|status| status.report.is_some()).await;
    running.stop().await;
    let (ledger, _) = node.options().state.read();
    assert!(ledger.age(&node.image).is_some() && ledger.age(&images[0]).is_none());
}

/// A process that is killed then tells the next one nothing of an image that somebody pulls again.
#[tokio::test]
async fn i5_the_state_file_lacks_each_image_before_its_removal() {
    let mut node = Node::set_up();
    let images = node.images(3, 50);
    node.rules.free = Some(90);
    let (state, ids) = (node.options().state, images.clone());
    let known = move || ids.iter().filter(|id| state.clone().read().0.age(id).is_some()).count();
    let then = Arc::new(Mutex::new(Vec::new()));
    let (each, count) = (Arc::clone(&then), known.clone());
    // What could not be removed keeps its age.
    let fail = server::Effect::Fail(server::Code::Unknown, "device busy".to_owned());
    node.server.fault(server::Fault::about(Rpc::RemoveImage, &images[1], fail));
    let mut collector = node.collector().await;
    let look = collector.look(now()).await.unwrap();
    collector.save();
    assert_eq!(known(), 3);
    // Nothing slow may come between the last look at them and the removal.
    let at_look = server::Effect::before(move |_, _| each.lock().unwrap().push(count()));
    node.server.fault(server::Fault::every(Rpc::ListContainers, at_look));
    collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!(*then.lock().unwrap(), [2, 1, 1]);
    collector.save();
    assert_eq!(known(), 1);
}

/// Whatever it goes for. Nothing is asked that need not be.
#[tokio::test]
async fn b2_each_image_has_a_look_of_its_own_right_before_its_removal_and_a_list_after_it() {
    use Rpc::{
        ImageStatus, ListContainers, ListImages, ListNamespaceContainers, ListNamespaces, ListPodSandbox,
        RemoveImage,
    };
    for is_all in [false, true] {
        let mut node = Node::set_up();
        node.images(3, 50);
        node.rules.images.max_age = (!is_all).then_some(HOUR / 2);
        node.rules.all = is_all;
        let mut collector = node.collector().await;
        let look = collector.look(now()).await.unwrap();
        node.server.clear_journal();
        let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
        assert_eq!(carried.removed, if is_all { 4 } else { 3 });
        let users = [ListPodSandbox, ListContainers, ListNamespaces, ListNamespaceContainers];
        let each = [&users[..], &[ImageStatus, RemoveImage, ListImages]].concat();
        let calls: Vec<Rpc> = node.server.journal().iter().map(|entry| entry.rpc).collect();
        assert_eq!(calls, each.repeat(carried.removed));
    }
}

/// A running container with an image as a volume.
fn mount(node: &Node, pod: &OnNode, image: &str) -> String {
    let new = node.new_container(pod, ContainerState::ContainerRunning);
    let new = NewContainer { image_volumes: vec![image.to_owned()], ..new };
    node.server.world(|world| world.add_container(new))
}

/// It is asked once, and only if its pod may have image volumes.
#[tokio::test]
async fn i1_an_image_that_a_container_mounts_stays() {
    for knows_pods in [false, true] {
        let mut node = Node::set_up();
        node.knows_pods = knows_pods;
        let (plain, mounting) = (node.pod().await, node.pod_that_mounts("registry.example/moved:1").await);
        node.containers(&plain, 1, ContainerState::ContainerRunning);
        let images = node.images(18, 50);
        let id = mount(&node, &mounting, &images[0]);
        node.upgrade();
        let mut collector = node.collector().await;
        // By now the name in the spec may be that of another image.
        let look = collector.look(now()).await.unwrap();
        assert_eq!(rule(&look, What::Image, &images[0]), "I1");
        let asked = node.server.calls(Rpc::ContainerStatus);
        assert!(asked.contains(&id) && asked.len() == if knows_pods { 1 } else { 2 }, "{asked:?}");
        node.server.clear_journal();
        let again = collector.look(now()).await.unwrap();
        assert_eq!(planned(&look), planned(&again));
        let calls: BTreeSet<Rpc> = node.server.journal().iter().map(|entry| entry.rpc).collect();
        assert_eq!((calls.len(), node.server.journal().len()), (6, 6), "{calls:?}");
        let carried = collector.carry_out(&again, Scope::All, &CancellationToken::new()).await.unwrap();
        assert_eq!(node.server.calls(Rpc::ContainerStatus), [""; 0]);
        assert!(node.image_ids().contains(&images[0]));
        assert_eq!(carried.removed, 3);
    }
}

#[tokio::test]
async fn i1_an_image_that_a_container_mounts_after_an_upgrade_in_place_stays() {
    let mut node = Node::set_up();
    node.knows_pods = false;
    let images = node.images(18, 50);
    let pod = node.sandbox("aaaaaaaa-0000-4000-8000-000000000000", false);
    let mut collector = node.collector().await;
    collector.look(now()).await.unwrap();
    node.upgrade();
    mount(&node, &pod, &images[0]);
    // Until the end of the connection has been noticed.
    let look = loop {
        if let Ok(look) = collector.look(now()).await {
            break look;
        }
    };
    assert_eq!(rule(&look, What::Image, &images[0]), "I1");
    assert!(planned(&look).contains(&(What::Image, images[1].clone())));
}

/// Lists over CRI lack the container.
#[tokio::test]
async fn i1_an_image_of_a_container_that_was_not_made_over_cri_stays() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    node.server.world(|world| world.foreign = vec!["registry.example/i000:1".to_owned()]);
    let (look, _) = node.pass().await;
    assert_eq!(rule(&look, What::Image, &images[0]), "I1");
    assert!(node.image_ids().contains(&images[0]) && !node.image_ids().contains(&images[1]));
    node.rules.free = Some(50);
    // If the runtime does not answer, no image goes. Where it cannot be asked, a note says so.
    for (code, stays) in [(server::Code::Unavailable, true), (server::Code::Unimplemented, false)] {
        let fail = server::Effect::Fail(code, "made by the test".to_owned());
        node.server.fault(server::Fault::every(Rpc::ListNamespaces, fail));
        let look = node.look().await;
        assert_eq!(planned(&look).is_empty(), stays, "{:?}", look.notes);
        let said = if stays { "images stay" } else { "CRI does not list" };
        assert!(look.notes[0].text.contains(said), "{:?}", look.notes);
        node.server.clear_faults();
    }
    // Nor if it answers no more by the time of the removal.
    let fail = server::Effect::Fail(server::Code::Unavailable, "made by the test".to_owned());
    node.server.fault(server::Fault::nth(Rpc::ListNamespaces, 2, fail));
    let (look, carried) = node.pass().await;
    assert!(!planned(&look).is_empty() && removed(&carried).is_empty());
}

/// containerd lists it, too.
#[tokio::test]
async fn i1_a_container_that_goes_before_uses_its_image_no_longer() {
    let mut node = Node::set_up();
    node.pod().await;
    let images = node.images(1, 50);
    let gone = node.gone_pod();
    let id = node.container(&gone, 0, ContainerState::ContainerExited, &images[0]);
    node.rules.all = true;
    let (_, carried) = node.pass().await;
    let gone = removed(&carried);
    assert!(gone.contains(&(What::Container, id)) && gone.contains(&(What::Image, images[0].clone())));
}

/// No image may go meanwhile. After the last use, each of them has all its time again.
#[tokio::test]
async fn b8_uses_that_are_not_over_cri_and_image_volumes_make_images_young_again() {
    let mut node = Node::set_up();
    node.knows_pods = false;
    let images = node.images(2, 50);
    let pod = node.sandbox("aaaaaaaa-0000-4000-8000-000000000000", false);
    let id = mount(&node, &pod, &images[0]);
    node.server.world(|world| world.foreign = vec!["registry.example/i001:1".to_owned()]);
    node.upgrade();
    let mut collector = node.collector().await;
    let start = now();
    let at = |minutes: u32| Moment { uptime: start.uptime + minutes * HOUR / 60, ..start.clone() };
    for minutes in [0, 50] {
        let look = collector.look(at(minutes)).await.unwrap();
        assert!(images.iter().all(|id| rule(&look, What::Image, id) == "I1"));
    }
    node.rules.images.max_age = Some(2 * HOUR);
    collector.rules.clone_from(&node.rules);
    node.server.world(|world| {
        world.foreign.clear();
        world.remove_container(&id);
    });
    for (minutes, expected) in [(70, 0), (180, 2)] {
        let look = collector.look(at(minutes)).await.unwrap();
        let due = planned(&look).into_iter().filter(|(what, id)| *what == What::Image && images.contains(id));
        assert_eq!(due.count(), expected, "after {minutes} minutes");
    }
}

/// With runtime handlers, an id alone could be the image of another one.
#[tokio::test]
async fn an_image_of_a_runtime_handler_is_removed_by_its_name() {
    let mut node = Node::set_up();
    let handled = NewImage { handler: "gvisor".to_owned(), ..image("handled", 50) };
    let id = node.server.world(|world| world.add_image(handled));
    node.ledger.set(&format!("{id},gvisor"), Age { detected: 2 * HOUR, used: None });
    node.images(17, 50);
    let (_, carried) = node.pass().await;
    assert_eq!(removed(&carried)[0], (What::Image, id.clone()));
    assert!(!node.image_ids().contains(&id));
}
