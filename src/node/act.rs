//! Carries out a plan, step by step, and records what came of it. `image` alone removes images, `remove` alone
//! containers and sandboxes, and `files` alone logs and symlinks.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use kube_gc_cri::messages::{Container, PodSandbox};
use kube_gc_node::pass::{Outcome, PATIENCE, Pass, Record, Scope, Step};
use kube_gc_node::plan::{Candidate, What};
use kube_gc_node::pressure::Usage;
use kube_gc_node::{Refusal, Rule};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::collector::soon;
use super::look::pod_keys;
use super::remove::Fault;
use super::{Look, NodeCollector, NodeError, PassResult, disk};
use kube_gc_client::ApiError;
use kube_gc_observe::telemetry::record;

/// After so many removals in a row that got no answer, a pass ends: each of them takes minutes.
const MOST_UNANSWERED: usize = 3;
/// Why a pass ends if somebody wants it to.
pub(super) const END: &str = "it was asked to end";
/// What has failed although the runtime does not say so.
pub(super) const LISTED: &str = "the runtime says that it is gone, and lists it";
/// How long to wait until it is asked again whether something is still listed.
const PAUSE: Duration = Duration::from_millis(100);

/// A pass under way.
pub(super) struct Progress<'a> {
    pub look: &'a Look,
    pub pass: Pass,
    /// How full the file system of the images was last.
    usage: Option<Usage>,
    /// How many of the last removals got no answer.
    pub unanswered: usize,
    /// When a consistent list of pods was last asked for.
    pub asked: Option<Instant>,
    /// Why pods could not be listed.
    pub api_error: Option<ApiError>,
    /// Whether it is asked to end.
    pub cancel: &'a CancellationToken,
}

/// What came of a removal.
pub(super) struct Ended {
    record: Record,
    is_unanswered: bool,
}

impl Progress<'_> {
    /// Whether the API server did not answer: it would take as long again.
    pub fn is_silent(&self) -> bool {
        self.api_error.as_ref().is_some_and(ApiError::is_unanswered)
    }

    /// Records what came of a candidate; nothing if it was not tried.
    pub fn record(&mut self, ended: Option<Ended>) {
        let Some(Ended { record, is_unanswered }) = ended else { return };
        self.unanswered = if is_unanswered { self.unanswered + 1 } else { 0 };
        self.pass.record(record);
    }
}

impl NodeCollector {
    /// Carries out a plan, until it is done or `cancel` asks it to end. Each candidate is looked at
    /// again right before its removal.
    ///
    /// # Errors
    /// The plan breaks one of its own invariants; nothing was removed.
    pub async fn carry_out(
        &mut self,
        look: &Look,
        scope: Scope,
        cancel: &CancellationToken,
    ) -> Result<PassResult, NodeError> {
        if !look.violations.is_empty() {
            return Err(NodeError::Unsafe(look.violations.join("; ")));
        }
        let start = Instant::now();
        let (before, cancel) = (look.files.image_usage, &cancel.child_token());
        let (pass, api_error) = (Pass::new(&look.plan, scope), look.api_error.clone());
        let mut on = Progress { look, pass, usage: before, unanswered: 0, asked: None, api_error, cancel };
        let interrupted = self.take_steps(&mut on).await.err();
        if interrupted.is_some() {
            cancel.cancel();
        }
        let Progress { pass, usage, api_error, .. } = on;
        let usage = self.disk.as_ref().and_then(|(_, disk)| disk.usage().ok()).or(usage);
        let (missing_bytes, missing_inodes) = pass.missing();
        // Without a measurement before the plan, `--free` could not even become a goal.
        let was_asked = self.rules.free.is_some() && scope != Scope::Containers;
        let unmeasured = pass.is_unmeasured() || (was_asked && before.is_none());
        let mut items = pass.into_records();
        self.doubt(look, &mut items, cancel).await;
        for Record { candidate, outcome } in items.iter().filter(|item| item.outcome == Outcome::Removed) {
            tell(candidate, outcome);
        }
        self.tried.update(&look.plan, &items);
        if !items.is_empty() {
            self.save();
        }
        let count = |is: fn(&Outcome) -> bool| items.iter().filter(|item| is(&item.outcome)).count();
        let unlisted = api_error.filter(|_| look.api_error.is_none());
        let note = unlisted.map(|error| note!("pods could not be listed before each image: {error}"));
        let gained = before.zip(usage).map(|(before, now)| now.available.saturating_sub(before.available));
        Ok(PassResult {
            removed: count(|outcome| matches!(outcome, Outcome::Removed)),
            refused: count(|outcome| matches!(outcome, Outcome::Refused(_))),
            failed: count(|outcome| matches!(outcome, Outcome::Failed(_))),
            freed_bytes: gained.unwrap_or_default(),
            missing_bytes,
            missing_inodes,
            unmeasured,
            interrupted,
            seconds: (start.elapsed().as_secs_f64() * 1000.0).floor() / 1000.0,
            items,
            usage,
            note,
        })
    }

