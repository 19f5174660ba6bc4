//! Everything once, and what the runtime answers.

use std::fmt::Debug;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube_gc_cri::messages::*;
use kube_gc_cri::testing::Pod;
use kube_gc_cri::{Client, Error};

use crate::{BALLAST, SLEEP, container, eventually};

/// Does everything once, and writes down what the runtime answered, by names instead of ids.
pub(crate) async fn transcript<U: Future<Output = Result<u64>>>(
    client: &Client,
    logs: &Path,
    used: impl Fn() -> U,
) -> Result<Vec<String>> {
    let mut said = Vec::new();
    macro_rules! say {
        ($what:expr, $answer:expr) => {{
            let what: &str = $what;
            said.push(format!("{what}: {:?}", $answer));
        }};
    }
    let app = "test.local/app:1";
    say!("the image of sandboxes", client.status().await?.sandbox_image());
    let web = Pod::start(client, logs, "default", "web", "uid-web", 0).await?;
    let job = Pod::start(client, logs, "batch", "job", "uid-job", 0).await?;
    let running = web.run(client, &container("app", 1, app, SLEEP)).await?;
    let created = web.create(client, &container("next", 0, app, SLEEP)).await?;
    let failed = web.run(client, &container("app", 0, app, &["/busybox", "false"])).await?;
    let done = job.run(client, &container("work", 0, "test.local/job:1", &["/busybox", "true"])).await?;
    for id in [&failed, &done] {
        eventually(async || {
            let status = client.container(id).await.ok()??;
            (status.state() == ContainerState::ContainerExited).then_some(())
        })
        .await?;
    }

    // Lists and filters.
    say!("all containers", containers(client, ContainerFilter::default()).await);
    for state in [0, 1, 2, 3, 99] {
        let filter =
            ContainerFilter { state: Some(ContainerStateValue { state }), ..ContainerFilter::default() };
        say!(&format!("state {state}"), containers(client, filter).await);
    }
    for (key, value) in [(POD_UID, "uid-web"), (POD_UID, "uid-none"), ("none", "uid-web"), (POD_UID, "")] {
        let label_selector = [(key.to_owned(), value.to_owned())].into();
        let filter = ContainerFilter { label_selector, ..ContainerFilter::default() };
        say!(&format!("label {key}={value}"), containers(client, filter).await);
    }
    for id in [running.as_str(), &running[..13], "none"] {
        let filter = ContainerFilter { id: id.to_owned(), ..ContainerFilter::default() };
        say!("by id", containers(client, filter).await);
    }
    for id in [web.sandbox(), &web.sandbox()[..13], "none"] {
        let state = Some(ContainerStateValue { state: 2 });
        let filter = ContainerFilter { pod_sandbox_id: id.to_owned(), state, ..ContainerFilter::default() };
        say!("by sandbox and state", containers(client, filter).await);
    }
    say!("all sandboxes", sandboxes(client, PodSandboxFilter::default()).await);
    for state in [0, 1] {
        let filter =
            PodSandboxFilter { state: Some(PodSandboxStateValue { state }), ..PodSandboxFilter::default() };
        say!(&format!("sandboxes in state {state}"), sandboxes(client, filter).await);
    }
    let label_selector = [(POD_UID.to_owned(), "uid-job".to_owned())].into();
    let filter = PodSandboxFilter { label_selector, ..PodSandboxFilter::default() };
    say!("sandboxes by label", sandboxes(client, filter).await);

    // One by one.
    for id in [&running, &created, &failed, &done] {
        say!("status", status_of(client, id).await?);
    }
    say!("status by a beginning", client.container(&running[..13]).await.map(|found| found.is_some()));
    for id in ["none", ""] {
        let container_id = id.to_owned();
        let pod_sandbox_id = id.to_owned();
        let named = |call: &str| format!("{call} of {id:?}");
        say!(
            &named("status"),
            outcome(
                client
                    .call(ContainerStatusRequest {
                        container_id: container_id.clone(),
                        ..ContainerStatusRequest::default()
                    })
                    .await
            )
        );
        say!(
            &named("start"),
            outcome(client.call(StartContainerRequest { container_id: container_id.clone() }).await)
        );
        let stop = StopContainerRequest { container_id: container_id.clone(), timeout: 0 };
        say!(&named("stop"), outcome(client.call(stop).await));
        say!(&named("removal"), outcome(client.call(RemoveContainerRequest { container_id }).await));
        let request = PodSandboxStatusRequest {
            pod_sandbox_id: pod_sandbox_id.clone(),
            ..PodSandboxStatusRequest::default()
        };
        say!(&named("sandbox status"), outcome(client.call(request).await));
        let request = StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() };
        say!(&named("sandbox stop"), outcome(client.call(request).await));
        say!(
            &named("sandbox removal"),
            outcome(client.call(RemovePodSandboxRequest { pod_sandbox_id }).await)
        );
        let image = Some(ImageSpec { image: id.to_owned(), ..ImageSpec::default() });
        say!(
            &named("image status"),
            outcome(
                client
                    .call(ImageStatusRequest { image: image.clone(), ..ImageStatusRequest::default() })
                    .await
            )
        );
        say!(&named("image removal"), outcome(client.call(RemoveImageRequest { image }).await));
    }
    say!("whose layers have a size", with_sizes(client).await?);
    say!("the same name again", outcome(web.create(client, &container("app", 1, app, SLEEP)).await));
    say!(
        "an image that is not there",
        outcome(web.create(client, &container("x", 0, "test.local/x:1", SLEEP)).await)
    );
    say!("start again", outcome(start(client, &running).await));
    say!("start what has ended", outcome(start(client, &failed).await));

    // Images.
    let images = client.all_images().await?;
    let mut tags: Vec<_> = images.iter().flat_map(|image| image.repo_tags.clone()).collect();
    tags.sort();
    say!("images", (tags, images.iter().any(|image| image.pinned || !image.repo_digests.is_empty())));
    let id = client.image(app).await?.context("an image")?.id;
    let bare = id.strip_prefix("sha256:").context("a digest")?;
    for name in [id.as_str(), bare, &bare[..13]] {
        say!("image by id", client.image(name).await?.map(|image| image.repo_tags));
    }
    let filter =
        Some(ImageFilter { image: Some(ImageSpec { image: app.to_owned(), ..ImageSpec::default() }) });
    say!("images by a filter", client.call(ListImagesRequest { filter }).await?.images.len());
    let full = used().await?;
    say!("removal of an image that nothing uses", remove_image(client, "test.local/old:1").await);
    eventually(async || (used().await.ok()? <= full - BALLAST / 2).then_some(())).await?;
    let before = used().await?;
    say!("removal of an image by its id that a container runs", remove_image(client, &id).await);
    say!("the image", client.image(app).await?.map(|image| image.repo_tags));
    say!("the container of a removed image", status_of(client, &running).await?);
    say!("another container of it", outcome(web.create(client, &container("y", 0, app, SLEEP)).await));
    say!("again", remove_image(client, &id).await);
    // Containers keep the layers.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let kept = used().await? + BALLAST / 2 > before - BALLAST;
    say!("layers that containers have are kept", kept);

    // Containers.
    let stop = |id: &str| client.call(StopContainerRequest { container_id: id.to_owned(), timeout: 0 });
    say!("stop of what has not started", outcome(stop(&created).await));
    say!("what has not started", status_of(client, &created).await?);
    say!("stop of what has ended", outcome(stop(&done).await));
    say!("removal of what has ended", outcome(client.remove_container(&failed).await));
    say!("removal of what has not started", outcome(client.remove_container(&created).await));
    say!("removal of what runs", outcome(client.remove_container(&running).await));
    say!("removal again", outcome(client.remove_container(&running).await));
    say!("all containers", containers(client, ContainerFilter::default()).await);

    // Sandboxes.
    let long = job.run(client, &container("long", 0, "test.local/job:1", SLEEP)).await?;
    let late = job.create(client, &container("late", 0, "test.local/job:1", SLEEP)).await?;
    say!("stop of a sandbox", outcome(client.stop_sandbox(job.sandbox()).await));
    say!("stop again", outcome(client.stop_sandbox(job.sandbox()).await));
    say!("what ran in it", status_of(client, &long).await?);
    say!("what had not started", status_of(client, &late).await?);
    say!("sandboxes", sandboxes(client, PodSandboxFilter::default()).await);
    say!("start in a stopped sandbox", outcome(start(client, &late).await));
    say!("removal of a sandbox with containers", outcome(client.remove_sandbox(job.sandbox()).await));
    say!("removal of it again", outcome(client.remove_sandbox(job.sandbox()).await));
    say!("status of it", outcome(client.sandbox(job.sandbox()).await));
    web.run(client, &container("last", 0, "test.local/job:1", SLEEP)).await?;
    say!("removal of a sandbox that is ready", outcome(client.remove_sandbox(web.sandbox()).await));
    say!("all containers", containers(client, ContainerFilter::default()).await);
    say!("all sandboxes", sandboxes(client, PodSandboxFilter::default()).await);
    let again = Pod::start(client, logs, "default", "web", "uid-web", 0).await;
    say!("a sandbox of the same name", again.as_ref().map(|_| ()).map_err(kind));
    let pod = again?;
    let twice = Pod::start(client, logs, "default", "web", "uid-web", 0).await;
    say!("the same twice", twice.map(|_| ()).map_err(|error| kind(&error)));
    client.remove_sandbox(pod.sandbox()).await?;
    Ok(said)
}

