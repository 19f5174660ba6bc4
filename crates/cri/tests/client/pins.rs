//! The proxy that sets pins.

use super::*;
use kube_gc_cri::testing::Pins;

fn image(name: &str) -> NewImage {
    NewImage {
        tags: vec![format!("{name}:1")],
        digests: vec![format!("{name}@sha256:1")],
        ..NewImage::default()
    }
}

#[tokio::test]
async fn pins_are_all_that_the_proxy_changes() -> Result<()> {
    let (mut world, _) = pods(2, 1);
    world.add_image(image("pinned"));
    world.add_image(NewImage { pinned: true, ..image("pinned-before") });
    let server = CriServer::start(Settings::default(), world)?;
    let pins = Pins::start(server.endpoint(), ["pinned:1", "absent:1"])?;
    let direct = connect(&server).await?;
    let proxied = Client::connect(pins.endpoint(), client::Settings::default()).await?;

    let mut images = direct.all_images().await?;
    ensure!(images.len() == 3);
    for image in &mut images {
        image.pinned |= image.repo_tags == ["pinned:1"];
    }
    assert_eq!(proxied.all_images().await?, images);
    for image in &images {
        assert_eq!(proxied.image(&image.id).await?.as_ref(), Some(image));
    }
    assert_eq!(proxied.image("absent:1").await?, None);
    assert_eq!(proxied.runtime(), direct.runtime());
    assert_eq!(proxied.status().await?, direct.status().await?);
    assert_eq!(proxied.containers(None).await?, direct.containers(None).await?);
    assert_eq!(proxied.container("absent").await, direct.container("absent").await);

    // A refusal stays one, also of the two calls.
    let failure = || Effect::Fail(Code::Unknown, "no such device".to_owned());
    for rpc in [Rpc::ListImages, Rpc::ImageStatus, Rpc::RemoveImage] {
        server.fault(Fault::every(rpc, failure()));
    }
    let spec = || ImageSpec { image: "pinned:1".to_owned(), ..ImageSpec::default() };
    let refused = proxied.all_images().await;
    ensure!(
        matches!(&refused, Err(Error::Runtime { detail, .. }) if detail == "no such device"),
        "{refused:?}"
    );
    assert_eq!(refused, direct.all_images().await);
    assert_eq!(proxied.image("pinned:1").await, direct.image("pinned:1").await);
    assert_eq!(proxied.remove_image(spec()).await, direct.remove_image(spec()).await);
    server.clear_faults();

    // The runtime removes what is pinned.
    proxied.remove_image(spec()).await?;
    assert_eq!(direct.image("pinned:1").await?, None);
    Ok(())
}

#[tokio::test]
async fn the_proxy_ends_with_its_value_and_connections_with_the_runtimes() -> Result<()> {
    let (world, _) = pods(1, 0);
    let server = CriServer::start(Settings::default(), world)?;
    let pins = Pins::start(server.endpoint(), [])?;
    let proxied = Client::connect(pins.endpoint(), hasty()).await?;
    // Calls that the runtime never answers end with the connection.
    server.fault(Fault::every(Rpc::RemoveContainer, Effect::Restart { done: false, down: Duration::ZERO }));
    let error = proxied.remove_container("x").await.expect_err("no answer");
    ensure!(matches!(error, Error::Disconnected { .. }), "{error}");

    drop(pins);
    let error = proxied.containers(None).await.expect_err("nothing listens");
    ensure!(matches!(error, Error::NoSocket { .. } | Error::Disconnected { .. }), "{error}");
    let error = Client::connect(proxied.endpoint(), hasty()).await.expect_err("nothing listens");
    ensure!(matches!(error, Error::NoSocket { .. }), "{error}");
    Ok(())
}
