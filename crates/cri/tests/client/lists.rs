//! Lists, short and too long.

use anyhow::Result;
use kube_gc_cri::client::{Listing, PodKey};
use kube_gc_cri::messages::*;
use kube_gc_cri::server::{CriServer, Effect, Fault, NewContainer, NewImage, Settings, World};
use kube_gc_cri::{Error, Rpc};
use prost::Message;
use tonic::Code;

use crate::{connect, has_ended, ids, pods};

/// The size of a list of the containers that fit.
fn list_size(world: &World, fits: impl Fn(&&Container) -> bool) -> usize {
    ListContainersResponse { containers: world.containers().filter(fits).cloned().collect() }.encoded_len()
}

#[tokio::test]
async fn a_short_list_is_one_call() -> Result<()> {
    let (world, keys) = pods(4, 3);
    let server = CriServer::start(Settings { stream: Some(1), ..Settings::default() }, world)?;
    let client = connect(&server).await?;
    server.clear_journal();
    let Listing { items, is_whole } = client.all::<Container>(&keys).await?;
    assert_eq!((items.len(), is_whole), (16, true));
    assert_eq!(client.all::<PodSandbox>(&keys).await?.items.len(), 4);
    assert_eq!(client.all_images().await?.len(), 1);
    assert_eq!(server.journal().len(), 3);
    Ok(())
}

#[tokio::test]
async fn a_long_list_comes_in_parts() -> Result<()> {
    let (world, _) = pods(10, 20);
    let expected = ids(world.containers());
    let settings = Settings { message_limit: 2000, stream: Some(7), ..Settings::default() };
    let server = CriServer::start(settings, world)?;
    let client = connect(&server).await?;
    let listing = client.all::<Container>(&[]).await?;
    assert!(listing.is_whole && ids(&listing.items) == expected);
    assert_eq!(listing.items.len(), expected.len());
    assert!(client.all::<PodSandbox>(&[]).await?.is_whole);
    // A list that is cut off is no list.
    server.fault(Fault::every(Rpc::StreamContainers, Effect::Fail(Code::Internal, "broken".to_owned())));
    assert!(client.all::<Container>(&[]).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_container_that_moves_on_between_two_lists_is_listed_once_and_not_missed() -> Result<()> {
    use ContainerState::{ContainerCreated, ContainerExited, ContainerRunning, ContainerUnknown};
    let moves = [
        (ContainerCreated, ContainerRunning),
        (ContainerCreated, ContainerExited),
        (ContainerCreated, ContainerUnknown),
        (ContainerRunning, ContainerExited),
        (ContainerRunning, ContainerUnknown),
        (ContainerUnknown, ContainerExited),
    ];
    let (world, _) = pods(10, 1);
    let expected = ids(world.containers());
    let message_limit = list_size(&world, has_ended) * 3 / 2;
    let moving = world.containers().find(|container| !has_ended(container)).expect("one").id.clone();
    // The first list is the one that is too long; then there is one for each state.
    for ((from, to), before) in moves.into_iter().flat_map(|way| (1..=6).map(move |before| (way, before))) {
        let mut world = world.clone();
        world.set_state(&moving, from);
        let server = CriServer::start(Settings { message_limit, ..Settings::default() }, world)?;
        let client = connect(&server).await?;
        let moving = moving.clone();
        let change = Effect::before(move |world, _| world.set_state(&moving, to));
        server.fault(Fault::nth(Rpc::ListContainers, before, change));
        let listing = client.all::<Container>(&[]).await?;
        assert!(
            listing.is_whole && ids(&listing.items) == expected,
            "from {from:?} to {to:?} before list {before}"
        );
        assert_eq!(listing.items.len(), expected.len(), "from {from:?} to {to:?} before list {before}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_still_too_long_is_listed_by_the_pods_that_are_known() -> Result<()> {
    let (world, keys) = pods(10, 20);
    let expected = ids(world.containers());
    // Room for the dead containers of one pod, and not for those of a namespace.
    let message_limit = list_size(&world, has_ended) / keys.len() + 100;
    let server = CriServer::start(Settings { message_limit, ..Settings::default() }, world)?;
    let client = connect(&server).await?;
    let listing = client.all::<Container>(&keys).await?;
    assert!(ids(&listing.items) == expected && !listing.is_whole);
    // Of a pod that is not known, the dead containers are missing; those that run are not.
    let known: Vec<PodKey> = keys.iter().skip(1).cloned().collect();
    let listing = client.all::<Container>(&known).await?;
    assert_eq!(listing.items.len(), expected.len() - 20);
    // If one pod's list is too long, the others are listed all the same.
    server.world(|world| {
        let sandbox = world.sandboxes().next().map(|sandbox| sandbox.id.clone()).expect("a sandbox");
        for attempt in 100..200 {
            world.add_container(NewContainer {
                sandbox: sandbox.clone(),
                name: "app".to_owned(),
                attempt,
                state: ContainerState::ContainerExited,
                ..NewContainer::default()
            });
        }
    });
    let listing = client.all::<Container>(&keys).await?;
    assert_eq!(listing.items.len(), expected.len() - 20);
    Ok(())
}

#[tokio::test]
async fn images_are_listed_whole_or_not_at_all() -> Result<()> {
    let mut world = World::default();
    for at in 0..100 {
        world.add_image(NewImage { tags: vec![format!("app:{at}")], ..NewImage::default() });
    }
    let server = CriServer::start(Settings { message_limit: 2000, ..Settings::default() }, world.clone())?;
    let error = connect(&server).await?.all_images().await.expect_err("too long");
    assert!(matches!(error, Error::TooLarge { rpc: Rpc::ListImages, .. }), "{error}");
    let server =
        CriServer::start(Settings { message_limit: 2000, stream: Some(9), ..Settings::default() }, world)?;
    assert_eq!(connect(&server).await?.all_images().await?.len(), 100);
    Ok(())
}
