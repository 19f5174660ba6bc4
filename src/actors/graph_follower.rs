//! Follows an answer from the graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

use futures::FutureExt as _;
use tokio::sync::Notify;

use super::graph_handle::GraphHandle;
use kube_gc_core::graph::Follower;

/// Notes which facts a question rests on, and notices when one of them may have changed.
#[derive(Debug)]
pub struct GraphFollower {
    graph: GraphHandle,
    follower: Follower,
    outdated: Arc<Outdated>,
}

/// Notified when an answer may have changed.
#[derive(Debug, Default)]
struct Outdated(Notify);

impl Wake for Outdated {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

impl GraphFollower {
    /// Follows nothing yet.
    pub(super) fn new(graph: GraphHandle) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let outdated = Arc::new(Outdated::default());
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        let follower = Follower { id, question: 0, waker: Waker::from(Arc::clone(&outdated)) };
        Self { graph, follower, outdated }
    }

    /// Begins to ask again, and forgets what earlier answers rested on. The question has to look
    /// its object up in every partition, which makes each of them forget, too.
    pub fn ask_again(&mut self) -> &Follower {
        self.follower.question += 1;
        // What is noticed from now on may be about an answer that is read after this.
        self.outdated.0.notified().now_or_never();
        &self.follower
    }

    /// Resolves when the answer may have changed since the facts were read that it rests on.
    /// Cancel safe.
    pub async fn outdated(&self) {
        self.outdated.0.notified().await;
    }
}

