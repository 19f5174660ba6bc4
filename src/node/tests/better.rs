//! B1 to B10: what is better than the kubelet's.

use kube_gc_node::Moment;
use wildmatch::WildMatch;

use super::*;

#[tokio::test]
async fn b1_dead_containers_of_gone_pods_go_although_no_list_fits_into_a_message() {
    let mut node = Node::with(server::Settings { message_limit: 20_000, ..server::Settings::default() });
    node.pod().await;
    for _ in 0..20 {
        let gone = node.gone_pod();
        node.containers(&gone, 20, ContainerState::ContainerExited);
    }
    let images = node.images(18, 50);
    node.rules.limits.containers = 150;
    let (look, carried) = node.pass().await;
    assert!(look.notes.iter().any(|note| note.text.contains("B1")), "{:?}", look.notes);
    // Images, sandboxes and logs wait.
    assert_eq!(carried.removed, 150);
    assert!(removed(&carried).iter().all(|(what, _)| *what == What::Container));
    assert_eq!(rule(&look, What::Image, &images[0]), "B1");
    // A list of sizes would be too long as well.
    assert_eq!(node.server.calls(Rpc::ListContainerStats), [""; 0]);
    for _ in 0..4 {
        node.pass().await;
    }
    assert_eq!((node.container_ids().len(), node.sandbox_ids().len()), (0, 1));
}