/// An answer without what differs between runtimes.
fn outcome<T>(answer: Result<T, Error>) -> Result<(), String> {
    answer.map(|_| ()).map_err(|error| kind(&error))
}

fn kind(error: &Error) -> String {
    match error {
        Error::Runtime { code, .. } => format!("runtime, {code}"),
        error => error.reason().to_owned(),
    }
}

async fn start(client: &Client, id: &str) -> Result<StartContainerResponse, Error> {
    client.call(StartContainerRequest { container_id: id.to_owned() }).await
}

async fn remove_image(client: &Client, image: &str) -> Result<(), String> {
    outcome(client.remove_image(ImageSpec { image: image.to_owned(), ..ImageSpec::default() }).await)
}

/// Containers by name and attempt, with what node collection looks at.
async fn containers(client: &Client, filter: ContainerFilter) -> Result<Vec<String>, String> {
    let containers = client.containers(Some(filter)).await.map_err(|error| kind(&error))?;
    let mut shown: Vec<String> = containers
        .iter()
        .map(|container| {
            let metadata = container.metadata.clone().unwrap_or_default();
            let image = container.image.clone().unwrap_or_default().image;
            let is_sane = container.created_at > 1_600_000_000_000_000_000
                && container.image_ref.starts_with("sha256:")
                && !container.pod_sandbox_id.is_empty();
            let labels = &container.labels;
            format!(
                "{} {} {:?} {image} {is_sane} {labels:?}",
                metadata.name,
                metadata.attempt,
                container.state()
            )
        })
        .collect();
    shown.sort();
    Ok(shown)
}