impl Drop for GraphFollower {
    fn drop(&mut self) {
        self.graph.unfollow(self.follower.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::graph::TakeInChanges;
    use crate::actors::graph_queue::GraphQueue;
    use crate::actors::supervision::Threads;
    use crate::actors::tests::{EPOCH, graph_on, identity, in_system, reference, seen};
    use kube_gc_core::graph::{SearchQuery, ViewLimits, WatchEvent};
    use kube_gc_core::object::{Identity, OwnerReference};
    use kube_gc_insight::Need;
    use tokio::time::Instant;

    /// A small graph whose partitions share a thread of their own.
    async fn graph() -> GraphHandle {
        graph_on(&Threads::default().start("graph partitions").unwrap()).await.0
    }

    fn message(of: &Identity, version: u64, owners: Vec<OwnerReference>) -> TakeInChanges {
        let mut arrival = GraphQueue::new().arrival(Instant::now());
        arrival.push(WatchEvent::Apply(seen(of, version, owners)));
        TakeInChanges { resource: Arc::clone(&of.resource), epoch: EPOCH, arrivals: vec![arrival] }
    }

    async fn see(graph: &GraphHandle, of: &Identity, version: u64, owners: Vec<OwnerReference>) {
        let partition = graph.partition_of(of.namespace.as_ref());
        graph.take_in(partition, message(of, version, owners)).await.unwrap();
    }

    /// Asks again for one object, and what belongs to it.
    async fn look(follower: &mut GraphFollower, graph: &GraphHandle, of: &Identity) {
        let asked = follower.ask_again();
        graph.locate_for(&of.uid, Some(asked)).await.unwrap();
        let needs = [Need::Node(of.key())];
        assert_eq!(graph.facts(&needs, ViewLimits::default(), Some(asked)).await.unwrap().len(), 1);
    }

    /// Whether it has been told since it was asked. A partition tells before it answers.
    fn is_told(follower: &GraphFollower) -> bool {
        follower.outdated().now_or_never().is_some()
    }

    /// Somebody who follows an object, and has looked at it.
    async fn following() -> (GraphHandle, Identity, GraphFollower) {
        let graph = graph().await;
        let root = identity("a", "root");
        see(&graph, &root, 1, Vec::new()).await;
        let mut follower = graph.follower();
        look(&mut follower, &graph, &root).await;
        (graph, root, follower)
    }

    /// Counts looks, not time: whoever looks when told to never looks for the events of others.
    #[test]
    fn thousands_of_events_about_other_objects_need_no_look() {
        in_system(async {
            let (graph, root, mut follower) = following().await;
            let other = identity("a", "other");
            let mut looks = 0;
            for version in 1..=2000 {
                see(&graph, &other, version, Vec::new()).await;
                see(&graph, &root, version, Vec::new()).await;
                while is_told(&follower) {
                    look(&mut follower, &graph, &root).await;
                    looks += 1;
                }
            }
            assert_eq!(looks, 0);
            let resolves = catalog();
            graph.use_catalog(&resolves).await.unwrap();
            look(&mut follower, &graph, &root).await;
            see(&graph, &other, 3000, vec![reference(&root)]).await;
            assert!(is_told(&follower));
        });
    }

    /// The types of these tests.
    fn catalog() -> Arc<kube_gc_core::object::Catalog> {
        let mut catalog = kube_gc_core::object::Catalog::builder();
        let resource = identity("a", "any").resource;
        catalog.add(kube_gc_core::object::ServedKind { version: "v1".into(), resource });
        Arc::new(catalog.build())
    }

    #[test]
    fn a_new_question_forgets_what_has_changed_before_it() {
        in_system(async {
            let (graph, root, mut follower) = following().await;
            let other = identity("a", "other");
            graph.use_catalog(&catalog()).await.unwrap();
            look(&mut follower, &graph, &other).await;
            assert!(!is_told(&follower), "it has been read since");
            let renamed = Identity { name: "renamed".into(), ..root };
            see(&graph, &renamed, 2, Vec::new()).await;
            assert!(!is_told(&follower), "nobody asks for it any more");
        });
    }

    #[test]
    fn an_object_that_no_partition_has_yet_is_followed_in_all_of_them() {
        in_system(async {
            let graph = graph().await;
            for late in [identity("a", "late"), Identity { namespace: None, ..identity("a", "cluster") }] {
                let mut follower = graph.follower();
                assert!(graph.locate_for(&late.uid, Some(follower.ask_again())).await.unwrap().is_empty());
                see(&graph, &identity("a", "other"), 1, Vec::new()).await;
                assert!(!is_told(&follower));
                see(&graph, &late, 1, Vec::new()).await;
                assert!(is_told(&follower), "{late:?}");
            }
        });
    }

    #[test]
    fn facts_about_others_than_the_object_itself_are_followed() {
        in_system(async {
            let graph = graph().await;
            let [first, last] = ["first", "last"].map(|name| identity("a", name));
            let mut follower = graph.follower();
            let needs = [&first, &last].map(|of| Need::Node(of.key()));
            let asked = follower.ask_again();
            graph.facts(&needs, ViewLimits::default(), Some(asked)).await.unwrap();
            see(&graph, &last, 1, Vec::new()).await;
            assert!(is_told(&follower));
        });
    }

    #[test]
    fn a_graph_that_is_emptied_tells_whoever_follows() {
        in_system(async {
            let (graph, _, follower) = following().await;
            graph.reset().await.unwrap();
            assert!(is_told(&follower));
        });
    }

    #[test]
    fn one_that_no_longer_follows_leaves_the_others() {
        in_system(async {
            let graph = graph().await;
            let [root, other] = ["root", "other"].map(|name| identity("a", name));
            let [mut first, mut second, mut third] = [(); 3].map(|()| graph.follower());
            for (follower, of) in [(&mut first, &root), (&mut second, &other), (&mut third, &root)] {
                look(follower, &graph, of).await;
            }
            drop(third);
            see(&graph, &root, 1, Vec::new()).await;
            assert_eq!([&first, &second].map(is_told), [true, false]);
            see(&graph, &other, 1, Vec::new()).await;
            assert_eq!([&first, &second].map(is_told), [false, true]);
        });
    }

    #[test]
    fn the_graph_forgets_who_no_longer_follows() {
        in_system(async {
            let (graph, root, follower) = following().await;
            let kept = Arc::downgrade(&follower.outdated);
            drop(follower);
            // Partitions answer questions in order.
            graph.locate_for(&root.uid, None).await.unwrap();
            assert!(kept.upgrade().is_none());
        });
    }

    /// Ten messages wait, each with a new object. The answers to two questions come after the first two.
    #[test]
    fn a_question_is_answered_between_two_batches_of_changes() {
        in_system(async {
            let (graph, partitions) = graph_on(&actix::Arbiter::current()).await;
            let partition = graph.partition_of(identity("a", "any").namespace.as_ref());
            let address = &partitions[usize::from(partition.0)].messages;
            for number in 0..10 {
                address.do_send(message(&identity("a", &format!("o{number}")), 1, Vec::new()));
            }
            let all = Arc::new(SearchQuery::default());
            let search = || graph.search(partition, &all, None, 1000);
            let (first, second) = tokio::try_join!(search(), search()).unwrap();
            assert_eq!([first.found.len(), second.found.len()], [1, 2], "one after each batch");
            let page = search().await.unwrap();
            assert_eq!(page.found.len(), 10, "nothing is lost");
        });
    }
}
