use clap::Parser;

use super::super::tests::{HOSTILE, assert_harmless, look, object};
use super::*;
use kube_gc_core::verdict::ReferenceClass;
use kube_gc_insight::{Edge, Knowledge, NodeExtra, Outside};

fn node(kind: &str, name: &str, state: State, distance: i64) -> Shown {
    let waits_for = usize::from(state == State::DeletingDependents);
    Shown { name: object(kind, name), state, waits_for, distance, ..Shown::default() }
}

fn edge(owner: usize, dependent: usize, class: Option<ReferenceClass>) -> Edge {
    Edge { dependent, owner, controller: true, block_owner_deletion: true, class }
}

/// A row of the server's table of a Pod.
fn row(ready: &str) -> Vec<(String, String)> {
    [("Ready", ready), ("Age", "4d")].map(|(name, cell)| (name.to_owned(), cell.to_owned())).to_vec()
}

fn answer() -> Answer<Neighbourhood> {
    let mut nodes = vec![
        node("Deployment", "web", State::DeletingDependents, 0),
        node("Application", "shop", State::Live, -1),
        node("ReplicaSet", "web-7d9", State::Live, 1),
    ];
    let details = Details {
        deleted: Some("2026-01-01T00:00:00Z".into()),
        finalizers: vec!["foregroundDeletion".into(), "example.com/drain".into()],
        ..Details::default()
    };
    nodes[0].extra = NodeExtra { row: row("2/3"), details: Some(details) };
    let edges = vec![edge(1, 0, Some(ReferenceClass::Solid)), edge(0, 2, None)];
    let more = |kind: &str, count, rows: &[&str]| {
        let hidden =
            |ready: &&str| Shown { extra: NodeExtra { row: row(ready), details: None }, ..Shown::default() };
        let (being_deleted, resource) = (usize::from(count == 2), String::new());
        let looked_at = rows.iter().map(hidden).collect();
        More { owner: 2, kind: kind.into(), resource, count, being_deleted, looked_at }
    };
    let more = vec![more("Pod", 3, &["1/1", "1/1", "0/1"]), more("NetworkPolicy", 2, &["0/1"])];
    let report = Neighbourhood { nodes, edges, more, truncated: false };
    Answer::new(report, &Knowledge::new(Outside::default()), Vec::new())
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    tree: TreeArgs,
}

fn table(answer: &Answer<Neighbourhood>, flags: &str) -> String {
    let line = format!("tree cm/x {flags}");
    Line::parse_from(line.split_whitespace()).tree.table(answer, &look(false))
}

#[test]
fn a_tree_has_columns_and_notes() {
    assert_eq!(
        table(&answer(), ""),
        "\
NAME                             STATE                  READY  AGE
Application/shop                 live                               owner
└─ Deployment/web                terminating            2/3    4d   waits for 1 blocking dependent, finalizer \
example.com/drain, deleted 12m ago
   └─ ReplicaSet/web-7d9         live
      ├─ 3 more Pods             live                   2      4d   --all shows them
      └─ 2 more NetworkPolicies  1 live, 1 terminating              --all shows them
"
    );
}

#[test]
fn lines_are_ascii_where_nothing_else_can_be_shown() {
    let tree = Line::parse_from(["tree", "cm/x"]).tree;
    let text = tree.table(&answer(), &Look { is_ascii: true, ..look(false) });
    assert!(text.contains("\n`- Deployment/web "), "{text}");
    assert!(text.contains("\n      |- 3 more Pods ") && text.is_ascii(), "{text}");
}

#[test]
fn what_is_not_shown_says_how_to_see_it() {
    let last = |flags: &str| table(&answer(), flags).lines().last().unwrap().to_owned();
    assert!(last("--down 1").ends_with("1 terminating              --down 2 shows them"));
    assert!(last("--all").ends_with("1 terminating              --all shows up to 1,000"));
    let mut nothing = answer();
    nothing.report.more[0].looked_at.clear();
    let text = table(&nothing, "");
    assert!(text.contains("3 more Pods             live                               --all"), "{text}");
}

#[test]
fn what_is_left_of_a_deletion_is_counted_and_a_namespace_owns_nothing() {
    let mut report = answer().report;
    assert_eq!(about(&report, 5_000), "Dependents left: at least 6 of 5,000 counted.\n");
    assert_eq!(about(&report, 0), "");
    // Nothing is hidden any more, and something was.
    report.more.clear();
    assert_eq!(about(&report, 5_000), "Dependents left: 1 of 5,000 counted.\n");
    report.nodes[0].state = State::Live;
    assert_eq!(about(&report, 5_000), "");
    report.nodes[0].name.resource = Some("namespaces".into());
    let said = "A namespace does not own its content; kube-gc plan ns/web lists it.\n";
    assert_eq!(about(&report, 0), said);
}

#[test]
fn hostile_names_cannot_leave_their_place() {
    let mut answer = answer();
    answer.report.nodes[0].name.name = HOSTILE.into();
    answer.report.nodes[0].name.kind = "K\"\n".into();
    for text in [table(&answer, "--columns Nothing"), names(&answer.report), dot(&answer.report)] {
        assert_harmless(&text, 12);
    }
    let dot = dot(&answer.report);
    let label = dot.lines().find(|line| line.contains("n0 [label")).unwrap();
    assert!(label.contains("K\\\"") && label.ends_with("style=dashed];"), "{label}");
}
