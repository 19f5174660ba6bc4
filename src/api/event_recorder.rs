//! Reports wrong owner references by log lines, events and counters.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::{Discriminant, discriminant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Api, EVENT_MESSAGE_LIMIT, ErrorClass};
use crate::telemetry::{InvalidReference, PrintedReference, Structured, owner_reference, record};
use kube_gc_core::graph::Report;
use kube_gc_core::object::{Digest, Identity, OwnerReference, Uid};
use kube_gc_core::text::{LISTED, excerpt};

/// Reports that wait to be recorded. More at once is a flood of the same mistake: the rest is
/// counted, and the decision lines still name each of them.
const WAITING: usize = 1024;
/// How many (dependent, owner) pairs are remembered, so that each mistake is reported once.
const REMEMBERED: usize = 4096;
/// How many owners of one dependent are reported. The others are only counted: one report is enough
/// for its author.
const OF_ONE_DEPENDENT: usize = LISTED;
/// The reason of the event on a dependent whose reference crosses namespaces.
pub const OWNER_REF_INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";

/// A handle to the task that records events. It never waits, so that the graph is not held up.
#[derive(Debug, Clone)]
pub struct EventRecorder {
    reports: mpsc::Sender<Report>,
}

impl EventRecorder {
    /// A recorder, and the task that must be run for it.
    pub fn new(api: Api, ending: CancellationToken) -> (Self, impl Future<Output = ()> + Send) {
        let (reports, inbox) = mpsc::channel(WAITING);
        (Self { reports }, run(api, inbox, ending))
    }

    /// A recorder without a task.
    #[cfg(test)]
    pub fn silent() -> Self {
        Self { reports: mpsc::channel(1).0 }
    }

    /// Reports something. A reference waits as people see it, since its texts may be megabytes.
    pub fn report(&self, report: Report) {
        let report = match report {
            Report::NamespaceMismatch { dependent, reference } => {
                Report::NamespaceMismatch { dependent, reference: reference.shortened() }
            }
            Report::InvalidScope { dependent, reference } => {
                Report::InvalidScope { dependent, reference: reference.shortened() }
            }
            Report::UidCollision { .. } => report,
        };
        if self.reports.try_send(report).is_err() {
            record::report_dropped();
        }
    }
}