#[tokio::test]
async fn b2_the_image_of_a_pod_that_is_starting_stays() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let pods: kube::Api<Pod> = kube::Api::namespaced(node.api.client(), "default");
    let pod = json!({
        "metadata": { "name": "starting" },
        "spec": {
            "nodeName": NODE,
            "containers": [{ "name": "web", "image": "registry.example/i000:1" }],
            "volumes": [{ "name": "v", "image": { "reference": "registry.example/i001:1" } }],
        },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let (look, _) = node.pass().await;
    for image in &images[..2] {
        assert_eq!(rule(&look, What::Image, image), "B2");
        assert!(node.image_ids().contains(image));
    }
    assert!(!node.image_ids().contains(&images[2]));
}

#[tokio::test]
async fn b2_an_image_that_is_used_by_the_time_of_its_removal_stays() {
    // After the first list of containers, there is one before each image.
    for list in 2..=3 {
        let mut node = Node::set_up();
        let living = node.pod().await;
        let images = node.images(18, 50);
        let late = NewContainer {
            image: images[1].clone(),
            ..node.new_container(&living, ContainerState::ContainerCreated)
        };
        let create = server::Effect::before(move |world, _| {
            world.add_container(late.clone());
        });
        node.server.fault(server::Fault::nth(Rpc::ListContainers, list, create));
        let (look, carried) = node.pass().await;
        assert!(planned(&look).contains(&(What::Image, images[1].clone())));
        assert!(node.image_ids().contains(&images[1]), "list {list}");
        assert_eq!(carried.refused, 1);
        // Another one goes instead.
        assert!(node.server.available() >= 200 * MIB);
    }
}

/// By a name that the plan does not know, somebody may use it, or `keep` may name it.
#[tokio::test]
async fn b2_an_image_with_another_name_by_the_time_of_its_removal_stays() {
    // After the first list of images, there is one after each image. A container by the new name that is made right
    // after the list of containers is in no list.
    for (rpc, list, is_used) in [
        (Rpc::ListImages, 2, false),
        (Rpc::ImageStatus, 1, false),
        (Rpc::ImageStatus, 2, true),
        (Rpc::ListContainers, 3, true),
        (Rpc::ListNamespaceContainers, 3, true),
    ] {
        let mut node = Node::set_up();
        let images = node.images(18, 50);
        let id = images[1].clone();
        let tag = server::Effect::before(move |world, _| {
            world.add_tag(&id, "registry.example/other:1");
            world.foreign.extend(is_used.then(|| "registry.example/other:1".to_owned()));
        });
        node.server.fault(server::Fault::nth(rpc, list, tag));
        let (look, carried) = node.pass().await;
        assert!(planned(&look).contains(&(What::Image, images[1].clone())));
        assert!(node.image_ids().contains(&images[1]), "{rpc:?} {list}");
        assert_eq!(carried.refused, 1);
    }
}

#[tokio::test]
async fn b3_shared_layers_free_nothing_and_the_pass_goes_on_until_enough_is_free() {
    let mut node = Node::set_up();
    let shared = Layer { digest: "shared".to_owned(), bytes: 500 * MIB };
    let mut ids = Vec::new();
    for number in 0..4 {
        let mut new = image(&format!("s{number:03}"), 101);
        new.layers.push(shared.clone());
        ids.push(node.add_image(new));
    }
    // 905 MiB are used. The plan believes that one image frees 601 MiB.
    let (look, carried) = node.pass().await;
    assert_eq!(planned(&look).len(), 1);
    assert_eq!(carried.removed, 2);
    assert_eq!(carried.missing_bytes, 0);
    assert_eq!(carried.freed_bytes, 202 * MIB);
}

/// `once` beside `run`.
#[tokio::test]
async fn an_image_that_another_process_removed_is_young_if_it_is_pulled_again() {
    // Before its first pass, between two, and in the middle of one.
    for (has_written, is_in_pass) in [(false, false), (true, false), (true, true)] {
        let mut node = Node::set_up();
        let ids = node.images(2, 10);
        let (mut before, mut run, mut once) =
            (node.collector().await, node.collector().await, node.collector().await);
        before.save();
        run.ledger = run.state.as_mut().unwrap().read().0;
        if has_written {
            run.look(now()).await.unwrap();
            run.save();
        }
        once.ledger = once.state.as_mut().unwrap().read().0;
        once.ledger.retain(&[]);
        once.save();
        assert!(ids.iter().all(|id| run.ledger.age(id).unwrap().detected > HOUR / 2), "old to this process");
        if is_in_pass {
            run.save();
        }
        for _ in 0..2 {
            run.look(now()).await.unwrap();
            run.save();
            assert!(ids.iter().all(|id| run.ledger.age(id).unwrap().detected < HOUR / 2));
        }
    }
}

#[tokio::test]
async fn an_image_that_another_process_removed_in_mid_pass_stays_if_it_is_pulled_again() {
    let mut node = Node::set_up();
    node.images(2, 10);
    node.rules.all = true;
    node.rules.images.min_age = Duration::from_secs(60);
    let (mut run, mut once) = (node.collector().await, node.collector().await);
    let look = run.look(now()).await.unwrap();
    run.save();
    once.ledger = once.state.as_mut().unwrap().read().0;
    once.ledger.retain(&[]);
    once.save();
    let carried = run.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!((planned(&look).len(), carried.removed, carried.refused), (2, 0, 2));
}

#[tokio::test]
async fn b5_images_that_may_not_come_back_stay() {
    let settings = server::Settings {
        sandbox_image: "registry.example/i000:1".to_owned(),
        ..server::Settings::default()
    };
    let mut node = Node::with(settings);
    let images = node.images(17, 50);
    let local = node.add_image(NewImage {
        tags: vec!["localhost/built:1".to_owned()],
        digests: Vec::new(),
        ..image("local", 50)
    });
    node.rules.images.keep = vec![WildMatch::new("*/i001:*")];
    node.rules.free = Some(99);
    let (look, carried) = node.pass().await;
    let kept = [images[0].clone(), images[1].clone(), local];
    for image in &kept {
        assert_eq!(rule(&look, What::Image, image), "B5");
    }
    assert!(node.image_ids().is_superset(&set(&kept)));
    assert!(!node.image_ids().contains(&images[2]));
    assert!(carried.missing_bytes > 0);
}

/// containerd 2 does not name it in its status.
#[tokio::test]
async fn b5_the_image_of_a_sandbox_stays_if_only_the_record_of_the_sandbox_names_it() {
    let settings = server::Settings { sandbox_image: String::new(), ..server::Settings::default() };
    let mut node = Node::with(settings);
    node.pod().await;
    let images = node.images(2, 50);
    node.server.world(|world| world.pause = "registry.example/i000:1".to_owned());
    node.rules.all = true;
    let (look, _) = node.pass().await;
    assert_eq!(rule(&look, What::Image, &images[0]), "I1");
    assert!(node.image_ids().contains(&images[0]) && !node.image_ids().contains(&images[1]));
}

/// A dead container that has written so much.
fn dead(node: &Node, pod: &OnNode, attempt: u32, mib: u64) -> String {
    let new = node.new_container(pod, ContainerState::ContainerExited);
    let created_at = new.created_at + i64::from(attempt);
    let new = NewContainer { attempt, created_at, written: mib * MIB, ..new };
    node.server.world(|world| world.add_container(new))
}

fn bytes(look: &Look, id: &str) -> Option<u64> {
    look.plan.entry(What::Container, id).unwrap().bytes
}

#[tokio::test]
async fn b9_a_plan_has_what_dead_containers_have_written_and_asks_until_it_was_measured_after_the_end() {
    let mut node = Node::set_up();
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
    // By the last measurement, it had just begun to write.
    node.server.world(|world| world.measured_at = Some(nanos(HOUR)));
    let look = collector.look(now()).await.unwrap();
    assert_eq!((bytes(&look, &first), bytes(&look, &third)), (Some(30 * MIB), Some(5 * MIB)));
    node.server.world(|world| {
        world.set_written(&third, 200 * MIB);
        world.measured_at = None;
    });
    for _ in 0..2 {
        let look = collector.look(now()).await.unwrap();
        assert_eq!(bytes(&look, &third), Some(200 * MIB));
    }
    assert_eq!(node.server.calls(Rpc::ListContainerStats).len(), 3);
}

/// What containers free counts, so fewer images are planned.
#[tokio::test]
async fn b3_what_dead_containers_have_written_is_freed_before_images() {
    let mut node = Node::set_up();
    node.pod().await;
    let gone = node.gone_pod();
    dead(&node, &gone, 0, 100);
    node.images(16, 50);
    // 901 MiB are used, and 101 have to go: the container's 100 and one image.
    let (look, carried) = node.pass().await;
    let images = planned(&look).into_iter().filter(|(what, _)| *what == What::Image).count();
    assert_eq!(images, 1);
    assert_eq!(removed(&carried), planned(&look));
    assert!(node.server.available() >= 200 * MIB);
}

#[tokio::test]
async fn a_runtime_that_does_not_tell_sizes_is_not_asked_for_ever_and_containers_go_all_the_same() {
    let mut node = Node::set_up();
    node.pod().await;
    let gone = node.gone_pod();
    let id = dead(&node, &gone, 0, 30);
    let fail = server::Effect::Fail(server::Code::Unimplemented, "no such call".to_owned());
    node.server.fault(server::Fault::every(Rpc::ListContainerStats, fail));
    let mut collector = node.collector().await;
    let look = collector.look(now()).await.unwrap();
    assert!(look.notes.iter().any(|note| note.text.contains("have written")), "{:?}", look.notes);
    assert_eq!((bytes(&look, &id), rule(&look, What::Container, &id).as_str()), (None, "C3"));
    for _ in 0..2 {
        let later = Moment { wall: now().wall.plus(HOUR), ..now() };
        collector.look(later).await.unwrap();
    }
    assert_eq!(node.server.calls(Rpc::ListContainerStats).len(), 2);
    collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!(node.container_ids().len(), 0);
}
