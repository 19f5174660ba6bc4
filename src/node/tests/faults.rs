//! What goes wrong in mid-pass.

use std::sync::atomic::{AtomicUsize, Ordering};

use kube_gc_node::pressure::Usage;

use super::*;

#[tokio::test]
async fn a_restart_of_the_runtime_in_mid_pass_loses_nothing_and_the_next_pass_finishes() {
    for done in [false, true] {
        let mut node = Node::set_up();
        let living = node.pod().await;
        let running = node.containers(&living, 1, ContainerState::ContainerRunning);
        let gone = node.gone_pod();
        node.containers(&gone, 6, ContainerState::ContainerExited);
        node.server.fault(server::Fault::nth(
            Rpc::RemoveContainer,
            3,
            server::Effect::Restart { done, down: Duration::ZERO },
        ));
        let (_, carried) = node.pass().await;
        assert!(carried.failed > 0);
        // It listens again when its socket is there.
        while tokio::net::UnixStream::connect(node.server.endpoint().path()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        node.pass().await;
        assert_eq!(node.container_ids(), set(&running), "done: {done}");
        assert_eq!(node.sandbox_ids(), set(std::slice::from_ref(&living.sandbox)));
    }
}

#[tokio::test]
async fn a_runtime_that_does_not_answer_ends_the_pass() {
    let mut node = Node::set_up();
    node.pod().await;
    let gone = node.gone_pod();
    node.containers(&gone, 10, ContainerState::ContainerExited);
    node.deadline = Duration::from_millis(200);
    node.server.fault(server::Fault::every(Rpc::RemoveContainer, server::Effect::Hang));
    let (_, carried) = node.pass().await;
    assert!(carried.interrupted.unwrap().contains("unanswered"));
    // Those that were under way at the same time.
    assert_eq!((carried.failed, node.container_ids().len()), (AT_A_TIME, 10));
    node.server.clear_faults();
    node.pass().await;
    assert_eq!(node.container_ids().len(), 0);
}

#[tokio::test]
async fn a_runtime_that_did_not_know_its_file_systems_at_the_start_is_asked_again() {
    let node = Node::with(server::Settings { mountpoint: "/".to_owned(), ..server::Settings::default() });
    let starting = server::Effect::Fail(server::Code::Unavailable, "starting".to_owned());
    node.server.fault(server::Fault::nth(Rpc::ImageFsInfo, 1, starting));
    let client = Client::connect(node.server.endpoint(), client::Settings::default()).await.unwrap();
    let mut collector = NodeCollector::new(client, node.rules, false, None, node.ledger);
    let look = collector.look(now()).await.unwrap();
    assert!(
        look.plan.usage.is_none() && look.notes[0].text.contains("where images are stored"),
        "{:?}",
        look.notes
    );
    for _ in 0..2 {
        assert!(collector.look(now()).await.unwrap().plan.usage.is_some());
    }
    assert_eq!(node.server.calls(Rpc::ImageFsInfo).len(), 2);
    // After an upgrade, they may be elsewhere. Until the runtime tells, what it told before counts.
    let starting = server::Effect::Fail(server::Code::Unavailable, "starting".to_owned());
    node.server.fault(server::Fault::nth(Rpc::ImageFsInfo, 1, starting));
    node.server.upgrade(|settings| settings.mountpoint = "/no/such/directory".to_owned());
    for (is_known, said) in [(true, "where images are stored"), (false, "/no/such/directory")] {
        // Until the end of the connection has been noticed.
        let look = loop {
            if let Ok(look) = collector.look(now()).await {
                break look;
            }
        };
        assert_eq!(look.plan.usage.is_some(), is_known);
        assert!(look.notes[0].text.contains(said), "{:?}", look.notes);
    }
}

/// With and without `--all`, and however full the disk is.
#[tokio::test]
async fn a_pass_that_does_not_learn_all_that_it_should_is_not_complete() {
    use Rpc::{ImageFsInfo, ListNamespaces, Status};
    for all in [false, true] {
        for failing in [None, Some(ImageFsInfo), Some(Status), Some(ListNamespaces)] {
            let mut node =
                Node::with(server::Settings { mountpoint: "/".to_owned(), ..server::Settings::default() });
            (node.rules.all, node.rules.images.high, node.rules.images.low) = (all, 100, 100);
            let fail = || server::Effect::Fail(server::Code::Unavailable, "made by the test".to_owned());
            failing.into_iter().for_each(|rpc| node.server.fault(server::Fault::every(rpc, fail())));
            let client = Client::connect(node.server.endpoint(), client::Settings::default()).await.unwrap();
            let mut collector = NodeCollector::new(client, node.rules, false, None, node.ledger);
            let look = collector.look(now()).await.unwrap();
            let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
            assert_eq!(is_complete(&look, &carried), failing.is_none(), "{all} {failing:?} {:?}", look.notes);
        }
    }
}

/// Also if the pass is asked to end.
#[tokio::test]
async fn an_image_that_the_runtime_only_says_is_gone_has_failed_and_keeps_its_age() {
    for is_ended in [false, true] {
        let mut node = Node::set_up();
        let images = node.images(2, 50);
        node.rules.all = true;
        let cancel = CancellationToken::new();
        let end = cancel.clone();
        let asked = server::Effect::before(move |_, _| {
            if is_ended {
                end.cancel();
            }
        });
        node.server.fault(server::Fault::every(Rpc::RemoveImage, asked));
        let missing = server::Effect::Fail(server::Code::NotFound, "made by the test".to_owned());
        node.server.fault(server::Fault::every(Rpc::RemoveImage, missing));
        let mut collector = node.collector().await;
        let look = collector.look(now()).await.unwrap();
        let carried = collector.carry_out(&look, Scope::All, &cancel).await.unwrap();
        let tried = if is_ended { 1 } else { 3 };
        assert_eq!((carried.removed, carried.failed, carried.interrupted.is_some()), (0, tried, is_ended));
        collector.look(now()).await.unwrap();
        for id in &images {
            assert!(collector.ledger.age(id).is_some_and(|age| age.detected >= HOUR / 2));
        }
    }
}

/// It has gone, whatever comes back.
#[tokio::test]
async fn i5_an_image_that_is_pulled_again_while_others_are_removed_is_young() {
    // The first call after the list that shows that it has gone, and the next removal.
    for rpc in [Rpc::ListContainers, Rpc::RemoveImage] {
        let mut node = Node::set_up();
        let images = node.images(18, 50);
        let mut collector = node.collector().await;
        let look = collector.look(now()).await.unwrap();
        let before = node.server.world(|world| world.clone());
        let pull = server::Effect::before(move |world, _| *world = before.clone());
        node.server.fault(server::Fault::nth(rpc, 2, pull));
        let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
        assert!(node.image_ids().contains(&images[0]));
        assert!(removed(&carried)[0].1 == images[0] && carried.failed == 0, "{carried:?}");
        let look = collector.look(now()).await.unwrap();
        assert!(collector.ledger.age(&images[0]).is_some_and(|age| age.detected < HOUR / 2));
        assert!(!look.plan.entry(What::Image, &images[0]).unwrap().details.has_failed);
    }
}

/// When its turn comes, it is listed, and it is another one.
#[tokio::test]
async fn i5_an_image_that_a_list_has_lacked_is_not_removed_for_its_age_before() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let mut collector = node.collector().await;
    let look = collector.look(now()).await.unwrap();
    assert!(planned(&look).contains(&(What::Image, images[1].clone())));
    let before = node.server.world(|world| world.clone());
    // The first list is that before the first image, and so on.
    for (list, image) in [(1, None), (2, Some(&images[0]))] {
        let (before, second, first) = (before.clone(), images[1].clone(), image.cloned());
        let change = server::Effect::before(move |world, _| match &first {
            None => world.remove_image(&second),
            Some(first) => {
                *world = before.clone();
                world.remove_image(first);
            }
        });
        node.server.fault(server::Fault::nth(Rpc::ListContainers, list, change));
    }
    collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert!(node.image_ids().contains(&images[1]) && !node.image_ids().contains(&images[2]));
    collector.look(now()).await.unwrap();
    assert!(collector.ledger.age(&images[1]).is_some_and(|age| age.detected < HOUR / 2));
}

