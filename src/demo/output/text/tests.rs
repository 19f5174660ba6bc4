use anstream::adapter::strip_str;

use super::*;
use crate::demo::report::Memory;

fn plain(text: &str) -> String {
    strip_str(text).to_string()
}

fn line(depth: usize, object: &str, note: &str) -> TreeLine {
    TreeLine { object: object.to_owned(), depth, note: note.to_owned() }
}

fn delete() -> Request {
    Request {
        method: "DELETE".to_owned(),
        path: "/api/v1/namespaces/shop/pods/web-1".to_owned(),
        uid: Some("u".to_owned()),
        resource_version: Some("7".to_owned()),
        propagation_policy: Some("Background".to_owned()),
        code: 200,
        milliseconds: 0.31,
    }
}

fn owner(class: &str, evidence: &str, asked: Vec<Request>) -> Owner {
    Owner { object: "Cart alice".to_owned(), class: class.to_owned(), evidence: evidence.to_owned(), asked }
}

#[test]
fn the_shop_is_shown_as_a_tree() {
    let text = super::tree(&[
        line(0, "Deployment web", ""),
        line(1, "ReplicaSet web", ""),
        line(2, "Pod one", ""),
        line(2, "Pod two", ""),
        line(1, "ConfigMap prices", "also owned by Deployment api"),
        line(0, "Deployment api", ""),
        line(1, "ReplicaSet api", ""),
        line(2, "Pod three", ""),
    ]);
    let expected = "\
The objects of the shop, each below its owner:

  Deployment web
  ├─ ReplicaSet web
  │  ├─ Pod one
  │  └─ Pod two
  └─ ConfigMap prices  (also owned by Deployment api)
  Deployment api
  └─ ReplicaSet api
     └─ Pod three
";
    assert_eq!(plain(&text), expected);
}

#[test]
fn a_step_has_its_reason_and_its_request() {
    let asked = Request {
        method: "GET".to_owned(),
        path: "/apis/shop.example.com/v1/namespaces/shop/carts/alice".to_owned(),
        code: 404,
        ..Request::default()
    };
    let step = step(&Step {
        milliseconds: 3.24,
        object: "Pod web-1".to_owned(),
        action: "delete",
        outcome: "deleted",
        finalizer: None,
        owners: vec![owner("absent", "live", vec![asked])],
        request: Some(delete()),
        error: None,
    });
    let expected = "      3.2 ms  Pod web-1 is deleted
              its owner Cart alice is absent: confirmed by the API server
              GET /apis/shop.example.com/v1/namespaces/shop/carts/alice -> 404
              DELETE /api/v1/namespaces/shop/pods/web-1 -> 200, 0.31 ms
              preconditions: uid u, resourceVersion 7; propagationPolicy Background
";
    assert_eq!(plain(&step), expected);
    assert_ne!(plain(&step), step, "on a terminal it has colours");
}

#[test]
fn a_step_that_failed_has_its_error() {
    let step = step(&Step {
        milliseconds: 1.0,
        object: "Pod web-1".to_owned(),
        action: "delete",
        outcome: "conflict",
        finalizer: None,
        owners: vec![owner("absent", "graph", Vec::new())],
        request: None,
        error: Some("409 Conflict".to_owned()),
    });
    let expected = "      1.0 ms  Pod web-1 delete: conflict
              its owner Cart alice is absent: a watch has shown its deletion
              409 Conflict
";
    assert_eq!(plain(&step), expected);
}

#[test]
fn a_phase_ends_with_what_was_verified_on_the_server() {
    let phase = Phase {
        operation: "Cart alice is deleted".to_owned(),
        command: None,
        request: delete(),
        steps: Vec::new(),
        verified: vec!["Cart alice is gone".to_owned(), "word ".repeat(20)],
        milliseconds: 12.34,
    };
    let expected = format!(
        "  0 steps in 12.3 ms. On the server:\n    ✓ Cart alice is gone\n    ✓ {}\n      word word\n",
        ["word"; 18].join(" ")
    );
    assert_eq!(plain(&verified(&phase)), expected);
}

#[test]
fn a_load_is_shown_as_a_table() {
    let load = load(&Load {
        objects: 2000,
        policy: "Background",
        seed_seconds: 0.5,
        collect_seconds: 1.0,
        objects_per_second: 2000.0,
        requests: 2001,
        requests_per_object: 1.0005,
        memory: Memory { start: Some(20 << 20), full: Some(40 << 20), end: None },
    });
    let expected = "\
2000 dependents of one owner, deleted with the policy Background
  created in             0.50 s
  collected in           1.00 s
  objects per second     2000
  requests               2001, 1.000 per object
  memory of the process  20 MiB at the start, 40 MiB with all objects, unknown at the end
";
    assert_eq!(plain(&load), expected);
}

#[test]
fn scenarios_and_operations_are_announced() {
    assert_eq!(plain(&scenario(1, 5, "orphan", "It lives on.")), "\n1/5  orphan\n     It lives on.\n");
    assert_eq!(
        plain(&operation("It goes", Some("kubectl delete it"))),
        "\n  It goes\n  $ kubectl delete it\n"
    );
}

#[test]
fn a_finalizer_is_removed_for_a_reason() {
    let step = |finalizer| Step {
        milliseconds: 1.0,
        object: "Cart alice".to_owned(),
        action: "remove_finalizer",
        outcome: "removed",
        finalizer: Some(finalizer),
        owners: Vec::new(),
        request: None,
        error: None,
    };
    for (finalizer, why) in [
        ("foregroundDeletion", "no dependent blocks it any more"),
        ("orphan", "no dependent refers to it any more"),
    ] {
        let text = plain(&super::step(&step(finalizer)));
        assert!(text.contains(&format!("loses the finalizer {finalizer}\n              {why}\n")), "{text}");
    }
}

#[test]
fn the_suggested_commands_are_about_existing_objects() {
    let endpoints = Endpoints {
        server: "http://127.0.0.1:1".to_owned(),
        health: "http://127.0.0.1:2".to_owned(),
        debug: "http://127.0.0.1:3".to_owned(),
        kubeconfig: "/tmp/config".into(),
    };
    let (shop, load) = (plain(&keeps_running(&endpoints, false)), plain(&keeps_running(&endpoints, true)));
    assert!(
        shop.contains("kubectl --kubeconfig /tmp/config -n shop get") && !shop.contains("-n load"),
        "{shop}"
    );
    assert!(
        load.contains("kubectl --kubeconfig /tmp/config -n load get") && !load.contains("shop"),
        "{load}"
    );
    for text in [&plain(&begin(&endpoints)), &shop, &load] {
        assert!(text.contains("in the browser") && text.contains(" http://127.0.0.1:3/\n"), "{text}");
    }
    assert!(
        load.contains("http://127.0.0.1:2/metrics") && load.contains("http://127.0.0.1:3/debug/graph"),
        "{load}"
    );
}

#[test]
fn a_name_cannot_control_the_terminal() {
    let mut owner = owner("absent", "graph", Vec::new());
    owner.object = "Cart a\u{1b}[2Jb\nc".to_owned();
    let mut out = String::new();
    reason(&mut out, &owner).unwrap();
    assert_eq!(
        out,
        format!("{INDENT}its owner Cart a\\u{{1b}}[2Jb\\nc is absent: a watch has shown its deletion\n")
    );
    let tree = super::tree(&[line(0, "Cart \u{1b}[2J", "")]);
    assert!(plain(&tree).contains(r"Cart \u{1b}[2J"), "{tree:?}");
}
