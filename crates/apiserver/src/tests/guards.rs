//! Guards in front of a server. The answers are those of real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::guards::{Admission, Denial, Verdict};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const USER: &str = "system:serviceaccount:shop:bob";

impl Stage {
    /// With the config map `x`, which is denied: the answer to everything that changes it. Returns the
    /// count of reviews.
    fn guarded(denial: Denial) -> (Self, Arc<AtomicUsize>) {
        let mut stage = Self::new(Release::V1_36);
        stage.map(json!({"name": "x", "labels": {"denied": "yes"}, "finalizers": ["x.io/a"]}));
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        stage.server.guards.admission = Some(Admission::new(move |review| {
            count.fetch_add(1, Ordering::Relaxed);
            match review.object.label("denied") {
                None => Verdict::Allow,
                Some(_) => denial.clone().into(),
            }
        }));
        (stage, asked)
    }

    /// With a token whose user has this rule.
    fn restricted(rule: Value) -> Self {
        let mut stage = Self::new(Release::V1_36);
        let metadata = json!({"name": "some"});
        stage.ok("POST", ROLES, json!({"metadata": metadata, "rules": [rule]}));
        let subject = json!({"kind": "ServiceAccount", "namespace": "shop", "name": "bob"});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "some"});
        stage.ok("POST", BINDINGS, json!({"metadata": metadata, "subjects": [subject], "roleRef": role}));
        stage.server.guards.users.insert("token".into(), USER.into());
        stage.token = "token";
        stage
    }
}

#[test]
fn every_write_can_be_denied() {
    let denial =
        Denial { webhook: "w".to_owned(), code: Some(403), message: "no".to_owned(), ..Denial::default() };
    let (mut stage, asked) = Stage::guarded(denial);
    let before = stage.server.store.head();
    for query in ["", "?dryRun=All"] {
        let x = format!("{MAPS}/x{query}");
        let marked = format!("{MAPS}?labelSelector=denied{}", query.replace('?', "&"));
        let new = json!({"metadata": {"name": "new", "labels": {"denied": "yes"}}});
        for (method, path, body) in [
            ("PATCH", x.clone(), json!({"metadata": {"finalizers": null}})),
            ("PUT", x.clone(), json!({"metadata": {"name": "x"}})),
            ("DELETE", x.clone(), Value::Null),
            ("DELETE", x, json!({"propagationPolicy": "Foreground"})),
            ("DELETE", marked, Value::Null),
            ("POST", format!("{MAPS}{query}"), new),
        ] {
            let denied = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
                "message": "admission webhook \"w\" denied the request: no",
            });
            assert_eq!(stage.send(method, &path, body), (403, denied), "{method} {path}");
        }
    }
    assert_eq!((stage.server.store.head(), asked.load(Ordering::Relaxed)), (before, 12));
    // What fails anyway is not reviewed.
    let other = json!({"preconditions": {"uid": "other"}});
    stage.refused(("DELETE", &format!("{MAPS}/x")), other, (409, "Conflict"));
    stage.refused(("POST", MAPS), json!({"metadata": {"name": "Wrong"}}), (422, "Invalid"));
    assert_eq!(asked.load(Ordering::Relaxed), 12);
    // The server's own writes are not denied, either.
    stage.server.guards.admission = None;
    stage.ok("PATCH", &format!("{MAPS}/x"), json!({"metadata": {"finalizers": null}}));
    stage.ok("DELETE", &format!("{NAMESPACES}/shop"), Value::Null);
    stage.server.guards.admission = Some(Admission::new(|_| Denial::default().into()));
    stage.settle();
    assert_eq!(stage.get(&format!("{NAMESPACES}/shop")).0, 404);
}

#[test]
fn every_part_of_a_rule_must_match() {
    let maps = [("GET", MAPS), ("DELETE", "/api/v1/namespaces/shop/configmaps/x?dryRun=All")];
    let status =
        [("PATCH", "/api/v1/namespaces/shop/pods/p/status"), ("PATCH", "/api/v1/namespaces/shop/pods/p")];
    for (groups, resources, verbs, name, requests, expected) in [
        ("*", "*", "*", None, maps, [true, true]),
        ("*", "*", "list", None, maps, [true, false]),
        ("apps", "*", "*", None, maps, [false, false]),
        ("", "pods", "*", None, maps, [false, false]),
        ("", "configmaps", "*", Some("x"), maps, [false, true]),
        ("", "pods", "*", None, status, [false, true]),
        ("", "pods/status", "*", None, status, [true, false]),
        ("", "*/status", "*", None, status, [true, false]),
    ] {
        let mut rule = json!({"apiGroups": [groups], "resources": [resources], "verbs": [verbs]});
        if let Some(name) = name {
            rule["resourceNames"] = json!([name]);
        }
        let mut stage = Stage::restricted(rule.clone());
        let allowed = requests.map(|(method, path)| stage.send(method, path, json!({})).0 != 403);
        assert_eq!(allowed, expected, "{rule}");
        assert_eq!(stage.get("/version").0, 200);
        stage.token = "another";
        assert_eq!(stage.get(MAPS).0, 200, "other users are not restricted");
    }
}
