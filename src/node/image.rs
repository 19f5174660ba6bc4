//! Looks at one image and at what may use it, and removes it. Nothing else here removes images, and this no files.

use std::time::Duration;

use kube_gc_cri as cri;
use kube_gc_cri::messages::{Container, ImageSpec, PodSandbox};
use kube_gc_node::plan::{Candidate, Target};
use kube_gc_node::recheck::Fresh;
use kube_gc_node::view::{Listed, Pod};
use kube_gc_node::{Files, PodView, Refusal, RuntimeView, still_removable};
use tokio::time::Instant;

use super::act::{END, LISTED, Progress, ended};
use super::collector::soon;
use super::look::pod_keys;
use super::remove::{Fault, looked};
use super::{NodeCollector, PodSource, view};
use kube_gc_client::PodWatch;

/// How long what a consistent list has told of pods is enough, beside a watch. For one, old API servers read all pods
/// of the cluster.
const CONSISTENT: Duration = Duration::from_secs(10);
/// What was to go, and has left the line.
const UNLISTED: &str = "it is there, and was not listed after another removal, so it may be a new one";

impl NodeCollector {
    /// Removes an image if nothing uses it now. An error is why the pass ends.
    pub(super) async fn remove_image(&mut self, it: Candidate, on: &mut Progress<'_>) -> Result<(), String> {
        let Some(spec) = spec(&it) else { return Ok(()) };
        self.save_without(&it);
        // Another process may have seen it go since the look.
        let age = it.image_key().and_then(|key| self.ledger.age(&key)).unwrap_or_default();
        if age.detected < self.rules.images.min_age {
            on.record(ended(it, Err(Refusal::Changed.into())));
            return Ok(());
        }
        let seen = looked(on.cancel, Box::pin(self.see(&spec, on))).await;
        if let (None, Some(why)) = (self.rules.beside_kubelet, self.kubelet()) {
            return Err(format!("a kubelet runs on this node: {why}"));
        }
        let (runtime, pods) = seen.map_err(|error| match error {
            Fault::NotTried => END.to_owned(),
            error => format!("what uses images cannot be listed: {error}"),
        })?;
        let files = &Files::default();
        let may_go = |runtime| still_removable(&it, &Fresh { runtime: &runtime, pods: &pods, files });
        let removed: Result<(), Fault> = match runtime.map(may_go) {
            Ok(Ok(())) => self.client.remove_image(spec).await.map_err(|error| {
                if error.is_unanswered() {
                    // The runtime may still remove it, and if it is pulled again then, it is young.
                    self.ledger.forget(&it);
                }
                error.into()
            }),
            Ok(Err(Refusal::AlreadyGone)) => Ok(()),
            Ok(Err(refusal)) => {
                on.record(ended(it, Err(refusal.into())));
                return Ok(());
            }
            Err(error) => Err(error.into()),
        };
        // At once: what is not listed now has gone, also if it is pulled again a moment later.
        let images: Vec<_> = match soon(on.cancel, self.client.all_images()).await {
            Some(Ok(images)) => images.into_iter().map(view::image).collect(),
            unknown => {
                // If it has gone and is pulled again, it is young.
                self.ledger.forget(&it);
                let error = unknown.and_then(Result::err);
                let why = error.map_or(END.to_owned(), |error| format!("images cannot be listed: {error}"));
                let unknown = format!("it is not known whether it has gone: {why}");
                on.record(ended(it, Err(removed.err().unwrap_or_else(|| unknown.into()))));
                return Err(why);
            }
        };
        self.ledger.retain(&images);
        // Somebody else has removed them, or the list was not whole.
        for other in on.pass.listed(&images) {
            let Some(spec) = self::spec(&other) else { continue };
            let fault: Fault = match soon(on.cancel, self.client.image(spec)).await {
                None => break,
                Some(Ok(None)) => continue,
                Some(Ok(Some(_))) => UNLISTED.to_owned().into(),
                Some(Err(error)) => error.into(),
            };
            on.record(ended(other, Err(fault)));
            if on.unanswered > 0 {
                break;
            }
        }
        let is_listed = images.iter().any(|image| it.image_key() == Some(image.key()));
        let removed = if is_listed { removed.and(Err(LISTED.to_owned().into())) } else { Ok(()) };
        on.record(ended(it, removed));
        Ok(())
    }

