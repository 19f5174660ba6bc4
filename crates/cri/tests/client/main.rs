//! The client, on the server that injects faults.

mod lists;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use kube_gc_cri::client::PodKey;
use kube_gc_cri::messages::*;
use kube_gc_cri::server::{CriServer, Effect, Fault, NewContainer, NewImage, NewSandbox, Settings, World};
use kube_gc_cri::{ApiVersion, Client, Endpoint, Error, Rpc, client};
use tonic::Code;

/// Deadlines that a test can wait for.
fn hasty() -> client::Settings {
    client::Settings { deadline: Duration::from_millis(400), ..client::Settings::default() }
}

async fn connect(server: &CriServer) -> Result<Client, Error> {
    Client::connect(server.endpoint(), client::Settings::default()).await
}

/// A world of pods, two to a namespace, each with a running container and some dead ones.
fn pods(number: usize, dead: usize) -> (World, Vec<PodKey>) {
    let mut world = World::default();
    let image = world.add_image(NewImage { tags: vec!["app:1".to_owned()], ..NewImage::default() });
    let mut keys = Vec::new();
    for at in 0..number {
        let key = PodKey { namespace: format!("namespace-{}", at / 2), uid: format!("uid-{at}") };
        let name = format!("pod-{at:0>200}");
        let sandbox = world.add_sandbox(NewSandbox::of(&key.namespace, &name, &key.uid));
        for attempt in 0..=dead {
            let is_last = attempt == dead;
            world.add_container(NewContainer {
                sandbox: sandbox.clone(),
                name: "app".to_owned(),
                attempt: u32::try_from(attempt).unwrap_or_default(),
                image: image.clone(),
                state: if is_last {
                    ContainerState::ContainerRunning
                } else {
                    ContainerState::ContainerExited
                },
                created_at: 1,
                ..NewContainer::default()
            });
        }
        keys.push(key);
    }
    (world, keys)
}

fn ids<'a>(containers: impl IntoIterator<Item = &'a Container>) -> BTreeSet<String> {
    containers.into_iter().map(|container| container.id.clone()).collect()
}

fn has_ended(container: &&Container) -> bool {
    container.state() == ContainerState::ContainerExited
}

#[tokio::test]
async fn v1_is_preferred_and_v1alpha2_is_spoken_where_there_is_nothing_else() -> Result<()> {
    for (versions, spoken) in [
        (vec![ApiVersion::V1, ApiVersion::V1Alpha2], ApiVersion::V1),
        (vec![ApiVersion::V1], ApiVersion::V1),
        (vec![ApiVersion::V1Alpha2], ApiVersion::V1Alpha2),
    ] {
        let (world, _) = pods(1, 0);
        let server = CriServer::start(Settings { versions, ..Settings::default() }, world)?;
        let client = connect(&server).await?;
        assert_eq!(client.runtime().runtime_name, "containerd");
        assert_eq!(client.containers(None).await?.len(), 1);
        assert!(server.journal().iter().all(|entry| entry.api == spoken));
    }
    Ok(())
}

#[tokio::test]
async fn after_an_upgrade_in_place_the_version_is_asked_for_again_and_only_then() -> Result<()> {
    let versions = vec![ApiVersion::V1Alpha2];
    let server = CriServer::start(Settings { versions, ..Settings::default() }, World::default())?;
    let mut client = connect(&server).await?;
    client.follow().await?;
    assert_eq!(server.calls(Rpc::Version).len(), 1);
    server.upgrade(|settings| settings.versions = vec![ApiVersion::V1]);
    // This version no longer serves what was spoken, if the end of the connection has been noticed by then.
    while client.containers(None).await.is_err() {
        client.follow().await?;
    }
    client.follow().await?;
    assert_eq!(server.journal().last().map(|entry| entry.api), Some(ApiVersion::V1));
    assert_eq!(server.calls(Rpc::Version).len(), 2);
    Ok(())
}

