//! Safety 1 to 5.

use super::*;

#[tokio::test]
async fn safety_1_a_container_that_starts_between_look_and_removal_stays() {
    let mut node = Node::set_up();
    node.pod().await;
    let gone = node.gone_pod();
    let created = node.container(&gone, 0, ContainerState::ContainerCreated, &node.image);
    let exited = node.container(&gone, 1, ContainerState::ContainerExited, &node.image);
    node.server.fault(server::Fault::about(
        Rpc::ContainerStatus,
        &created,
        server::Effect::before(|world, id| world.set_state(id, ContainerState::ContainerRunning)),
    ));
    let (look, carried) = node.pass().await;
    assert!(planned(&look).contains(&(What::Container, created.clone())));
    assert_eq!(node.container_ids(), set(std::slice::from_ref(&created)));
    assert!(!node.changes().contains(&(Rpc::RemoveContainer, created)));
    assert!(removed(&carried).contains(&(What::Container, exited)));
    // Its sandbox is not empty, so it stays, too.
    assert!(node.sandbox_ids().contains(&gone.sandbox));
}

#[tokio::test]
async fn safety_1_an_unknown_container_is_stopped_first_and_stays_if_that_fails() {
    let mut node = Node::set_up();
    node.pod().await;
    let gone = node.gone_pod();
    let unknown = node.containers(&gone, 1, ContainerState::ContainerUnknown);
    node.server.fault(server::Fault::nth(
        Rpc::StopContainer,
        1,
        server::Effect::Fail(server::Code::Unknown, "no".to_owned()),
    ));
    let (_, carried) = node.pass().await;
    assert_eq!((carried.failed, node.container_ids()), (1, set(&unknown)));
    assert_eq!(node.changes(), [(Rpc::StopContainer, unknown[0].clone())]);
    node.pass().await;
    assert_eq!(node.container_ids().len(), 0);
}

#[tokio::test]
async fn safety_1_a_sandbox_that_gets_a_container_stays() {
    let mut node = Node::set_up();
    node.pod().await;
    let gone = node.gone_pod();
    let late = node.new_container(&gone, ContainerState::ContainerRunning);
    node.server.fault(server::Fault::nth(
        Rpc::PodSandboxStatus,
        2,
        server::Effect::before(move |world, _| {
            world.add_container(late.clone());
        }),
    ));
    let (_, carried) = node.pass().await;
    assert_eq!(carried.refused, 1);
    assert!(node.sandbox_ids().contains(&gone.sandbox));
    assert!(!node.changes().iter().any(|(rpc, _)| *rpc == Rpc::RemovePodSandbox));
}

#[tokio::test]
async fn safety_2_a_pod_of_another_node_or_a_static_pod_is_not_gone() {
    let mut node = Node::set_up();
    let elsewhere = node.pod().await;
    node.containers(&elsewhere, 2, ContainerState::ContainerExited);
    node.server.world(|world| world.set_ready(&elsewhere.sandbox, false));
    let pods: kube::Api<Pod> = kube::Api::namespaced(node.api.client(), "default");
    pods.patch(
        &elsewhere.name,
        &PatchParams::default(),
        &Patch::Merge(json!({ "spec": { "nodeName": "node-2" } })),
    )
    .await
    .unwrap();
    node.pod().await;
    let gone = node.gone_pod();
    let of_gone = node.containers(&gone, 2, ContainerState::ContainerExited);
    let (look, _) = node.pass().await;
    // C5 still holds for the pod that exists.
    assert_eq!(node.container_ids().len(), 1);
    assert_eq!(rule(&look, What::Container, &of_gone[1]), "C3");
    assert_eq!(node.logs().directories(None).unwrap().items.len(), 1);
}

/// Right after a reboot no sandbox is ready, so only this tells a wrong cluster. The Node authorizer answers 403 also
/// about pods that do not exist.
#[tokio::test]
async fn safety_2_a_404_or_403_is_proof_only_if_the_list_has_a_pod_of_the_runtime() {
    let doubt = "not proved gone: no pod that the API server lists is known to the runtime";
    for (is_confirmed, refused) in [(false, "nothing"), (false, "/default/pods/"), (true, "/default/pods/")] {
        let mut node = Node::set_up();
        if is_confirmed {
            node.pod().await;
        }
        let gone = node.gone_pod();
        let of_gone = node.containers(&gone, 2, ContainerState::ContainerExited);
        let source = source(refusing(&node.api.client(), move |path| path.contains(refused)));
        let look = node.collector_with(Some(source)).await.look(now()).await.unwrap();
        let expected = if is_confirmed { "C3" } else { "C5" };
        assert_eq!(rule(&look, What::Container, &of_gone[1]), expected);
        let is_noted = look.notes.iter().any(|note| note.text.contains(doubt));
        assert_eq!(is_noted, !is_confirmed, "{:?}", look.notes);
    }
}