/// By its calls about them, it does not have them.
#[tokio::test]
async fn containers_and_sandboxes_that_are_listed_after_their_removal_have_failed() {
    let mut node = Node::set_up();
    node.pod().await;
    let (gone, empty) = (node.gone_pod(), node.gone_pod());
    let of_gone = node.containers(&gone, 3, ContainerState::ContainerExited);
    for (rpc, about) in [
        (Rpc::ContainerStatus, &of_gone[0]),
        (Rpc::RemoveContainer, &of_gone[1]),
        (Rpc::PodSandboxStatus, &empty.sandbox),
    ] {
        let missing = server::Effect::Fail(server::Code::NotFound, "made by the test".to_owned());
        node.server.fault(server::Fault::about(rpc, about, missing));
    }
    let (look, carried) = node.pass().await;
    assert!(planned(&look).len() >= 5, "{:?}", planned(&look));
    let failed = carried.items.iter().filter(|item| matches!(item.outcome, Outcome::Failed(_)));
    let failed: BTreeSet<String> = failed.map(|item| item.candidate.id().to_owned()).collect();
    assert_eq!(failed, set(&[of_gone[0].clone(), of_gone[1].clone(), empty.sandbox.clone()]));
    assert!(!removed(&carried).iter().any(|(_, id)| failed.contains(id)) && !is_complete(&look, &carried));
}