#[tokio::test]
async fn what_is_no_runtime_is_told_apart() -> Result<()> {
    // gRPC without CRI: containerd with the plugin disabled.
    let server =
        CriServer::start(Settings { versions: Vec::new(), ..Settings::default() }, World::default())?;
    let error = connect(&server).await.expect_err("no runtime");
    assert!(matches!(error, Error::NotCri { .. }), "{error}");
    assert!(error.to_string().contains("disabled_plugins"), "{error}");

    // Another protocol.
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("http.sock");
    let listener = UnixListener::bind(&path)?;
    std::thread::spawn(move || -> io::Result<()> {
        use std::io::{Read, Write};
        loop {
            let (mut stream, _) = listener.accept()?;
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let endpoint = Endpoint::parse(&path.to_string_lossy())?;
    let error = Client::connect(&endpoint, hasty()).await.expect_err("no runtime");
    assert!(matches!(error, Error::NotCri { .. }), "{error}");

    // Something that accepts and ends the connection, be it before the first byte is sent or after it.
    let path = directory.path().join("closing.sock");
    let listener = UnixListener::bind(&path)?;
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let endpoint = Endpoint::parse(&path.to_string_lossy())?;
    for _ in 0..50 {
        let error = Client::connect(&endpoint, client::Settings::default()).await.expect_err("no runtime");
        assert!(matches!(error, Error::NotCri { .. }), "{error}");
    }

    // Something that accepts and says nothing.
    let path = directory.path().join("silent.sock");
    let _listener = UnixListener::bind(&path)?;
    let endpoint = Endpoint::parse(&path.to_string_lossy())?;
    let error = Client::connect(&endpoint, hasty()).await.expect_err("no answer");
    assert!(matches!(error, Error::Deadline { rpc: Rpc::Version, .. }), "{error}");
    Ok(())
}

#[tokio::test]
async fn every_call_has_a_deadline() -> Result<()> {
    let (world, _) = pods(1, 1);
    let server = CriServer::start(Settings { stream: Some(1), ..Settings::default() }, world)?;
    let client = Client::connect(server.endpoint(), hasty()).await?;
    for rpc in Rpc::ALL {
        server.fault(Fault::every(*rpc, Effect::Hang));
    }
    let late = |rpc| Error::Deadline { rpc, after: Duration::from_millis(400) };
    let image = ImageSpec { image: "app:1".to_owned(), ..ImageSpec::default() };
    assert_eq!(client.status().await.err(), Some(late(Rpc::Status)));
    assert_eq!(client.containers(None).await.err(), Some(late(Rpc::ListContainers)));
    assert_eq!(client.all_images().await.err(), Some(late(Rpc::ListImages)));
    assert_eq!(client.container("x").await.err(), Some(late(Rpc::ContainerStatus)));
    assert_eq!(client.remove_image(image).await.err(), Some(late(Rpc::RemoveImage)));
    assert!(client.remove_container("x").await.is_err_and(|error| error.is_unanswered()));
    // Stopping has its grace period on top.
    let after = Duration::from_millis(1400);
    let stopped = client.stop_container("x", Duration::from_secs(1)).await;
    assert_eq!(stopped, Err(Error::Deadline { rpc: Rpc::StopContainer, after }));
    Ok(())
}

#[tokio::test]
async fn a_refusal_has_the_runtimes_words_and_what_is_missing_is_no_error() -> Result<()> {
    let (world, _) = pods(1, 0);
    let server = CriServer::start(Settings::default(), world)?;
    let client = connect(&server).await?;
    assert_eq!(client.container("absent").await?, None);
    assert_eq!(client.sandbox("absent").await?, None);
    client.remove_container("absent").await?;
    client.stop_container("absent", Duration::ZERO).await?;
    client.stop_sandbox("absent").await?;
    client.remove_sandbox("absent").await?;
    let image = ImageSpec { image: "absent".to_owned(), ..ImageSpec::default() };
    assert_eq!(client.image(image.clone()).await?, None);
    client.remove_image(image).await?;

    // Another collector is faster.
    let removing = "failed to set removing state: container is already in removing state".to_owned();
    server.fault(Fault::about(Rpc::RemoveContainer, "removing", Effect::Fail(Code::Unknown, removing)));
    client.remove_container("removing").await?;

    server.fault(Fault::every(
        Rpc::RemoveContainer,
        Effect::Fail(Code::Unknown, "device is \u{1b}[2Jbusy".to_owned()),
    ));
    let error = client.remove_container("absent").await.expect_err("refused").to_string();
    assert!(error.contains("device is \\u{1b}[2Jbusy") && error.contains("RemoveContainer"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_status_of_another_image_is_no_answer() -> Result<()> {
    let mut world = World::default();
    let info = Some(r#"{"imageSpec":{"config":{"Labels":{"a":"1"}}}}"#.to_owned());
    let id = world.add_image(NewImage { tags: vec!["other".to_owned()], info, ..NewImage::default() });
    let server = CriServer::start(Settings::default(), world)?;
    let client = connect(&server).await?;
    for (image, is_it) in [(id, true), ("other".to_owned(), false)] {
        let spec = ImageSpec { image, ..ImageSpec::default() };
        assert_eq!(client.image(spec.clone()).await.is_ok_and(|found| found.is_some()), is_it);
        let labels = client.image_labels(spec).await;
        assert!(labels.is_ok() == is_it, "{labels:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_runtime_that_is_not_ready_is_no_other_program() -> Result<()> {
    let server = CriServer::start(Settings::default(), World::default())?;
    server.fault(Fault::every(Rpc::Version, Effect::Fail(Code::Unavailable, "initializing".to_owned())));
    let error = connect(&server).await.expect_err("not ready");
    assert!(matches!(error, Error::NotReady { rpc: Rpc::Version, .. }), "{error}");
    Ok(())
}

#[tokio::test]
async fn nothing_is_sent_that_names_nothing() -> Result<()> {
    let server = CriServer::start(Settings::default(), World::default())?;
    let client = connect(&server).await?;
    server.clear_journal();
    let nothing = |rpc| Err(Error::NothingNamed { rpc });
    assert_eq!(client.remove_container("").await, nothing(Rpc::RemoveContainer));
    assert_eq!(client.stop_container("", Duration::ZERO).await, nothing(Rpc::StopContainer));
    assert_eq!(client.stop_sandbox("").await, nothing(Rpc::StopPodSandbox));
    assert_eq!(client.remove_sandbox("").await, nothing(Rpc::RemovePodSandbox));
    assert_eq!(client.remove_image(ImageSpec::default()).await, nothing(Rpc::RemoveImage));
    assert_eq!(client.image(ImageSpec::default()).await.map(drop), nothing(Rpc::ImageStatus));
    assert_eq!(server.journal(), []);
    Ok(())
}

#[tokio::test]
async fn a_restart_ends_a_call_and_the_next_one_connects_again() -> Result<()> {
    let (world, _) = pods(3, 0);
    let server = CriServer::start(Settings::default(), world)?;
    let client = connect(&server).await?;
    let containers: Vec<String> =
        client.containers(None).await?.into_iter().map(|container| container.id).collect();
    for (id, done) in containers.iter().zip([true, false]) {
        server.fault(Fault::about(
            Rpc::RemoveContainer,
            id,
            Effect::Restart { done, down: Duration::from_millis(200) },
        ));
        let error = client.remove_container(id).await.expect_err("no answer");
        assert!(
            matches!(error, Error::Disconnected { .. } | Error::NoSocket { .. } | Error::NotListening { .. }),
            "{error}"
        );
        server.clear_faults();
        // Whether it was carried out cannot be known before it is listed again.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        let left = loop {
            match client.containers(None).await {
                Ok(left) => break ids(&left),
                Err(error) => ensure!(tokio::time::Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(!left.contains(id), done);
    }
    Ok(())
}

#[tokio::test]
async fn every_call_is_counted() -> Result<()> {
    let (world, _) = pods(1, 0);
    let server = CriServer::start(Settings::default(), world)?;
    let seen: Arc<Mutex<Vec<(Rpc, bool)>>> = Arc::default();
    let into = Arc::clone(&seen);
    let observer = move |rpc, failed, elapsed| {
        assert!(elapsed < Duration::from_secs(60));
        into.lock().expect("not poisoned").push((rpc, failed));
    };
    let settings = client::Settings { observer: Some(Arc::new(observer)), ..client::Settings::default() };
    let client = Client::connect(server.endpoint(), settings).await?;
    client.containers(None).await?;
    client.container("absent").await?;
    let expected = [(Rpc::Version, false), (Rpc::ListContainers, false), (Rpc::ContainerStatus, true)];
    assert_eq!(*seen.lock().expect("not poisoned"), expected);
    Ok(())
}
