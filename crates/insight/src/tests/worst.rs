//! Which dependents are shown where there is no room for all.

use crate::{Edge, More, Neighbourhood, ObjectName, Shown, Standing, State, Worst};
use kube_gc_core::verdict::ReferenceClass;

fn node(kind: &str, name: &str, state: State, distance: i64) -> Shown {
    let name = ObjectName {
        api_version: "v1".into(),
        kind: kind.into(),
        resource: Some(kind.to_lowercase()),
        namespace: None,
        name: name.into(),
        uid: name.into(),
    };
    Shown { name, state, waits_for: 0, distance, identity: None }
}

fn edge(owner: usize, dependent: usize, class: Option<ReferenceClass>) -> Edge {
    Edge { dependent, owner, controller: false, block_owner_deletion: false, class }
}

/// An owner, the root, three Pods with a Secret each, and a Service; two more Pods are counted.
fn whole() -> Neighbourhood {
    let mut nodes = vec![node("Set", "root", State::Live, 0), node("App", "owner", State::Live, -1)];
    let mut edges = vec![edge(1, 0, Some(ReferenceClass::Solid))];
    for pod in ["a", "b", "c"] {
        edges.push(edge(0, nodes.len(), None));
        let state = if pod == "a" { State::Terminating } else { State::Live };
        nodes.push(node("Pod", pod, state, 1));
    }
    edges.push(edge(0, nodes.len(), None));
    nodes.push(node("Service", "d", State::Live, 1));
    for pod in 2..5 {
        edges.push(edge(pod, nodes.len(), None));
        nodes.push(node("Secret", &format!("of-{pod}"), State::Live, 2));
    }
    let more = More { owner: 0, kind: "Pod".into(), resource: "pod".into(), count: 2, being_deleted: 1 };
    Neighbourhood { nodes, edges, more: vec![more], truncated: false }
}

fn names(worst: &Worst) -> Vec<&str> {
    worst.shown.nodes.iter().map(|node| &*node.name.name).collect()
}

/// The dependents of the root, in order.
fn order(worst: &Worst) -> Vec<&str> {
    let below = worst.shown.edges.iter().filter(|edge| edge.class.is_none() && edge.owner == 0);
    below.map(|edge| &*worst.shown.nodes[edge.dependent].name.name).collect()
}

#[test]
fn the_worst_come_first_and_bring_what_is_below_them() {
    let all = |place| match place {
        2 => Standing::Terminating,
        3 => Standing::NotReady,
        4 => Standing::Stuck,
        _ => Standing::Other,
    };
    let worst = whole().worst(all, 3);
    assert_eq!(order(&worst), ["c", "a", "b", "d"]);
    assert_eq!((worst.places.len(), &worst.shown.more), (9, &whole().more));
    let worst = whole().worst(all, 2);
    assert_eq!(order(&worst), ["c", "a", "d"]);
    assert_eq!(names(&worst), ["root", "owner", "a", "c", "d", "of-2", "of-4"]);
    assert_eq!(worst.places, [0, 1, 2, 4, 5, 6, 8]);
    // The one that is left out is counted with those that were left out before.
    assert_eq!((worst.shown.more[0].count, worst.shown.more[0].being_deleted), (3, 1));
    assert_eq!(worst.left_out, [vec![3]]);
    let above = &worst.shown.edges[0];
    assert_eq!((above.owner, above.dependent, above.class), (1, 0, Some(ReferenceClass::Solid)));
}

#[test]
fn those_that_are_alike_stay_in_order() {
    let worst = whole().worst(|_| Standing::Other, 1);
    assert_eq!(order(&worst), ["a", "d"]);
    assert_eq!((worst.shown.more[0].count, worst.shown.more[0].being_deleted), (4, 1));
    assert_eq!(worst.left_out, [vec![3, 4]]);
}

#[test]
fn what_is_left_out_of_a_type_without_a_count_gets_one() {
    let whole = Neighbourhood { more: Vec::new(), ..whole() };
    let worst = whole.worst(|place| if place == 3 { Standing::NotReady } else { Standing::Other }, 1);
    assert_eq!(order(&worst), ["b", "d"]);
    let more = &worst.shown.more[0];
    assert_eq!((more.owner, &*more.kind, more.count, more.being_deleted), (0, "Pod", 2, 1));
}
