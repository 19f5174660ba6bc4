//! Somebody who follows the neighbourhood of an object.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::graph::*;

/// Counts how often it was woken.
#[derive(Default)]
pub struct Bell(pub AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Follows the neighbourhood of an object.
pub struct Reader {
    pub bell: Arc<Bell>,
    pub follower: Follower,
    pub query: NeighbourhoodQuery,
    /// The most dependents of a type.
    pub most: usize,
    rung: usize,
}

impl Reader {
    pub fn of(root: &Obj) -> Self {
        let bell = Arc::new(Bell::default());
        let follower = Follower { id: 7, question: 0, waker: Waker::from(Arc::clone(&bell)) };
        let query = NeighbourhoodQuery { root: root.identity(), up: 8, down: 8, limit: 200 };
        Self { bell, follower, query, most: 20, rung: 0 }
    }

    pub fn limited(root: &Obj, limit: usize, most: usize) -> Self {
        let reader = Self::of(root);
        Self { query: NeighbourhoodQuery { limit, ..reader.query.clone() }, most, ..reader }
    }

    /// Asks again.
    pub fn look(&mut self, world: &mut World) -> Neighbourhood {
        self.follower.question += 1;
        let uid = self.query.root.uid.clone();
        for partition in &mut world.partitions {
            partition.follow(&self.follower, &uid);
        }
        let shown = answer(world, &self.query, self.most, Some(&self.follower));
        self.is_outdated(world);
        shown
    }

    /// Whether it was woken since the last call.
    pub fn is_outdated(&mut self, world: &mut World) -> bool {
        for partition in &mut world.partitions {
            partition.outdated().for_each(Waker::wake_by_ref);
        }
        let rung = self.bell.0.load(Ordering::Relaxed);
        std::mem::replace(&mut self.rung, rung) != rung
    }

    /// Whether this changes what it sees, as it is told and in fact.
    pub fn notices(&mut self, world: &mut World, change: impl FnOnce(&mut World)) -> bool {
        let before = self.look(world);
        change(world);
        let after = answer(world, &self.query, self.most, None);
        let is_outdated = self.is_outdated(world);
        assert!(is_outdated || before == after, "{before:?} became {after:?}");
        is_outdated
    }
}

/// The answer from the partitions of a world. No live read finds anything.
pub fn answer(
    world: &mut World,
    query: &NeighbourhoodQuery,
    most: usize,
    follower: Option<&Follower>,
) -> Neighbourhood {
    let limits = ViewLimits { dependents_of_a_type: most, ..ViewLimits::default() };
    let catalog = Arc::clone(world.partitions[0].catalog());
    let mut known = Knowledge::default();
    loop {
        let needs = match ask(&known, &catalog, 100, |asker| neighbourhood(asker, query)) {
            Ok(answer) => return answer,
            Err(needs) => needs,
        };
        for need in needs {
            let at = usize::from(world.sharding.of(need.namespace()).0);
            if let Need::Live(identity) = need {
                known.learn(Fact::Live(identity, Live::Absent(AbsenceEvidence::NotFound)));
                continue;
            }
            let (found, done) = facts(&mut world.partitions[at], &[need], limits, follower);
            assert_eq!(done, 1);
            found.into_iter().for_each(|fact| known.learn(fact));
        }
    }
}

/// A root with an owner, two dependents and one below, and an object that has nothing to do with it.
pub fn family() -> (World, [Obj; 6]) {
    let top = node("top");
    let root = config("root").owned(&top);
    let (a, b) = (pod("a").owned(&root), pod("b").blocking(&root));
    let below = config("below").owned(&a);
    let other = pod("other");
    let mut world = World::new(2);
    world.see(&[&top, &root, &a, &b, &below, &other]);
    (world, [top, root, a, b, below, other])
}
