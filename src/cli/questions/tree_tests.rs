use std::collections::HashMap;

use super::*;
use kube_gc_insight::{Edge, More, ObjectName};

fn node(kind: &str, name: &str, state: State, distance: i64) -> Shown {
    let name = ObjectName {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        resource: Some(format!("{}s.apps", kind.to_lowercase())),
        namespace: Some("shop".into()),
        name: name.into(),
        uid: format!("uid-{name}"),
    };
    Shown {
        name,
        state,
        waits_for: usize::from(state == State::DeletingDependents),
        distance,
        identity: None,
    }
}

fn edge(owner: usize, dependent: usize, class: Option<kube_gc_core::verdict::ReferenceClass>) -> Edge {
    Edge { dependent, owner, controller: true, block_owner_deletion: true, class }
}

fn answer() -> TreeAnswer {
    let nodes = vec![
        node("Deployment", "web", State::DeletingDependents, 0),
        node("Application", "shop", State::Live, -1),
        node("ReplicaSet", "web-7d9", State::Live, 1),
    ];
    let edges = vec![edge(1, 0, Some(kube_gc_core::verdict::ReferenceClass::Solid)), edge(0, 2, None)];
    let more = |kind: &str, count| More {
        owner: 2,
        kind: kind.into(),
        resource: String::new(),
        count,
        being_deleted: usize::from(count == 2),
    };
    let shown = Neighbourhood {
        nodes,
        edges,
        more: vec![more("Pod", 212), more("NetworkPolicy", 2)],
        truncated: false,
    };
    let row = [("Ready", "2/3"), ("Age", "4d")].map(|(name, cell)| (name.to_owned(), cell.to_owned()));
    let details = Details {
        deleted: Some("2026-01-01T00:00:00Z".into()),
        finalizers: vec!["foregroundDeletion".into(), "example.com/drain".into()],
        ..Details::default()
    };
    let extras = HashMap::from([(0, NodeExtra { row: row.to_vec(), details: Some(details) })]);
    let oldest = Some((std::time::Duration::from_secs(345_600), "4d".to_owned()));
    let hidden = HashMap::from([
        (0, Hidden { judged: 212, ready: 200, aged: 212, oldest: oldest.clone() }),
        (1, Hidden { judged: 1, ready: 0, aged: 1, oldest }),
    ]);
    TreeAnswer { shown, incomplete: Vec::new(), left_out: 0, extras, hidden }
}

fn table(answer: &TreeAnswer, change: fn(&mut View<'_>)) -> String {
    let mut view = View { answer, columns: &["Ready".to_owned()], down: 32, all: false };
    change(&mut view);
    view.table(&Look::plain(false, "2026-01-01T00:12:00Z"))
}

#[test]
fn a_tree_has_columns_and_notes() {
    assert_eq!(
        table(&answer(), |_| {}),
        "\
NAME                             STATE                  READY  AGE
Application/shop                 live                               owner
└─ Deployment/web                terminating            2/3    4d   waits for 1 blocking dependent, finalizer \
example.com/drain, deleted 12m ago
   └─ ReplicaSet/web-7d9         live
      ├─ 212 more Pods           live                   200    4d   --all shows them
      └─ 2 more NetworkPolicies  1 live, 1 terminating  ≥0     ≥4d  --all shows them
"
    );
}

#[test]
fn what_is_not_shown_says_how_to_see_it() {
    let last = |change: fn(&mut View<'_>)| table(&answer(), change).lines().last().unwrap().to_owned();
    assert!(last(|view| view.down = 1).ends_with("≥4d  --down 2 shows them"));
    assert!(last(|view| view.all = true).ends_with("≥4d"));
    let nothing = TreeAnswer { hidden: HashMap::new(), ..answer() };
    let text = table(&nothing, |_| {});
    assert!(text.contains("212 more Pods           live                               --all"), "{text}");
}

#[test]
fn names_are_kubectls() {
    assert_eq!(
        names(&answer().shown),
        "deployment.apps/web\napplication.apps/shop\nreplicaset.apps/web-7d9\n"
    );
}

#[test]
fn hostile_names_cannot_leave_their_place() {
    let mut answer = answer();
    let hostile = "a\"];\n b \u{1b}[31m\\\u{202e}";
    answer.shown.nodes[0].name.name = hostile.into();
    answer.shown.nodes[0].name.kind = "K\"\n".into();
    for text in [table(&answer, |view| view.columns = &[]), names(&answer.shown), dot(&answer.shown)] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        assert!(text.lines().count() <= 12, "{text}");
    }
    let dot = dot(&answer.shown);
    let label = dot.lines().find(|line| line.contains("n0 [label")).unwrap();
    assert!(label.contains("K\\\"") && label.ends_with("style=dashed];"), "{label}");
}
