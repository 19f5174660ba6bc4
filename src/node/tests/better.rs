//! B1 to B10: what is better than the kubelet's.

use kube_gc_node::rules::{Glob, Pressure};

use super::*;

#[tokio::test]
async fn b1_dead_containers_of_gone_pods_go_although_no_list_fits_into_a_message() {
    let mut node = Node::with(server::Settings { message_limit: 20_000, ..server::Settings::default() });
    for _ in 0..20 {
        let gone = node.gone_pod();
        node.containers(&gone, 20, ContainerState::ContainerExited);
    }
    let images = node.images(18, 50);
    node.rules.limits.containers = 150;
    let (look, carried) = node.pass().await;
    assert!(look.notes.iter().any(|note| note.contains("B1")), "{:?}", look.notes);
    // Images, sandboxes and logs wait.
    assert_eq!(carried.summary.removed, 150);
    assert!(removed(&carried).iter().all(|(what, _)| *what == What::Container));
    assert_eq!(rule(&look, What::Image, &images[0]), "B1");
    for _ in 0..4 {
        node.pass().await;
    }
    assert_eq!((node.container_ids().len(), node.sandbox_ids().len()), (0, 0));
}

#[tokio::test]
async fn b1_streamed_lists_are_whole() {
    let settings = server::Settings { message_limit: 4_000, stream: Some(10), ..server::Settings::default() };
    let mut node = Node::with(settings);
    for _ in 0..10 {
        let gone = node.gone_pod();
        node.containers(&gone, 20, ContainerState::ContainerExited);
    }
    let (look, carried) = node.pass().await;
    // There is no stream of what they have written.
    assert!(look.notes.len() == 1 && look.notes[0].contains("have written"), "{:?}", look.notes);
    assert_eq!(removed(&carried), planned(&look));
    assert_eq!((node.container_ids().len(), node.sandbox_ids().len()), (0, 0));
}

#[tokio::test]
async fn b2_the_image_of_a_pod_that_is_starting_stays() {
    let mut node = Node::new();
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
async fn b2_an_image_that_is_used_by_the_time_of_the_second_list_stays() {
    let mut node = Node::new();
    let living = node.pod().await;
    let images = node.images(18, 50);
    let (sandbox, image) = (living.sandbox.clone(), images[1].clone());
    // The second list of containers is the one before the first batch.
    node.server.fault(server::Fault::nth(
        Rpc::ListContainers,
        2,
        server::Effect::before(move |world, _| {
            world.add_container(NewContainer {
                sandbox: sandbox.clone(),
                name: "late".to_owned(),
                attempt: 0,
                image: image.clone(),
                state: ContainerState::ContainerCreated,
                created_at: 1,
                ..NewContainer::default()
            });
        }),
    ));
    let (look, carried) = node.pass().await;
    assert!(planned(&look).contains(&(What::Image, images[1].clone())));
    assert!(node.image_ids().contains(&images[1]));
    assert_eq!(carried.summary.refused, 1);
    // Another one goes instead.
    assert!(node.server.disk_usage().available >= 200 * MIB);
}

#[tokio::test]
async fn b3_shared_layers_free_nothing_and_the_pass_goes_on_until_enough_is_free() {
    let mut node = Node::new();
    let shared = Layer { digest: "shared".to_owned(), bytes: 500 * MIB, inodes: 1 };
    let mut ids = Vec::new();
    for number in 0..40 {
        let mut new = image(&format!("s{number:03}"), 10);
        new.layers.push(shared.clone());
        ids.push(node.add_image(new));
    }
    // 901 MiB are used. The plan believes that one image frees 510 MiB.
    let (look, carried) = node.pass().await;
    assert_eq!(planned(&look).len(), 1);
    assert_eq!(carried.summary.removed, 11);
    assert_eq!(carried.summary.missing, None);
    assert_eq!(carried.summary.freed_bytes, 110 * MIB);
}

#[tokio::test]
async fn b3_a_file_system_that_is_slow_to_show_what_was_freed_gets_time() {
    let mut node = Node::new();
    node.server.world(|world| world.disk.delay = Duration::from_millis(300));
    node.images(18, 50);
    let (_, carried) = node.pass().await;
    assert_eq!(carried.summary.removed, 3);
}

#[tokio::test]
async fn b4_ages_survive_a_restart_and_a_damaged_file_does_not_stop_anything() {
    let mut node = Node::new();
    node.images(18, 50);
    let state = node.options().state;
    let mut collector = node.collector().await;
    collector.look(now()).await.unwrap();
    state.write(collector.ledger()).unwrap();
    node.ledger = state.read().unwrap();
    node.rules.images.min_age = Duration::from_secs(600);
    let (_, carried) = node.pass().await;
    assert_eq!(carried.summary.removed, 3);
    fs::write(node.directory.path().join("state.json"), "{").unwrap();
    assert!(state.read().unwrap_err().contains("first seen now"));
    node.ledger = Ledger::default();
    let (look, _) = node.pass().await;
    assert_eq!(planned(&look), []);
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
    node.rules.images.keep = vec![Glob::parse("*/i001:*").unwrap()];
    node.rules.free = Some(99);
    let (look, carried) = node.pass().await;
    let kept = [images[0].clone(), images[1].clone(), local];
    for image in &kept {
        assert_eq!(rule(&look, What::Image, image), "B5");
    }
    assert!(node.image_ids().is_superset(&set(&kept)));
    assert!(!node.image_ids().contains(&images[2]));
    assert!(carried.summary.missing.is_some());
}

#[tokio::test]
async fn b6_pressure_takes_no_more_images_than_it_needs() {
    let mut node = Node::new();
    let images = node.images(18, 50);
    node.rules.images.high = 100;
    node.rules.images.low = 99;
    node.rules.images.max_age = Some(100 * HOUR);
    node.rules.pressure = Some(Pressure { bytes: 15, inodes: 5 });
    let (look, carried) = node.pass().await;
    assert_eq!(carried.summary.removed, 2);
    assert_eq!(rule(&look, What::Image, &images[0]), "P1");
    assert!(node.server.disk_usage().available >= 150 * MIB);
}

#[tokio::test]
async fn b9_what_could_not_be_freed_is_said_with_what_fills_the_disk() {
    let mut node = Node::new();
    node.server.world(|world| world.disk.other = Space { bytes: 880 * MIB, inodes: 0 });
    node.images(1, 50);
    let (look, carried) = node.pass().await;
    let missing = carried.summary.missing.unwrap();
    assert_eq!((carried.summary.freed_bytes, missing.bytes), (51 * MIB, 80 * MIB));
    assert_eq!((look.plan.breakdown.unused, look.plan.breakdown.other), (51 * MIB, 880 * MIB));
    let report = crate::node::Report::new(&node.options(), "fake".to_owned(), &look).with(&carried);
    assert!(!report.result.unwrap().is_complete());
}

#[tokio::test]
async fn b10_a_dry_run_changes_nothing() {
    let mut node = Node::new();
    let gone = node.gone_pod();
    node.containers(&gone, 3, ContainerState::ContainerExited);
    node.images(18, 50);
    node.rules.dry_run = true;
    let (look, carried) = node.pass().await;
    assert!(planned(&look).len() > 3);
    assert_eq!(removed(&carried), []);
    assert!(node.changes().is_empty());
    assert_eq!(node.logs().directories().unwrap().items.len(), 1);
}
