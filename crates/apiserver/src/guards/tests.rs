//! Guards in front of a server. The answers are those of a real kube-apiserver 1.20.2.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{Admission, Denial, Operation, Verdict};
use crate::call::Call;
use crate::resources::ResourceName;
use crate::server::{Answer, Body, Release, Server, Settings};

const SECRETS: &str = "/api/v1/namespaces/t/secrets";
const PODS: &str = "/api/v1/namespaces/t/pods";
const NAMESPACES: &str = "/api/v1/namespaces";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const TOKEN: &str = "token";
const USER: &str = "system:serviceaccount:t:bob";

/// A server with the namespace `t` and two secrets, one of which has a label.
struct Stage {
    server: Server,
    now: SystemTime,
    token: &'static str,
}

impl Stage {
    fn new() -> Self {
        let settings = Settings { release: Release::V1_20, ..Settings::default() };
        let now = settings.epoch;
        let mut stage = Self { server: Server::new(settings), now, token: "" };
        stage.ok("POST", NAMESPACES, json!({"metadata": {"name": "t"}}));
        stage.ok("POST", SECRETS, json!({"metadata": {"name": "x", "labels": {"denied": "yes"}}}));
        stage.ok("POST", SECRETS, json!({"metadata": {"name": "free"}}));
        stage
    }

    fn send(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let query = query.split('&').filter_map(|pair| pair.split_once('='));
        let call = Call {
            method: method.parse().unwrap(),
            path: path.to_owned(),
            query: query.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            accept: "application/json".to_owned(),
            content_type: match method {
                "PATCH" => "application/merge-patch+json".to_owned(),
                _ => "application/json".to_owned(),
            },
            user_agent: "test".to_owned(),
            token: self.token.to_owned(),
            body: match body {
                Value::Null => Vec::new(),
                body => body.to_string().into_bytes(),
            }
            .into(),
        };
        let Answer::Whole(reply) = self.server.handle(&call, self.now) else { return (200, Value::Null) };
        let body = match reply.body {
            Body::Json(value, _) => value,
            Body::Written(bytes, _) => serde_json::from_slice(&bytes).unwrap(),
            Body::Text(text) => text.into(),
        };
        (reply.code, body)
    }

    #[track_caller]
    fn ok(&mut self, method: &str, path: &str, body: Value) -> Value {
        let (code, body) = self.send(method, path, body);
        assert!(code < 300, "{method} {path}: {body}");
        body
    }

    /// Sends a request that must be rejected with this code and message.
    #[track_caller]
    fn refused(&mut self, (method, path): (&str, &str), body: Value, (code, message): (u16, &str)) -> Value {
        let (found, body) = self.send(method, path, body);
        assert_eq!((found, body["message"].as_str()), (code, Some(message)), "{method} {path}");
        body
    }

    /// Denies labelled objects. Returns the count of reviews.
    fn guarded(&mut self, code: Option<u16>, message: &'static str) -> Arc<AtomicUsize> {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        self.server.guards.admission = Some(Admission::new(move |review| {
            count.fetch_add(1, Ordering::Relaxed);
            if review.object.label("denied").is_none() {
                return Verdict::Allow;
            }
            let (webhook, message) = ("guard.example.com".to_owned(), message.to_owned());
            Denial { webhook, code, message, ..Denial::default() }.into()
        }));
        asked
    }

    /// A user with these rules.
    fn restricted(&mut self, rules: Value) {
        let metadata = json!({"name": "some"});
        let mut role = json!({"metadata": metadata});
        role["rules"] = rules;
        self.ok("POST", ROLES, role);
        let subject = json!({"kind": "ServiceAccount", "namespace": "t", "name": "bob"});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "some"});
        self.ok("POST", BINDINGS, json!({"metadata": metadata, "subjects": [subject], "roleRef": role}));
        self.server.guards.users.insert(TOKEN.into(), USER.into());
        self.token = TOKEN;
    }
}

#[test]
fn a_denial_has_the_message_of_a_webhook_without_reason_and_details() {
    let mut stage = Stage::new();
    stage.guarded(Some(403), "no");
    let x = format!("{SECRETS}/x");
    let denied = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
        "message": "admission webhook \"guard.example.com\" denied the request: no",
    });
    assert_eq!(stage.send("DELETE", &x, Value::Null), (403, denied));
}