#[tokio::test]
async fn a_container_has_failed_if_no_list_shows_whether_it_has_gone() {
    for is_asked_to_end in [false, true] {
        let mut node = Node::set_up();
        node.deadline = HOUR;
        let living = node.pod().await;
        node.containers(&living, 2, ContainerState::ContainerExited);
        let fail = server::Effect::Fail(server::Code::Unavailable, "it has ended".to_owned());
        let effect = if is_asked_to_end { server::Effect::Hang } else { fail };
        node.server.fault(server::Fault::nth(Rpc::ListContainers, 2, effect));
        let mut collector = node.collector().await;
        let look = collector.look(now()).await.unwrap();
        let cancel = CancellationToken::new();
        let ask = async {
            while is_asked_to_end && node.server.calls(Rpc::ListContainers).len() < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if is_asked_to_end {
                cancel.cancel();
            }
        };
        let both = async { tokio::join!(collector.carry_out(&look, Scope::All, &cancel), ask) };
        let (carried, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
        let carried = carried.unwrap();
        assert_eq!((planned(&look).len(), carried.removed, carried.failed), (1, 0, 1));
        assert!(!is_complete(&look, &carried));
    }
}

/// Another collector is about to remove it.
#[tokio::test]
async fn a_container_that_goes_a_moment_after_its_removal_has_gone() {
    let mut node = Node::set_up();
    let living = node.pod().await;
    let id = node.containers(&living, 2, ContainerState::ContainerExited).remove(0);
    let busy = server::Effect::Fail(server::Code::Unknown, "is already in removing state".to_owned());
    node.server.fault(server::Fault::about(Rpc::RemoveContainer, &id, busy));
    // The first list is that of the look, the second one that after the removal.
    let removed = id.clone();
    let late = server::Effect::before(move |world, _| world.remove_container(&removed));
    node.server.fault(server::Fault::nth(Rpc::ListContainers, 3, late));
    let (_, carried) = node.pass().await;
    assert_eq!((carried.failed, super::removed(&carried)), (0, vec![(What::Container, id)]));
}

#[tokio::test]
async fn a_pass_ends_and_says_why_if_the_runtime_does_not_answer_before_images_go() {
    let mut node = Node::set_up();
    node.images(18, 50);
    let fail = server::Effect::Fail(server::Code::Unavailable, "it has ended".to_owned());
    node.server.fault(server::Fault::nth(Rpc::ListContainers, 2, fail));
    let (look, carried) = node.pass().await;
    assert!(!planned(&look).is_empty() && carried.items.is_empty() && !is_complete(&look, &carried));
    assert!(carried.interrupted.is_some_and(|why| why.contains("it has ended")));
}

/// If it is there, it may have been pulled again.
#[tokio::test]
async fn an_image_has_failed_and_is_young_if_no_list_shows_whether_it_has_gone() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let mut collector = node.collector().await;
    let look = collector.look(now()).await.unwrap();
    let fail = server::Effect::Fail(server::Code::Unknown, "made by the test".to_owned());
    node.server.fault(server::Fault::nth(Rpc::ListImages, 1, fail));
    let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!((carried.removed, carried.failed, node.changes().len()), (0, 1, 1));
    let reason = carried.items[0].outcome.reason().unwrap();
    assert!(
        reason.contains("not known whether it has gone") && reason.contains("made by the test"),
        "{reason}"
    );
    assert!(carried.interrupted.is_some() && collector.ledger.age(&images[0]).is_none());
}