async fn run(api: Api, mut inbox: mpsc::Receiver<Report>, ending: CancellationToken) {
    let mut told = RecentReports::default();
    loop {
        let report = tokio::select! {
            biased;
            () = ending.cancelled() => return,
            report = inbox.recv() => match report {
                Some(report) => report,
                None => return,
            },
        };
        // One pair can be reported for more than one reason.
        let why = discriminant(&report);
        match report {
            Report::NamespaceMismatch { dependent, reference } => {
                if told.first(why, &dependent, &reference.uid)
                    && namespace_mismatch(&api, &dependent, &reference).await == Recorded::Later
                {
                    told.forget(why, &dependent, &reference.uid);
                }
            }
            Report::UidCollision { first, second } => {
                if told.first(why, &first, &second.uid) {
                    record::uid_collision();
                    tracing::warn!(
                        object = Structured::object(&first).logged(),
                        other = Structured::other_object(&second).logged(),
                        "two objects have the same uid; kube-gc handles each separately"
                    );
                }
            }
            Report::InvalidScope { dependent, reference } => {
                if told.first(why, &dependent, &reference.uid) {
                    record::invalid_reference(InvalidReference::InvalidScope);
                    tracing::warn!(
                        object = Structured::object(&dependent).logged(),
                        owner = owner_reference(&reference).logged(),
                        "a cluster-scoped object names an owner of a namespaced kind, so it is never collected; \
                         correct its ownerReferences"
                    );
                }
            }
        }
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    /// It was recorded, or a retry would not help.
    Finally,
    /// Not now, for example because another replica writes. The next decision on the dependent
    /// reports it again.
    Later,
}

async fn namespace_mismatch(api: &Api, dependent: &Identity, reference: &OwnerReference) -> Recorded {
    let place = match &dependent.namespace {
        Some(namespace) => format!("namespace \"{namespace}\""),
        None => "the cluster scope".to_owned(),
    };
    let message = mismatch_message(reference, &place);
    tracing::warn!(
        object = Structured::object(dependent).logged(),
        owner = owner_reference(reference).logged(),
        "the owner is in another namespace, so the owner reference is invalid; correct the ownerReferences"
    );
    record::invalid_reference(InvalidReference::NamespaceMismatch);
    match api.warn(dependent, OWNER_REF_INVALID_NAMESPACE, &message).await {
        Ok(()) => Recorded::Finally,
        Err(error) if error.class == ErrorClass::DryRun => Recorded::Finally,
        Err(error) => match error.class {
            ErrorClass::GateClosed
            | ErrorClass::Transient
            | ErrorClass::Throttled { .. }
            | ErrorClass::Deferred { .. } => {
                tracing::debug!(
                    object = Structured::object(dependent).logged(),
                    %error,
                    "cannot create the Warning event about this object; kube-gc retries"
                );
                Recorded::Later
            }
            _ => {
                tracing::warn!(
                    object = Structured::object(dependent).logged(),
                    %error,
                    "cannot create the Warning event about this object; check that kube-gc may create events"
                );
                Recorded::Finally
            }
        },
    }
}

/// The message of the event, as kube-controller-manager writes it. If it is too long for an event,
/// the reference is cut and not the end of the sentence.
fn mismatch_message(reference: &OwnerReference, place: &str) -> String {
    let reference = PrintedReference(reference).to_string();
    let message =
        |reference: &dyn std::fmt::Display| format!("ownerRef [{reference}] does not exist in {place}");
    let room = EVENT_MESSAGE_LIMIT.saturating_sub(message(&"").len());
    message(&excerpt(&reference, room))
}

/// What was reported lately.
#[derive(Debug, Default)]
struct RecentReports {
    pairs: HashSet<Pair>,
    order: VecDeque<Pair>,
    /// How many pairs each object is the first of.
    counts: HashMap<Digest, usize>,
}

/// What was reported about an object, and about which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pair {
    about: Digest,
    report: Digest,
}

impl Pair {
    fn new(why: Discriminant<Report>, about: &Identity, other: &Uid) -> Self {
        Self { about: Digest::of(&about.uid), report: Digest::of(&(why, &about.uid, other)) }
    }
}