#[test]
fn a_denial_without_an_error_code_is_a_400() {
    let denied = |code| Denial { webhook: "w".to_owned(), code, ..Denial::default() }.into_status();
    for (given, shown) in [(None, 400), (Some(200), 400), (Some(429), 429)] {
        let status = denied(given);
        assert_eq!(status.code, shown);
        assert_eq!(status.message, "admission webhook \"w\" denied the request without explanation");
    }
}

#[test]
fn a_denial_can_look_like_an_answer_of_the_store() {
    let mut stage = Stage::new();
    let x = format!("{SECRETS}/x");
    let details = json!({"name": "x", "kind": "secrets", "uid": "u"});
    let of_webhook = Denial {
        webhook: "w".to_owned(),
        code: Some(404),
        reason: "NotFound",
        message: String::new(),
        details: Some(details.clone()),
    };
    stage.server.guards.admission = Some(Admission::new(move |_| of_webhook.clone().into()));
    let denied = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
        "reason": "NotFound", "details": details,
        "message": "admission webhook \"w\" denied the request: NotFound",
    });
    assert_eq!(stage.send("DELETE", &x, Value::Null), (404, denied));
}

/// As kube-apiserver 1.36 has it.
#[test]
fn a_policy_denies_with_the_name_of_its_binding() {
    let mut stage = Stage::new();
    stage.server.guards.admission = Some(Admission::new(|review| review.denied_by_policy("p", "b", "no")));
    let why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
    let message = format!("secrets \"x\" is forbidden: {why}");
    let answer = stage.refused(("DELETE", &format!("{SECRETS}/x")), Value::Null, (422, &message));
    assert_eq!(answer["reason"], "Invalid");
    assert_eq!(answer["details"], json!({"name": "x", "kind": "secrets", "causes": [{"message": why}]}));
}