    /// Looks at what may use an image by now, and at the image, right before its removal (B2).
    ///
    /// Whatever is listed first is the oldest at the removal, so the API server, which may take long, comes first. A
    /// pod may have been bound meanwhile: a watch has heard of it, and without one, another list tells.
    async fn see(
        &mut self,
        image: &ImageSpec,
        on: &mut Progress<'_>,
    ) -> Result<(Result<RuntimeView, cri::Error>, PodView), cri::Error> {
        if on.asked.is_none_or(|asked| asked.elapsed() >= CONSISTENT) {
            on.asked = Some(Instant::now());
            self.known = self.list_pods(true, on).await.or(self.known.take());
        }
        let was_silent = on.is_silent();
        let mut seen = self.see_now(image, &on.look.files).await?;
        let is_watched = self.pods.as_ref().is_some_and(PodSource::is_watched);
        let late = if is_watched { None } else { self.list_pods(false, on).await };
        if on.is_silent() && !was_silent {
            // By now, what was listed before is too old.
            seen = self.see_now(image, &on.look.files).await?;
        }
        Ok((seen, listed(self.known_pods(), late)))
    }

    /// What uses images, and the image.
    ///
    /// containerd has a container before CRI lists it, and is asked after CRI, so it tells one that was made meanwhile.
    /// The image comes last: who gives it a new name, and uses it by that, may have come after the lists of users, but
    /// then the image has that name, and stays.
    async fn see_now(
        &mut self,
        image: &ImageSpec,
        files: &Files,
    ) -> Result<Result<RuntimeView, cri::Error>, cri::Error> {
        let keys = pod_keys(files);
        if self.rules.beside_kubelet.is_none() {
            let sandboxes = self.client.all::<PodSandbox>(&keys).await?;
            self.notice_kubelet(&sandboxes.items);
        }
        let containers = self.client.all::<Container>(&keys).await?;
        let mut runtime = RuntimeView {
            containers_extent: view::extent(containers.is_whole),
            containers: containers.items.into_iter().map(view::container).collect(),
            ..RuntimeView::default()
        };
        self.learn_users(&mut runtime, &listed(self.known_pods(), None)).await?;
        let image = self.client.image(image.clone()).await;
        Ok(image.map(|image| {
            runtime.images.extend(image.map(view::image));
            runtime
        }))
    }

    /// The pods that are known without a request; nothing if none was ever read.
    pub(super) fn known_pods(&self) -> Option<Vec<Pod>> {
        let watch = self.pods.as_ref().and_then(|source| source.watch.as_ref());
        let watched = watch.map(PodWatch::last).unwrap_or_default();
        Some([self.known.clone()?, watched].concat())
    }

    /// The pods by a new list. If they cannot be listed, a pass goes on.
    async fn list_pods(&self, consistent: bool, on: &mut Progress<'_>) -> Option<Vec<Pod>> {
        let source = self.pods.as_ref().filter(|_| !on.is_silent())?;
        let listed = source.api.pods_of_node(&source.node, consistent).await;
        listed.map_err(|error| on.api_error = Some(error)).ok()
    }
}

fn listed(pods: Option<Vec<Pod>>, late: Option<Vec<Pod>>) -> PodView {
    let pods = pods.into_iter().chain(late).flatten().collect();
    PodView::Listed(Listed { pods, ..Listed::default() })
}

/// An image as calls name it.
fn spec(image: &Candidate) -> Option<ImageSpec> {
    let Target::Image { id, runtime_handler, .. } = &image.target else { return None };
    Some(view::image_spec(id, runtime_handler.as_deref()))
}
