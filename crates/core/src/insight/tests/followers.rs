//! Who follows an answer is woken when it changes, and not otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use proptest::prelude::*;

use super::*;
use crate::graph::testing::histories::*;
use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Follows the neighbourhood of an object.
struct Reader {
    bell: Arc<Bell>,
    follower: Follower,
    query: NeighbourhoodQuery,
    /// The most dependents of a type.
    most: usize,
    rung: usize,
}

impl Reader {
    fn of(root: &Obj) -> Self {
        let bell = Arc::new(Bell::default());
        let follower = Follower { id: 7, question: 0, waker: Waker::from(Arc::clone(&bell)) };
        let query = NeighbourhoodQuery { root: root.identity(), up: 8, down: 8, limit: 200 };
        Self { bell, follower, query, most: 20, rung: 0 }
    }

    fn limited(root: &Obj, limit: usize, most: usize) -> Self {
        let reader = Self::of(root);
        Self { query: NeighbourhoodQuery { limit, ..reader.query.clone() }, most, ..reader }
    }

    /// Asks again.
    fn look(&mut self, world: &mut World) -> Neighbourhood {
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
    fn is_outdated(&mut self, world: &mut World) -> bool {
        for partition in &mut world.partitions {
            partition.outdated().for_each(Waker::wake_by_ref);
        }
        let rung = self.bell.0.load(Ordering::Relaxed);
        std::mem::replace(&mut self.rung, rung) != rung
    }

    /// Whether this changes what it sees, as it is told and in fact.
    fn notices(&mut self, world: &mut World, change: impl FnOnce(&mut World)) -> bool {
        let before = self.look(world);
        change(world);
        let after = answer(world, &self.query, self.most, None);
        let is_outdated = self.is_outdated(world);
        assert!(is_outdated || before == after, "{before:?} became {after:?}");
        is_outdated
    }
}

/// The answer from the partitions of a world. No live read finds anything.
fn answer(
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
fn family() -> (World, [Obj; 6]) {
    let top = node("top");
    let root = config("root").owned(&top);
    let (a, b) = (pod("a").owned(&root), pod("b").blocking(&root));
    let below = config("below").owned(&a);
    let other = pod("other");
    let mut world = World::new(2);
    world.see(&[&top, &root, &a, &b, &below, &other]);
    (world, [top, root, a, b, below, other])
}

#[test]
fn events_that_change_nothing_that_is_shown_wake_nobody() {
    let (mut world, [top, root, a, _, _, other]) = family();
    let mut reader = Reader::of(&root);
    let elsewhere = pod("elsewhere").owned(&other);
    for (what, change) in [
        ("another version of the root", (root.clone().at(11), true)),
        ("another version of a dependent", (a.clone().at(11), true)),
        ("another version of an owner", (top.clone().at(11), true)),
        ("a new object of somebody else", (elsewhere.clone(), true)),
        ("another object being deleted", (other.clone().foreground().at(12), true)),
        ("another object that goes", (elsewhere, false)),
    ] {
        let (object, is_there) = change;
        let noticed = reader.notices(&mut world, |world| match is_there {
            true => world.see(&[&object]),
            false => world.delete(&object),
        });
        assert!(!noticed, "{what}");
    }
}

#[test]
fn each_change_of_what_is_shown_wakes_the_follower() {
    type Change = Box<dyn FnOnce(&mut World)>;
    let (_, [top, root, a, b, below, other]) = family();
    let again = |obj: &Obj| obj.clone().at(20);
    let see = |obj: Obj| -> Change { Box::new(move |world| world.see(&[&obj])) };
    let delete = |obj: &Obj| -> Change {
        let obj = obj.clone();
        Box::new(move |world| world.delete(&obj))
    };
    let changes: [(&str, Change); 15] = [
        ("a new dependent", see(pod("new").owned(&root))),
        ("a new dependent of a dependent", see(pod("new").owned(&below))),
        ("an object becomes a dependent", see(again(&other).owned(&root))),
        ("a dependent leaves", delete(&b)),
        ("a dependent loses its reference", see(again(&a).unowned())),
        ("a reference no longer blocks", see(again(&b).unowned().owned(&root))),
        ("the root is being deleted", see(again(&root).foreground())),
        ("a dependent is being deleted", see(again(&below).terminating())),
        ("the root leaves", delete(&root)),
        ("an owner is being deleted", see(again(&top).foreground())),
        ("an owner leaves", delete(&top)),
        ("the root gets another owner", see(again(&root).owned(&config("else")))),
        ("another name", see(again(&a).named("renamed"))),
        ("a type is no longer served", Box::new(|world| world.set_catalog(&catalog_without(&["pods"])))),
        ("everything is read anew", Box::new(|world| world.partitions.iter_mut().for_each(Partition::reset))),
    ];
    for (what, change) in changes {
        let (mut world, [_, root, ..]) = family();
        assert!(Reader::of(&root).notices(&mut world, change), "{what}");
    }
}

#[test]
fn what_is_only_counted_counts_too() {
    let root = config("root");
    let pods: Vec<Obj> = (0..6).map(|n| pod(&format!("p{n}")).owned(&root)).collect();
    let mut world = World::new(1);
    world.see(&[&root]);
    world.see(&pods.iter().collect::<Vec<_>>());
    for limited in [Reader::limited(&root, 200, 2), Reader::limited(&root, 3, 20)] {
        let mut reader = limited;
        assert!(reader.look(&mut world).nodes.len() <= 3);
        // Not shown, since it is the last by name.
        let version = 20 + world.partitions[0].stats().nodes as u64;
        let hidden = pods[5].clone();
        assert!(reader.notices(&mut world, |world| world.delete(&hidden)));
        assert!(reader.notices(&mut world, |world| world.see(&[&hidden.clone().at(version)])));
    }
}

#[test]
fn an_object_that_is_not_there_yet_is_followed() {
    let mut world = World::new(2);
    let late = pod("late");
    let mut reader = Reader::of(&late);
    assert!(!reader.notices(&mut world, |world| world.see(&[&pod("other")])));
    assert!(reader.notices(&mut world, |world| world.see(&[&late])));
}

#[test]
fn the_first_list_of_a_type_makes_its_owners_certain() {
    let mut world = World::unsynced(2);
    let (owner, item) = (config("owner"), pod("p").owned(&config("owner")));
    world.see(&[&owner, &item]);
    let mut reader = Reader::of(&item);
    assert!(reader.notices(&mut world, |world| world.list("configmaps", 20, &[&owner])));
    assert!(!reader.notices(&mut world, |world| world.list("configmaps", 21, &[&owner])), "a later list");
}

/// Then its objects no longer prove that an owner exists, until it is listed again.
#[test]
fn a_type_that_is_no_longer_watched_makes_its_owners_uncertain() {
    let (mut world, [_, root, a, ..]) = family();
    let mut reader = Reader::of(&a);
    let (resource, epoch) = (root.resource.clone(), world.epoch);
    assert!(reader.notices(&mut world, |world| {
        for id in world.sharding.all() {
            world.intake(id, Intake::TypeUnserved { resource: resource.clone(), epoch });
        }
    }));
}

#[test]
fn an_absence_that_is_no_longer_proved_counts() {
    let (mut world, [top, root, ..]) = family();
    world.delete(&top);
    let mut reader = Reader::of(&root);
    let disturbance = Disturbance { number: 1, ..Disturbance::default() };
    assert!(reader.notices(&mut world, |world| {
        for partition in &mut world.partitions {
            partition.disturbed(disturbance.clone(), &mut world.out);
        }
    }));
}

#[test]
fn a_follower_is_woken_once_for_each_question_and_not_after_its_end() {
    let (mut world, [_, root, ..]) = family();
    let mut reader = Reader::of(&root);
    reader.look(&mut world);
    let before = reader.bell.0.load(Ordering::Relaxed);
    for number in 0..5 {
        world.see(&[&pod(&format!("new-{number}")).owned(&root)]);
        reader.is_outdated(&mut world);
    }
    assert_eq!(reader.bell.0.load(Ordering::Relaxed), before + 1);
    reader.look(&mut world);
    world.partitions.iter_mut().for_each(|partition| partition.unfollow(7));
    world.see(&[&pod("last").owned(&root)]);
    assert!(!reader.is_outdated(&mut world));
}

/// What is kept of one follower is bounded, and nothing is missed for it.
#[test]
fn one_that_follows_too_much_is_woken_by_every_change() {
    let (mut world, [_, root, ..]) = family();
    let mut reader = Reader::of(&root);
    reader.look(&mut world);
    let partition = world.partition("ns");
    for number in 0..2000 {
        partition.follow(&reader.follower, &Uid::parse(&format!("uid-{number}")).unwrap());
    }
    world.see(&[&pod("elsewhere").at(30)]);
    assert!(reader.is_outdated(&mut world));
    assert!(!reader.notices(&mut world, |world| world.see(&[&pod("elsewhere-too")])), "it asked for less");
}

#[test]
fn a_turn_of_a_partition_is_bounded() {
    let roots: Vec<Obj> = (0..3).map(|n| config(&format!("root-{n}"))).collect();
    let mut world = World::new(1);
    world.see(&roots.iter().collect::<Vec<_>>());
    for root in &roots {
        let pods: Vec<Obj> =
            (0..2500).map(|n| pod(&format!("{}-{n}", root.facts.name)).owned(root)).collect();
        for pod in &pods {
            let (resource, events) = (pod.resource.clone(), vec![WatchEvent::Apply(pod.facts.clone())]);
            let intake = Intake::Events { resource, epoch: world.epoch, events };
            world.partition("ns").intake(intake, &mut Effects::default());
        }
    }
    let needs: Vec<Need> = roots.iter().map(|root| Need::Node(root.key())).collect();
    let mut turn = |needs: &[Need]| facts(world.partition("ns"), needs, ViewLimits::default(), None).1;
    assert_eq!((turn(&needs), turn(&needs[2..])), (2, 1));
}

proptest! {
    /// Whatever happens, no change of an answer is missed.
    #[test]
    fn no_change_is_missed(
        steps in steps(true),
        root in 0..OBJECTS,
        namespaced in 1..4_u16,
        most in 1..4_usize,
    ) {
        let mut world = World::new(namespaced);
        let mut universe = Universe::default();
        let mut reader = Reader::limited(&universe.base(root), 200, most);
        let mut before = reader.look(&mut world);
        for step in steps {
            let reference = universe.base(step.object);
            match step.op {
                Op::See { references, deletion } => {
                    let shown = universe.show(step.object, &references, deletion);
                    world.see(&[&shown]);
                }
                Op::Delete => {
                    let version = universe.tick();
                    world.delete(&reference.at(version));
                    universe.retire(step.object);
                }
                Op::Relist => {
                    let version = universe.tick();
                    world.list(&reference.resource.group_resource.to_string(), version, &[]);
                    universe.retire(step.object);
                }
            }
            let now = answer(&mut world, &reader.query, most, None);
            if reader.is_outdated(&mut world) {
                before = reader.look(&mut world);
            }
            prop_assert_eq!(&before, &now);
        }
    }
}