#[test]
fn admission_changes_what_is_written() {
    let mut stage = Stage::new();
    let owner = json!({"apiVersion": "v1", "kind": "Secret", "name": "free", "uid": "u"});
    let references = json!([owner]);
    let wanted = references.clone();
    stage.server.guards.admission = Some(Admission::new(move |review| {
        let Some(mut new) = review.new.cloned() else { return Verdict::Allow };
        new["metadata"]["ownerReferences"] = wanted.clone();
        Verdict::Mutate(new)
    }));
    let created = stage.ok("POST", SECRETS, json!({"metadata": {"name": "new"}}));
    assert_eq!(created["metadata"]["ownerReferences"], references);
    let new = format!("{SECRETS}/new");
    let patched = stage.ok("PATCH", &new, json!({"metadata": {"ownerReferences": null}}));
    assert_eq!(patched["metadata"]["ownerReferences"], references);
    assert_eq!(patched["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(stage.ok("GET", &new, Value::Null), patched);
}

#[test]
fn every_write_can_be_denied() {
    let mut stage = Stage::new();
    stage.ok("PATCH", &format!("{SECRETS}/x"), json!({"metadata": {"finalizers": ["x.io/a"]}}));
    let asked = stage.guarded(Some(403), "no");
    let before = stage.server.store.head();
    let denial = (403, "admission webhook \"guard.example.com\" denied the request: no");
    let patch = json!({"metadata": {"finalizers": null}});
    let whole = json!({"metadata": {"name": "x"}});
    let foreground = json!({"propagationPolicy": "Foreground"});
    for query in ["", "?dryRun=All"] {
        let x = format!("{SECRETS}/x{query}");
        stage.refused(("PATCH", &x), patch.clone(), denial);
        stage.refused(("PUT", &x), whole.clone(), denial);
        stage.refused(("DELETE", &x), Value::Null, denial);
        stage.refused(("DELETE", &x), foreground.clone(), denial);
        let marked = format!("{SECRETS}?labelSelector=denied{}", query.replace('?', "&"));
        stage.refused(("DELETE", &marked), Value::Null, denial);
        let new = json!({"metadata": {"name": "new", "labels": {"denied": "yes"}}});
        stage.refused(("POST", &format!("{SECRETS}{query}")), new, denial);
    }
    assert_eq!(stage.server.store.head(), before);
    assert_eq!(asked.load(Ordering::Relaxed), 12);
}

#[test]
fn a_patch_that_removes_the_last_finalizer_is_an_update() {
    let mut stage = Stage::new();
    let x = format!("{SECRETS}/x");
    stage.ok("PATCH", &x, json!({"metadata": {"finalizers": ["x.io/a"]}}));
    stage.ok("DELETE", &x, Value::Null);
    stage.server.guards.admission = Some(Admission::new(|review| {
        let denied = review.operation == Operation::Update
            && review.resource == ResourceName::new("", "secrets")
            && review.subresource.is_none()
            && review.object.deletion_timestamp().is_some();
        match denied {
            true => Denial { webhook: "w".to_owned(), message: "no".to_owned(), ..Denial::default() }.into(),
            false => Verdict::Allow,
        }
    }));
    let patch = json!({"metadata": {"finalizers": null}});
    stage.refused(("PATCH", &x), patch.clone(), (400, "admission webhook \"w\" denied the request: no"));
    stage.server.guards.admission = None;
    stage.ok("PATCH", &x, patch);
    assert_eq!(stage.send("GET", &x, Value::Null).0, 404);
}

#[test]
fn failing_requests_and_reads_need_no_admission() {
    let mut stage = Stage::new();
    let asked = stage.guarded(Some(403), "no");
    let x = format!("{SECRETS}/x");
    let other = json!({"preconditions": {"uid": "other"}});
    assert_eq!(stage.send("DELETE", &x, other).0, 409);
    assert_eq!(stage.send("PATCH", &x, json!({"metadata": {"resourceVersion": "1"}})).0, 409);
    assert_eq!(stage.send("PATCH", &x, json!({"metadata": {"labels": "wrong"}})).0, 422);
    assert_eq!(stage.send("DELETE", &format!("{SECRETS}/none"), Value::Null).0, 404);
    stage.ok("GET", &x, Value::Null);
    assert_eq!(stage.send("POST", SECRETS, json!({"metadata": {"name": "Wrong"}})).0, 422);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[test]
fn a_repeated_deletion_needs_no_admission() {
    let mut stage = Stage::new();
    let pod = json!({"metadata": {"name": "p", "labels": {"denied": "yes"}}, "spec": {"nodeName": "n"}});
    stage.ok("POST", PODS, pod);
    stage.ok("DELETE", &format!("{PODS}/p"), Value::Null);
    let asked = stage.guarded(None, "no");
    stage.ok("DELETE", &format!("{PODS}/p"), Value::Null);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[test]
fn namespaces_and_definitions_are_guarded_like_other_objects() {
    let mut stage = Stage::new();
    let labels = json!({"denied": "yes"});
    stage.ok("POST", NAMESPACES, json!({"metadata": {"name": "n", "labels": labels}}));
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let spec = json!({
        "group": "x.io", "scope": "Cluster", "versions": [version],
        "names": {"plural": "foos", "kind": "Foo"},
    });
    stage.ok("POST", CRDS, json!({"metadata": {"name": "foos.x.io", "labels": labels}, "spec": spec}));
    stage.now += Duration::from_secs(10);
    stage.server.tick(stage.now);
    let before = stage.server.store.head();
    stage.guarded(None, "no");
    let denial = (400, "admission webhook \"guard.example.com\" denied the request: no");
    for path in [format!("{NAMESPACES}/n"), format!("{CRDS}/foos.x.io")] {
        stage.refused(("DELETE", &path), Value::Null, denial);
    }
    assert_eq!(stage.server.store.head(), before);
}

#[test]
fn the_servers_own_writes_are_not_denied() {
    let mut stage = Stage::new();
    stage.guarded(None, "no");
    stage.ok("DELETE", &format!("{NAMESPACES}/t"), Value::Null);
    stage.now += Duration::from_secs(10);
    stage.server.tick(stage.now);
    assert_eq!(stage.send("GET", &format!("{SECRETS}/x"), Value::Null).0, 404);
    assert_eq!(stage.send("GET", &format!("{NAMESPACES}/t"), Value::Null).0, 404);
}

#[test]
fn access_without_a_role_is_forbidden_with_the_message_of_rbac() {
    let mut stage = Stage::new();
    stage.restricted(json!([]));
    let cases = [
        ("DELETE", "/api/v1/namespaces/t/secrets/x", "secrets \"x\"", "delete", "secrets", "", "t"),
        ("DELETE", SECRETS, "secrets", "deletecollection", "secrets", "", "t"),
        ("GET", SECRETS, "secrets", "list", "secrets", "", "t"),
        ("GET", "/api/v1/secrets?watch=1", "secrets", "watch", "secrets", "", ""),
        ("POST", SECRETS, "secrets", "create", "secrets", "", "t"),
        (
            "PUT",
            "/api/v1/namespaces/t/finalize",
            "namespaces \"t\"",
            "update",
            "namespaces/finalize",
            "",
            "t",
        ),
        ("GET", "/api/v1/namespaces/t", "namespaces \"t\"", "get", "namespaces", "", "t"),
        ("PATCH", "/apis/x.io/v1/foos/f/status", "foos.x.io \"f\"", "patch", "foos/status", "x.io", ""),
    ];
    for (method, path, object, verb, resource, group, namespace) in cases {
        let place = match namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let message = format!(
            "{object} is forbidden: User \"{USER}\" cannot {verb} resource \"{resource}\" in API group \
             \"{group}\" {place}"
        );
        let body = stage.refused((method, path), Value::Null, (403, &message));
        assert_eq!(body["reason"], "Forbidden");
    }
    let (_, body) = stage.send("DELETE", &format!("{SECRETS}/x"), Value::Null);
    assert_eq!(body["details"], json!({"name": "x", "kind": "secrets"}));
}

#[test]
fn a_changed_role_takes_effect_at_once() {
    let mut stage = Stage::new();
    let rule = |verbs: &[&str]| json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": verbs}]);
    stage.restricted(rule(&["get"]));
    let x = format!("{SECRETS}/x");
    stage.ok("GET", &x, Value::Null);
    assert_eq!(stage.send("DELETE", &x, Value::Null).0, 403);
    stage.token = "";
    stage.ok("PATCH", &format!("{ROLES}/some"), json!({"rules": rule(&["delete"])}));
    stage.token = TOKEN;
    assert_eq!(stage.send("GET", &x, Value::Null).0, 403);
    stage.ok("DELETE", &x, Value::Null);
}

#[test]
fn every_part_of_a_rule_must_match() {
    let secrets = [("GET", SECRETS), ("DELETE", "/api/v1/namespaces/t/secrets/x?dryRun=All")];
    let status = [("PATCH", "/api/v1/namespaces/t/pods/p/status"), ("PATCH", "/api/v1/namespaces/t/pods/p")];
    let cases = [
        (json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}), secrets, [true, true]),
        (json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}), secrets, [true, false]),
        (json!({"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}), secrets, [false, false]),
        (json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}), secrets, [false, false]),
        (
            json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"], "resourceNames": ["x"]}),
            secrets,
            [false, true],
        ),
        (json!({"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}), status, [true, true]),
        (json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}), status, [false, true]),
        (json!({"apiGroups": [""], "resources": ["pods/status"], "verbs": ["*"]}), status, [true, false]),
        (json!({"apiGroups": [""], "resources": ["*/status"], "verbs": ["*"]}), status, [true, false]),
        (json!({"apiGroups": [""], "resources": ["*/scale"], "verbs": ["*"]}), status, [false, false]),
    ];
    for (rule, requests, expected) in cases {
        let mut stage = Stage::new();
        stage.restricted(json!([rule]));
        let allowed = requests.map(|(method, path)| stage.send(method, path, json!({})).0 != 403);
        assert_eq!(allowed, expected, "{rule}");
    }
}

#[test]
fn other_users_and_requests_without_objects_are_not_restricted() {
    let mut stage = Stage::new();
    stage.restricted(json!([]));
    for path in ["/api", "/apis", "/api/v1", "/version", "/readyz"] {
        stage.ok("GET", path, Value::Null);
    }
    for token in ["", "another"] {
        stage.token = token;
        stage.ok("GET", &format!("{SECRETS}/x"), Value::Null);
    }
    // Bound to another subject.
    stage.server.guards.users.insert("alice".into(), "system:serviceaccount:t:alice".into());
    stage.token = "";
    let rule = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    stage.ok("PATCH", &format!("{ROLES}/some"), json!({"rules": rule}));
    stage.token = "alice";
    assert_eq!(stage.send("GET", &format!("{SECRETS}/x"), Value::Null).0, 403);
    stage.token = TOKEN;
    stage.ok("GET", &format!("{SECRETS}/x"), Value::Null);
}

#[test]
fn a_user_is_not_necessarily_a_service_account() {
    let mut stage = Stage::new();
    stage.restricted(json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]));
    stage.server.guards.users.insert("carol".into(), "carol".into());
    let x = format!("{SECRETS}/x");
    stage.token = "carol";
    assert_eq!(stage.send("GET", &x, Value::Null).0, 403);
    stage.token = "";
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol"}]);
    stage.ok("PATCH", &format!("{BINDINGS}/some"), json!({"subjects": subjects}));
    stage.token = "carol";
    stage.ok("GET", &x, Value::Null);
}