    /// Takes one step after the other. An error is why the pass ends early.
    async fn take_steps(&mut self, on: &mut Progress<'_>) -> Result<(), String> {
        loop {
            if on.cancel.is_cancelled() {
                return Err(END.to_owned());
            }
            match on.pass.next_step() {
                Step::Done => return Ok(()),
                Step::Remove(candidates) => self.remove_these(candidates, on).await?,
                Step::Measure { patience, until } => self.measure(patience, until, on).await,
            }
        }
    }

    async fn remove_these(&mut self, these: Vec<Candidate>, on: &mut Progress<'_>) -> Result<(), String> {
        if these.iter().any(|candidate| candidate.what() == What::Image) {
            for image in these {
                self.remove_image(image, on).await?;
            }
        } else {
            let (pods, cancel) = (&on.look.pods, on.cancel);
            let remove = async |it| {
                let removed = self.remove(&it, pods, cancel).await;
                ended(it, removed)
            };
            let all = join_all(these.into_iter().map(remove)).await;
            all.into_iter().for_each(|ended| on.record(ended));
        }
        if on.unanswered < MOST_UNANSWERED {
            return Ok(());
        }
        Err(format!("the container runtime left {MOST_UNANSWERED} calls in a row unanswered"))
    }

    async fn measure(&mut self, patience: Duration, until: u64, on: &mut Progress<'_>) {
        let measured = async {
            let disk = self.disk(&mut Vec::new()).await.ok_or("it is not known where images are stored")?;
            disk::measure(&*disk, until, patience).await
        };
        let Some(measured) = on.cancel.run_until_cancelled(measured).await else { return };
        let measured = measured.map_err(|problem| tracing::warn!("{problem}")).ok();
        on.usage = measured.or(on.usage);
        on.pass.measured(measured);
    }

    /// What is listed although the runtime says that it is gone has failed. What somebody else removes just now has
    /// some time for it. Images were listed right after their removal.
    async fn doubt(&self, look: &Look, items: &mut [Record], cancel: &CancellationToken) {
        let is_gone = |item: &&mut Record| {
            matches!(item.candidate.what(), What::Container | What::Sandbox)
                && item.outcome == Outcome::Removed
        };
        let mut gone: Vec<&mut Record> = items.iter_mut().filter(is_gone).collect();
        let (keys, until) = (pod_keys(&look.files), Instant::now() + PATIENCE);
        let mut why = LISTED.to_owned();
        while !gone.is_empty() {
            let (containers, sandboxes) =
                (self.client.all::<Container>(&keys), self.client.all::<PodSandbox>(&keys));
            let now = Box::pin(async { tokio::try_join!(containers, sandboxes) });
            let (containers, sandboxes) = match soon(cancel, now).await {
                Some(Ok(listed)) => listed,
                unknown => {
                    let error = unknown.and_then(Result::err);
                    let error = error.map_or(END.to_owned(), |error| error.to_string());
                    why = format!("it is not known whether it has gone: {error}");
                    break;
                }
            };
            let containers = containers.items.iter().map(|container| &container.id);
            let sandboxes = sandboxes.items.iter().map(|sandbox| &sandbox.id);
            let listed: HashSet<&str> = containers.chain(sandboxes).map(String::as_str).collect();
            gone.retain(|item| listed.contains(item.candidate.id()));
            if gone.is_empty() || Instant::now() >= until || cancel.is_cancelled() {
                break;
            }
            sleep(PAUSE).await;
        }
        for Record { candidate, outcome } in gone {
            *outcome = Outcome::Failed(why.clone());
            tell(candidate, outcome);
        }
    }
}

/// What a removal has come to; nothing if it was not tried. What somebody else has removed meanwhile is gone as well.
pub(super) fn ended(candidate: Candidate, removed: Result<(), Fault>) -> Option<Ended> {
    let is_unanswered = matches!(&removed, Err(Fault::Runtime(error)) if error.is_unanswered());
    let outcome = match removed {
        Ok(()) | Err(Fault::Refused(Refusal::AlreadyGone)) => Outcome::Removed,
        Err(Fault::Refused(refusal)) => Outcome::Refused(refusal),
        Err(Fault::NotTried) => return None,
        Err(error) => Outcome::Failed(error.to_string()),
    };
    // At once: the others may take minutes. What went is told when a list has shown it.
    if outcome != Outcome::Removed {
        tell(&candidate, &outcome);
    }
    Some(Ended { record: Record { candidate, outcome }, is_unanswered })
}

/// Says what came of a candidate, in the log and in metrics.
fn tell(candidate: &Candidate, outcome: &Outcome) {
    let what: &str = candidate.what().into();
    let (rule, name, id, bytes) = (candidate.rule.number(), &candidate.name, candidate.id(), candidate.bytes);
    match outcome {
        Outcome::Removed => {
            tracing::info!(what, name, id, rule, bytes, "removed");
            if candidate.what() == What::Image {
                record::node_image_collected(if candidate.rule == Rule::I6 { "age" } else { "space" });
            }
        }
        Outcome::Refused(refusal) => {
            tracing::info!(what, name, id, rule, reason = %refusal, "stays after all");
        }
        Outcome::Failed(error) => tracing::warn!(what, name, id, rule, error, "cannot be removed"),
    }
    record::node_removal(what, rule, outcome.into());
}