#[tokio::test]
async fn an_image_that_a_list_lacks_has_gone_although_the_answer_to_its_removal_is_lost() {
    let mut node = Node::set_up();
    node.images(18, 50);
    node.server.fault(server::Fault::every(Rpc::RemoveImage, server::Effect::before(World::remove_image)));
    let lost = server::Effect::Fail(server::Code::Unavailable, "made by the test".to_owned());
    node.server.fault(server::Fault::every(Rpc::RemoveImage, lost));
    let (look, carried) = node.pass().await;
    assert!(removed(&carried) == planned(&look) && is_complete(&look, &carried), "{carried:?}");
}

/// It stops no other.
#[tokio::test]
async fn an_image_that_cannot_be_asked_for_has_failed_and_keeps_its_age() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let fail = server::Effect::Fail(server::Code::Unknown, "made by the test".to_owned());
    node.server.fault(server::Fault::about(Rpc::ImageStatus, &images[0], fail));
    let mut collector = node.collector().await;
    let look = collector.look(now()).await.unwrap();
    let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!((carried.failed, carried.removed, carried.missing_bytes), (1, 3, 0));
    assert!(node.image_ids().contains(&images[0]) && collector.ledger.age(&images[0]).is_some());
}

/// However long the runtime does not answer.
#[tokio::test]
async fn a_pass_ends_when_it_is_asked_to_while_it_lists() {
    // What is asked before the first removal and after it.
    for (rpc, list, removals) in
        [(Rpc::ListContainers, 2, 0), (Rpc::ImageStatus, 1, 0), (Rpc::ListImages, 2, 1)]
    {
        let mut node = Node::set_up();
        node.deadline = HOUR;
        node.images(18, 50);
        node.server.fault(server::Fault::nth(rpc, list, server::Effect::Hang));
        let mut collector = node.collector().await;
        let look = collector.look(now()).await.unwrap();
        let cancel = CancellationToken::new();
        let ask = async {
            while node.server.calls(rpc).len() < list {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            cancel.cancel();
        };
        let both = async { tokio::join!(collector.carry_out(&look, Scope::All, &cancel), ask) };
        let (carried, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
        let carried = carried.unwrap();
        assert_eq!((carried.interrupted.is_some(), carried.failed), (true, removals), "{rpc:?} {list}");
        assert_eq!(node.changes().len(), removals, "{rpc:?} {list}");
    }
}

/// What was looked at stays, also if the answer comes at the same time.
#[tokio::test]
async fn nothing_is_removed_after_a_pass_was_asked_to_end() {
    for (rpc, answers) in [
        (Rpc::ContainerStatus, true),
        (Rpc::ContainerStatus, false),
        (Rpc::PodSandboxStatus, true),
        (Rpc::PodSandboxStatus, false),
        (Rpc::ImageStatus, true),
    ] {
        let mut node = Node::set_up();
        node.deadline = HOUR;
        node.pod().await;
        let gone = node.gone_pod();
        if rpc == Rpc::ContainerStatus {
            node.containers(&gone, 12, ContainerState::ContainerExited);
        }
        node.images(18, 50);
        let mut collector = node.collector().await;
        let look = collector.look(now()).await.unwrap();
        let scope = if rpc == Rpc::ImageStatus { Scope::Images } else { Scope::Containers };
        assert!(!planned(&look).is_empty());
        let cancel = CancellationToken::new();
        let end = cancel.clone();
        node.server.fault(server::Fault::every(rpc, server::Effect::before(move |_, _| end.cancel())));
        if !answers {
            node.server.fault(server::Fault::every(rpc, server::Effect::Hang));
        }
        let carried = collector.carry_out(&look, scope, &cancel);
        let carried = tokio::time::timeout(Duration::from_secs(60), carried).await.unwrap().unwrap();
        assert_eq!((carried.items, node.changes()), (vec![], vec![]), "{rpc:?} {answers}");
        assert!(carried.interrupted.is_some());
    }
}

/// The runtime removes it later, and somebody pulls it again.
#[tokio::test]
async fn i5_an_image_is_young_after_a_removal_that_was_not_answered() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let late = server::Effect::Fail(server::Code::DeadlineExceeded, "made by the test".to_owned());
    node.server.fault(server::Fault::about(Rpc::RemoveImage, &images[0], late));
    let mut collector = node.collector().await;
    let look = collector.look(now()).await.unwrap();
    let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!((carried.failed, carried.removed), (1, 3));
    collector.look(now()).await.unwrap();
    assert!(collector.ledger.age(&images[0]).is_some_and(|age| age.detected < HOUR / 2));
    assert!(collector.ledger.age(&images[9]).is_some_and(|age| age.detected > HOUR / 2));
}

/// If they are there, the list was not whole, or they were pulled again.
#[tokio::test]
async fn images_that_leave_the_line_although_they_are_there_have_failed() {
    for are_there in [true, false] {
        let mut node = Node::set_up();
        let images = node.images(4, 50);
        node.rules.all = true;
        let mut collector = node.collector().await;
        let look = collector.look(now()).await.unwrap();
        let whole = Arc::new(std::sync::Mutex::new(None));
        let (before, missing) = (Arc::clone(&whole), images[1..3].to_vec());
        let partial = server::Effect::before(move |world, _| {
            *before.lock().unwrap() = are_there.then(|| world.clone());
            missing.iter().for_each(|id| world.remove_image(id));
        });
        node.server.fault(server::Fault::nth(Rpc::ListImages, 1, partial));
        let again = server::Effect::before(move |world, _| {
            if let Some(whole) = whole.lock().unwrap().take() {
                *world = whole;
            }
        });
        node.server.fault(server::Fault::nth(Rpc::ImageStatus, 2, again));
        let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
        let failed = if are_there { 2 } else { 0 };
        assert_eq!((carried.failed, is_complete(&look, &carried)), (failed, !are_there), "{carried:?}");
        assert_eq!(node.image_ids().len(), failed);
        let failed = carried.items.iter().filter_map(|item| item.outcome.reason());
        assert!(failed.clone().all(|why| why.contains("was not listed")), "{:?}", failed.collect::<Vec<_>>());
    }
}

/// A disk that shows nothing of a removal, and asks the pass to end when it is measured after one.
#[derive(Debug)]
struct Unchanged {
    cancel: CancellationToken,
    server: Arc<CriServer>,
    measured: AtomicUsize,
}

impl Disk for Unchanged {
    fn usage(&self) -> Result<Usage, String> {
        if !self.server.calls(Rpc::RemoveImage).is_empty() {
            self.measured.fetch_add(1, Ordering::Relaxed);
            self.cancel.cancel();
        }
        Ok(Usage { capacity: 100, available: 5, ..Usage::default() })
    }
}

#[tokio::test]
async fn a_pass_that_is_asked_to_end_measures_no_more() {
    let mut node = Node::set_up();
    node.images(18, 50);
    let cancel = CancellationToken::new();
    let (server, measured) = (Arc::clone(&node.server), AtomicUsize::new(0));
    let disk = Arc::new(Unchanged { cancel: cancel.clone(), server, measured });
    let mut collector = node.collector().await.with_disk(Arc::<Unchanged>::clone(&disk));
    let look = collector.look(now()).await.unwrap();
    let carried = collector.carry_out(&look, Scope::All, &cancel).await.unwrap();
    assert_eq!((carried.removed, carried.interrupted.is_some()), (1, true));
    // The last one is for the result.
    assert_eq!(disk.measured.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn what_another_collector_removes_meanwhile_counts_as_gone() {
    let mut node = Node::set_up();
    node.pod().await;
    let gone = node.gone_pod();
    let containers = node.containers(&gone, 3, ContainerState::ContainerExited);
    let images = node.images(18, 50);
    let mut collector = node.collector().await;
    let look = collector.look(now()).await.unwrap();
    node.server.world(|world| {
        world.remove_container(&containers[0]);
        world.remove_image(&images[0]);
    });
    let carried = collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!(removed(&carried), planned(&look));
    assert!(is_complete(&look, &carried) && carried.refused == 0);
}

#[tokio::test]
async fn an_api_server_that_was_never_read_means_that_no_pod_is_gone_and_no_image_goes() {
    let mut node = Node::set_up();
    let gone = node.gone_pod();
    let of_gone = node.containers(&gone, 3, ContainerState::ContainerExited);
    node.images(18, 50);
    let unreachable = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let source = source(kube::Client::try_from(unreachable).unwrap());
    let mut collector = node.collector_with(Some(source)).await;
    let look = collector.look(now()).await.unwrap();
    assert!(
        look.api_error.is_some() && look.notes[0].text.contains("none counts as gone"),
        "{:?}",
        look.notes
    );
    collector.carry_out(&look, Scope::All, &CancellationToken::new()).await.unwrap();
    assert_eq!(node.container_ids(), set(&of_gone[2..]));
    assert_eq!((node.sandbox_ids().len(), node.image_ids().len()), (1, 19));
}

#[tokio::test]
async fn without_the_status_of_the_runtime_no_image_goes_because_it_may_be_that_of_sandboxes() {
    let mut node = Node::set_up();
    let images = node.images(18, 50);
    let fail = server::Effect::Fail(server::Code::Unknown, "no".to_owned());
    node.server.fault(server::Fault::every(Rpc::Status, fail));
    let (look, carried) = node.pass().await;
    assert_eq!(removed(&carried), []);
    assert_eq!(rule(&look, What::Image, &images[0]), "B5");
}

#[tokio::test]
async fn a_container_that_cannot_be_asked_what_it_mounts_keeps_all_images() {
    let mut node = Node::set_up();
    let living = node.pod_that_mounts("registry.example/data:1").await;
    node.containers(&living, 1, ContainerState::ContainerRunning);
    let images = node.images(18, 50);
    node.upgrade();
    let fail = server::Effect::Fail(server::Code::Unknown, "no".to_owned());
    node.server.fault(server::Fault::every(Rpc::ContainerStatus, fail));
    let (look, carried) = node.pass().await;
    assert!(look.notes[0].text.contains("cannot be asked which images it mounts"), "{:?}", look.notes);
    assert_eq!(removed(&carried), []);
    assert_eq!(rule(&look, What::Image, &images[0]), "safety 1");
}