#[tokio::test]
async fn safety_2_with_the_wrong_name_of_the_node_nothing_is_gone_and_images_stay() {
    let mut node = Node::set_up();
    // Three ready pods that the API server does not know on this node.
    for number in 0..3 {
        let uid = format!("aaaaaaa{number}-0000-4000-8000-000000000000");
        let pod = node.sandbox(&uid, false);
        node.containers(&pod, 2, ContainerState::ContainerRunning);
    }
    let gone = node.gone_pod();
    let of_gone = node.containers(&gone, 1, ContainerState::ContainerExited);
    node.rules.all = true;
    node.images(2, 10);
    let (look, carried) = node.pass().await;
    assert!(look.plan.wrong_node && !is_complete(&look, &carried));
    assert!(look.notes[0].text.contains("is the name of this node"), "{:?}", look.notes);
    assert_eq!(node.image_ids().len(), 3);
    assert!(node.container_ids().is_superset(&set(&of_gone)));
    assert_eq!(node.sandbox_ids().len(), 4);
}

#[tokio::test]
async fn safety_2_without_an_api_server_no_pod_is_gone() {
    let mut node = Node::set_up();
    let gone = node.gone_pod();
    node.containers(&gone, 3, ContainerState::ContainerExited);
    node.knows_pods = false;
    let (_, carried) = node.pass().await;
    // C5 only.
    assert_eq!(carried.removed, 2);
    assert_eq!((node.container_ids().len(), node.sandbox_ids().len()), (1, 1));
    assert_eq!(node.logs().directories(None).unwrap().items.len(), 1);
}

#[tokio::test]
async fn safety_3_beside_a_kubelet_the_newest_dead_instance_stays() {
    let mut node = Node::set_up();
    let living = node.pod().await;
    let of_living = node.containers(&living, 3, ContainerState::ContainerExited);
    node.rules.containers.max_per_container = Some(0);
    node.images(18, 50);
    for (beside, containers, images) in
        [(Effects::Nothing, 3, 19), (Effects::Images, 3, 16), (Effects::All, 1, 16)]
    {
        node.rules.beside_kubelet = Some(beside);
        if images != node.image_ids().len() {
            let look = node.collector().await.look(now()).await.unwrap();
            assert!(look.notes.iter().any(|note| note.text.contains("records of how images were pulled")));
        }
        node.pass().await;
        assert_eq!((node.container_ids().len(), node.image_ids().len()), (containers, images), "{beside:?}");
    }
    assert_eq!(node.container_ids(), set(&of_living[2..]));
}

#[tokio::test]
async fn safety_3_a_ready_sandbox_that_a_kubelet_made_shows_one_wherever_its_logs_are() {
    let mut node = Node::set_up();
    node.images(18, 50);
    node.pod().await;
    let gone = node.gone_pod();
    let keys = ["kubernetes.io/config.source", "kubernetes.io/config.seen"];
    let annotations = keys.map(|key| (key.to_owned(), "api".to_owned())).into();
    let pod = NewSandbox { annotations, ..NewSandbox::of("default", "web", "uid-web") };
    node.server.world(|world| world.add_sandbox(pod));
    // Whether a container goes, whether the logs of that pod are here, and whether a note says that they are not.
    for (goes, are_here, is_said) in [(false, false, false), (true, false, true), (true, true, false)] {
        if goes && !are_here {
            for attempt in 0..2 {
                let new = node.new_container(&gone, ContainerState::ContainerExited);
                node.server.world(|world| world.add_container(NewContainer { attempt, ..new }));
            }
        }
        if are_here {
            fs::create_dir(format!("{}/default_web_uid-web", node.rules.roots.pods)).unwrap();
        }
        let mut options = node.options();
        let look = node.collector().await.look_beside(&mut options).await.unwrap();
        assert_eq!(look.plan.effects, Effects::Nothing);
        assert!(options.kubelet.unwrap().contains("uid-web"));
        let is_it = |note: &Note| note.text.contains("would go without") && note.text.contains("podLogsDir");
        assert_eq!(look.notes.iter().any(is_it), is_said, "{:?}", look.notes);
    }
}

#[tokio::test]
async fn safety_3_a_kubelet_that_makes_a_sandbox_in_mid_pass_ends_the_pass() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let keys = ["kubernetes.io/config.source", "kubernetes.io/config.seen"];
    let come = server::Effect::before(move |world, _| {
        let annotations = keys.map(|key| (key.to_owned(), "api".to_owned())).into();
        world.add_sandbox(NewSandbox { annotations, ..NewSandbox::of("default", "web", "uid-web") });
    });
    node.server.fault(server::Fault::nth(Rpc::ImageStatus, 1, come));
    let (_, carried) = node.pass().await;
    assert_eq!(removed(&carried), [(What::Image, images[0].clone())]);
    assert!(carried.interrupted.is_some_and(|why| why.contains("uid-web")));
}

#[tokio::test]
async fn safety_5_a_log_path_that_leads_out_removes_nothing_but_the_container() {
    let mut node = Node::set_up();
    let gone = node.gone_pod();
    node.pod().await;
    let precious = node.directory.path().join("precious.log");
    fs::write(&precious, "").unwrap();
    let paths = [
        precious.to_str().unwrap().to_owned(),
        format!("{}/../precious.log", node.rules.roots.pods),
        format!("{}/default_pod-0_{}/../../precious.log", node.rules.roots.pods, gone.uid),
        String::new(),
        "*".to_owned(),
    ];
    for (attempt, log_path) in (0..).zip(paths) {
        let new = node.new_container(&gone, ContainerState::ContainerExited);
        let new = NewContainer { attempt, log_path, ..new };
        node.server.world(|world| world.add_container(new));
    }
    node.pass().await;
    assert_eq!(node.container_ids().len(), 0);
    assert!(precious.exists());
}
