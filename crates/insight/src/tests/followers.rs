//! Who follows an answer is woken when it changes, and not otherwise.

use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::reader::*;
use super::*;
use kube_gc_core::graph::testing::histories::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::graph::*;
use kube_gc_core::object::*;

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

/// The partition of a cluster-scoped owner learns of its dependents from other partitions.
#[test]
fn what_another_partition_tells_later_counts_too() {
    let root = node("root");
    let pods: Vec<Obj> = (0..6).map(|n| pod(&format!("p{n}")).owned(&root)).collect();
    let mut world = World::new(2);
    world.see(&[&root]);
    world.see(&pods.iter().collect::<Vec<_>>());
    let mut reader = Reader::limited(&root, 200, 2);
    world.delayed = true;
    world.see(&[&pods[5].clone().terminating().at(20)]);
    let before = reader.look(&mut world);
    assert!(reader.notices(&mut world, World::flush));
    assert_ne!(reader.look(&mut world), before);
}

/// An object that two resources show counts once, for the owners that its first resource shows.
#[test]
fn another_view_of_what_is_only_counted_counts_too() {
    let views = ["ingresses.extensions", "ingresses.networking.k8s.io"];
    let changes = [(views[0], views[1]), (views[1], views[0])].map(|(shown, other)| {
        let root = config("root");
        let named = |number: i32, resource: &str| obj(resource, "ns", &format!("i{number}"));
        let all: Vec<Obj> = (0..6).map(|number| named(number, shown).owned(&root)).collect();
        let mut world = World::new(1);
        world.see(&[&root]);
        world.see(&all.iter().collect::<Vec<_>>());
        let mut reader = Reader::limited(&root, 200, 2);
        let before = reader.look(&mut world);
        // It has no owner there, and is not among those that are shown.
        reader.notices(&mut world, |world| world.see(&[&named(5, other)]));
        answer(&mut world, &reader.query, reader.most, None) != before
    });
    assert!(changes.contains(&true), "the other view is the first one in one of the two cases");
}

#[test]
fn followers_are_woken_apart() {
    let (mut world, [_, root, .., other]) = family();
    let mut readers = [&root, &other, &root].map(Reader::of);
    for (id, reader) in (1..).zip(&mut readers) {
        reader.follower.id = id;
        reader.look(&mut world);
    }
    let woken = |world: &mut World, readers: &mut [Reader; 3], dependent: Obj| {
        world.see(&[&dependent]);
        readers.each_mut().map(|reader| reader.is_outdated(world))
    };
    assert_eq!(woken(&mut world, &mut readers, pod("new").owned(&root)), [true, false, true]);
    assert_eq!(woken(&mut world, &mut readers, pod("again").owned(&root)), [false; 3], "they know");
    assert_eq!(woken(&mut world, &mut readers, pod("theirs").owned(&other)), [false, true, false]);
    for reader in &mut readers {
        reader.look(&mut world);
    }
    world.partitions.iter_mut().for_each(|partition| partition.unfollow(3));
    assert_eq!(woken(&mut world, &mut readers, pod("last").owned(&root)), [true, false, false]);
}

/// The answer is read after it.
#[test]
fn a_change_before_a_question_wakes_nobody() {
    let (mut world, [_, root, .., other]) = family();
    let mut reader = Reader::of(&root);
    reader.look(&mut world);
    let before = reader.bell.0.load(Ordering::Relaxed);
    world.see(&[&pod("new").owned(&root)]);
    reader.query.root = other.identity();
    reader.look(&mut world);
    world.see(&[&root.foreground().at(20)]);
    reader.is_outdated(&mut world);
    assert_eq!(reader.bell.0.load(Ordering::Relaxed), before, "it asks for something else now");
}

#[test]
fn what_a_partition_does_not_have_is_followed() {
    let late = pod("late");
    for need in [Need::Node(late.key()), Need::Object(late.key()), Need::Owner(late.identity())] {
        let mut world = World::new(1);
        let mut reader = Reader::of(&late);
        facts(world.partition("ns"), &[need], ViewLimits::default(), Some(&reader.follower));
        world.see(&[&late]);
        assert!(reader.is_outdated(&mut world));
    }
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