/// The containers of which it is known how much they have written, whether they run or not.
async fn with_sizes(client: &Client) -> Result<Vec<String>> {
    let sizes = client.layer_sizes().await?;
    let known =
        client.containers(None).await?.into_iter().filter(|container| sizes.contains_key(&container.id));
    let mut shown: Vec<String> = known
        .map(|container| {
            let metadata = container.metadata.clone().unwrap_or_default();
            format!("{} {} {:?}", metadata.name, metadata.attempt, container.state())
        })
        .collect();
    shown.sort();
    Ok(shown)
}

async fn sandboxes(client: &Client, filter: PodSandboxFilter) -> Result<Vec<String>, String> {
    let sandboxes = client.sandboxes(Some(filter)).await.map_err(|error| kind(&error))?;
    let mut shown: Vec<String> = sandboxes
        .iter()
        .map(|sandbox| {
            let is_sane = sandbox.created_at > 1_600_000_000_000_000_000;
            let PodSandbox { metadata, labels, annotations, runtime_handler, .. } = sandbox;
            format!(
                "{metadata:?} {:?} {is_sane} {labels:?} {annotations:?} {runtime_handler:?}",
                sandbox.state()
            )
        })
        .collect();
    shown.sort();
    Ok(shown)
}

async fn status_of(client: &Client, id: &str) -> Result<impl Debug> {
    let Some(status) = client.container(id).await? else { bail!("there is no container {id}") };
    let times = (status.started_at > 0, status.finished_at > 0);
    let image = status.image.clone().unwrap_or_default().image;
    let log = status.log_path.clone();
    Ok((status.metadata.clone(), status.state(), times, status.exit_code, status.reason, image, log))
}
