use crate::graph::testing::world::*;
use crate::graph::{MemberMark, MembersOf};

/// The names of these objects, read in pages of about this many visits.
fn read(world: &mut World, of: &MembersOf, visits: usize) -> Vec<String> {
    let mut names = Vec::new();
    for id in world.sharding.all() {
        if of.place(world.sharding).is_some_and(|place| place != id) {
            continue;
        }
        let mut after: Option<MemberMark> = None;
        loop {
            let page = world.partitions[usize::from(id.0)].members(of, after, visits);
            assert!(page.members.len() <= visits.max(1), "a page is bounded");
            names.extend(page.members.iter().map(|member| member.identity.name.to_string()));
            names.extend(page.elsewhere.iter().map(|key| format!("elsewhere {}", key.uid)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    names.sort();
    names.dedup();
    names
}

#[test]
fn members_are_read_in_pages() {
    let (owner, cluster) = (config("owner"), node("cluster"));
    let pods: Vec<Obj> = (0..9).map(|number| pod(&format!("p{number}")).owned(&owner)).collect();
    let far = obj("pods", "other", "far").owned(&cluster);
    let mut world = World::of(2, &[&owner, &cluster, &far]);
    world.see(&pods.iter().collect::<Vec<_>>());
    let all: Vec<String> = (0..9).map(|number| format!("p{number}")).collect();
    for visits in [1, 2, 5, usize::MAX] {
        assert_eq!(read(&mut world, &MembersOf::Dependents(owner.key()), visits), all);
        assert_eq!(read(&mut world, &MembersOf::Object(owner.key()), visits), ["owner"]);
        assert_eq!(read(&mut world, &MembersOf::Dependents(cluster.key()), visits), ["elsewhere far"]);
        assert_eq!(read(&mut world, &MembersOf::Object(far.key()), visits), ["far"]);
        let namespace = owner.facts.namespace.clone().unwrap();
        assert_eq!(read(&mut world, &MembersOf::Namespace(namespace), visits).len(), 10);
        assert_eq!(
            read(&mut world, &MembersOf::Type(pods[0].resource.group_resource.clone()), visits).len(),
            10
        );
        assert_eq!(read(&mut world, &MembersOf::Dependents(pod("nobody").key()), visits), [""; 0]);
    }
}

#[test]
fn a_page_goes_on_although_its_mark_has_gone() {
    let owner = config("owner");
    let pods: Vec<Obj> = (0..6).map(|number| pod(&format!("p{number}")).owned(&owner)).collect();
    let mut world = World::of(1, &[&owner]);
    world.see(&pods.iter().collect::<Vec<_>>());
    let of = MembersOf::Dependents(owner.key());
    let first = world.partition_of(&owner).members(&of, None, 2);
    let seen: Vec<String> = first.members.iter().map(|member| member.identity.name.to_string()).collect();
    let next = pods.iter().find(|pod| !seen.contains(&pod.facts.name.to_string()));
    // Whichever the next page would begin with.
    let gone: Vec<&Obj> = pods.iter().filter(|pod| !seen.contains(&pod.facts.name.to_string())).collect();
    for pod in &gone[1..] {
        world.delete(pod);
    }
    let page = world.partition_of(&owner).members(&of, first.next, usize::MAX);
    let names: Vec<&str> = page.members.iter().map(|member| &*member.identity.name).collect();
    assert!(next.is_some_and(|next| names.contains(&&*next.facts.name)), "{names:?}");
}

#[test]
fn a_member_shows_what_decides_about_it() {
    let owner = config("owner");
    let item = pod("item").blocking(&owner).held().with_finalizers(false, true);
    let mut world = World::of(1, &[&owner, &item]);
    let key = item.key();
    let member = |world: &mut World| {
        world.partition_of(&item).members(&MembersOf::Object(key.clone()), None, 1).members.remove(0)
    };
    let shown = member(&mut world);
    assert!(shown.held_by_others && shown.finalizers.orphan && !shown.has_dependents);
    assert!(shown.references[0].reference.block_owner_deletion);
    assert_eq!(world.partition_of(&item).observed_object(&key).as_ref(), Some(&item.facts));
    // Whether others hold it may change without anything else.
    let mut released = item.clone().at(11);
    released.facts.held_by_others = false;
    world.forget();
    world.see(&[&released]);
    assert!(!member(&mut world).held_by_others);
    assert_eq!(world.queued(), [""; 0], "nothing has to be decided anew");
}