impl RecentReports {
    fn first(&mut self, why: Discriminant<Report>, about: &Identity, other: &Uid) -> bool {
        let pair = Pair::new(why, about, other);
        if self.pairs.contains(&pair) {
            return false;
        }
        let count = self.counts.entry(pair.about).or_default();
        if *count >= OF_ONE_DEPENDENT {
            record::report_dropped();
            return false;
        }
        *count += 1;
        self.pairs.insert(pair);
        self.order.push_back(pair);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.uncount(oldest.about);
            self.pairs.remove(&oldest);
        }
        true
    }

    fn uncount(&mut self, about: Digest) {
        if let Some(count) = self.counts.get_mut(&about) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&about);
            }
        }
    }

    /// It could not be recorded after all.
    fn forget(&mut self, why: Discriminant<Report>, about: &Identity, other: &Uid) {
        let pair = Pair::new(why, about, other);
        if self.pairs.remove(&pair) {
            self.uncount(pair.about);
        }
        self.order.retain(|told| *told != pair);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::api::scripted::{Reply, Server, widget};
    use kube_gc_core::object::PropagationPolicy;

    #[test]
    fn few_warnings_are_sent_about_a_dependent_with_thousands_of_wrong_references() {
        let mut told = RecentReports::default();
        let why = discriminant(&Report::UidCollision { first: widget(), second: widget() });
        let uid = |number: usize| Uid::parse(&format!("owner-{number}")).unwrap();
        let first = (0..8000).filter(|number| told.first(why, &widget(), &uid(*number))).count();
        assert_eq!((first, told.pairs.len(), told.order.len()), (LISTED, LISTED, LISTED));
        told.forget(why, &widget(), &uid(0));
        assert!(told.first(why, &widget(), &uid(5000)), "there is room for another one");
        assert!(!told.first(why, &widget(), &uid(6000)));
    }

    fn reference_with(text: &str, uid: Uid) -> OwnerReference {
        OwnerReference {
            api_version: text.into(),
            kind: text.into(),
            name: text.into(),
            uid,
            controller: false,
            block_owner_deletion: false,
        }
    }

    /// Fails if an event is lost because its message is longer than the API allows, or if a tenant
    /// decides how the message ends.
    #[tokio::test(start_paused = true)]
    async fn texts_of_a_megabyte_fit_into_an_event() {
        let server = Server::answering(|_| Reply::code(201, "{}"));
        let (event_recorder, told) = EventRecorder::new(server.api(), CancellationToken::new());
        let telling = tokio::spawn(told);
        for text in ["x".repeat(1 << 20), "ä".repeat(1 << 19)] {
            let reference = reference_with(&text, Uid::parse(&text).unwrap());
            event_recorder.report(Report::NamespaceMismatch { dependent: widget(), reference });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let events = server.seen();
        assert_eq!(events.len(), 2);
        for event in events {
            let message = event.json()["message"].as_str().unwrap().to_owned();
            assert!(message.len() <= 1024, "{} bytes", message.len());
            assert!(message.starts_with("ownerRef [") && message.contains("…, name: "), "{message}");
            assert!(message.ends_with("…] does not exist in namespace \"ns\""), "{message}");
        }
        telling.abort();
    }

    /// For example, a standby that becomes the leader.
    #[tokio::test(start_paused = true)]
    async fn a_warning_that_could_not_be_written_is_sent_once_later() {
        let server = Server::answering(|_| Reply::code(201, "{}"));
        let api = server.api();
        let (event_recorder, told) = EventRecorder::new(api.clone(), CancellationToken::new());
        let telling = tokio::spawn(told);
        let tell = async || {
            let reference = reference_with("elsewhere", widget().uid);
            event_recorder.report(Report::NamespaceMismatch { dependent: widget(), reference });
            // The clock stands still until the recorder has seen the report.
            tokio::time::sleep(Duration::from_secs(1)).await;
            server.seen().len()
        };
        api.gate().pause();
        assert_eq!(tell().await, 0);
        api.gate().resume();
        assert_eq!(tell().await, 1);
        assert_eq!(tell().await, 1);
        telling.abort();
    }

    /// Fails if a warning that comes during an outage is lost.
    #[tokio::test(start_paused = true)]
    async fn a_warning_that_an_outage_defers_is_sent_once_later() {
        let away = Arc::new(AtomicBool::new(true));
        let is_away = Arc::clone(&away);
        let server = Server::answering(move |_| {
            if is_away.load(Ordering::Relaxed) {
                Reply::code(503, "nobody is there")
            } else {
                Reply::code(201, "{}")
            }
        });
        let api = server.api();
        while !api.is_unreachable() {
            api.delete(&widget(), PropagationPolicy::Background, None).await.unwrap_err();
        }
        let (event_recorder, told) = EventRecorder::new(api.clone(), CancellationToken::new());
        let telling = tokio::spawn(told);
        let events = || server.seen().iter().filter(|seen| seen.path.contains("/events")).count();
        let tell = async || {
            let reference = reference_with("elsewhere", widget().uid);
            event_recorder.report(Report::NamespaceMismatch { dependent: widget(), reference });
            // The clock stands still until the recorder has seen the report.
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        tell().await;
        away.store(false, Ordering::Relaxed);
        let before = events();
        tell().await;
        tell().await;
        assert_eq!(events() - before, 1, "{:?}", server.requests());
        telling.abort();
    }
}
