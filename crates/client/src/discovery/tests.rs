use std::collections::HashMap;

use super::document::{MOST_TYPES, MOST_VERSIONS};
use super::*;
use crate::ErrorClass;
use crate::testing::{ReceivedRequest, Reply, Server};
use kube_gc_core::object::{GroupResource, Scope};

const ALL: &str = r#"["create","delete","get","list","patch","watch"]"#;

/// A server whose documents are these; anything else is a 404.
fn server(documents: impl IntoIterator<Item = (&'static str, Reply)>) -> Server {
    let documents: HashMap<_, _> = documents.into_iter().collect();
    Server::answering(move |seen: &ReceivedRequest| {
        let not_served = || Reply::code(404, "404 page not found");
        documents.get(&*seen.path).cloned().unwrap_or_else(not_served)
    })
}

fn plain(group_version: &str, resources: &[(&str, &str, &str)]) -> Reply {
    let resources: Vec<String> = resources
        .iter()
        .map(|(name, kind, verbs)| {
            format!(r#"{{"name":"{name}","kind":"{kind}","namespaced":true,"verbs":{verbs}}}"#)
        })
        .collect();
    let resources = resources.join(",");
    Reply::ok(format!(
        r#"{{"kind":"APIResourceList","groupVersion":"{group_version}","resources":[{resources}]}}"#
    ))
}

fn groups(groups: &[(&str, &[&str], &str)]) -> Reply {
    let groups: Vec<String> = groups
        .iter()
        .map(|(name, versions, preferred)| {
            let versions: Vec<_> =
                versions.iter().map(|v| format!(r#"{{"groupVersion":"{name}/{v}","version":"{v}"}}"#)).collect();
            let versions = versions.join(",");
            format!(r#"{{"name":"{name}","versions":[{versions}],"preferredVersion":{{"version":"{preferred}"}}}}"#)
        })
        .collect();
    Reply::ok(format!(r#"{{"kind":"APIGroupList","groups":[{}]}}"#, groups.join(",")))
}

fn core() -> [(&'static str, Reply); 2] {
    let types = [
        ("configmaps", "ConfigMap", ALL),
        ("pods", "Pod", ALL),
        ("pods/log", "Pod", r#"["get"]"#),
        ("bindings", "Binding", r#"["create"]"#),
    ];
    let versions = r#"{"kind":"APIVersions","versions":["v1"]}"#;
    [("/api", Reply::ok(versions)), ("/api/v1", plain("v1", &types))]
}

fn with<const N: usize>(more: [(&'static str, Reply); N]) -> Server {
    server(core().into_iter().chain(more))
}

fn names(discovered: &Discovered) -> Vec<String> {
    discovered
        .watchable
        .iter()
        .map(|watchable| format!("{} {}", watchable.resource.group_resource, watchable.resource.version))
        .collect()
}

#[tokio::test]
async fn an_old_server_is_asked_group_by_group() {
    let server = with([
        ("/apis", groups(&[("example.com", &["v1", "v2"], "v2")])),
        (
            "/apis/example.com/v1",
            plain("example.com/v1", &[("widgets", "Widget", ALL), ("olds", "Old", ALL)]),
        ),
        (
            "/apis/example.com/v2",
            plain("example.com/v2", &[("widgets", "Widget", ALL), ("olds", "Old", r#"["get"]"#)]),
        ),
    ]);
    let discovered = server.api().discover(None).await.unwrap();
    let expected = ["configmaps v1", "pods v1", "olds.example.com v1", "widgets.example.com v2"];
    assert_eq!(names(&discovered), expected);
    assert!(discovered.failures.is_empty());
    let catalog = &discovered.catalog;
    let widgets = catalog.resolve("example.com/v1", "Widget").unwrap();
    assert_eq!(&*widgets.version, "v2");
    assert_eq!(&*catalog.resolve("example.com/v2", "Old").unwrap().version, "v1");
    assert!(catalog.resolve("v1", "Binding").is_some(), "types that cannot be watched resolve too");
    assert!(catalog.resource(&GroupResource::parse("pods/log")).is_none());
}

const AGGREGATED: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
 {"metadata":{"name":"apps"},"versions":[
   {"version":"v1","freshness":"Current","resources":[
     {"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced",
      "singularResource":"deployment","verbs":["delete","get","list","watch"],
      "subresources":[{"subresource":"scale","verbs":["get"]}]},
     {"resource":"odd","scope":"Cluster","verbs":null}]}]},
 {"metadata":{"name":"metrics.example.com"},"versions":[{"version":"v1","freshness":"Stale","resources":[]}]}]}"#;
const AGGREGATED_CORE: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
 {"metadata":{},"versions":[{"version":"v1","freshness":"Current","resources":[
   {"resource":"nodes","responseKind":{"group":"","version":"","kind":"Node"},"scope":"Cluster",
    "verbs":["delete","get","list","watch"]}]}]}]}"#;

#[tokio::test]
async fn aggregated_discovery_takes_two_requests_and_rereads_stale_groups() {
    let server = server([
        ("/api", Reply::ok(AGGREGATED_CORE)),
        ("/apis", Reply::ok(AGGREGATED)),
        ("/apis/metrics.example.com/v1", Reply::code(503, "service unavailable")),
    ]);
    let discovered = server.api().discover(None).await.unwrap();
    assert_eq!(names(&discovered), ["nodes v1", "deployments.apps v1"]);
    assert_eq!(discovered.watchable[0].resource.scope, Scope::Cluster);
    assert_eq!(discovered.failures.len(), 1);
    let failure = &discovered.failures[0];
    assert_eq!((&*failure.group, failure.version.as_deref()), ("metrics.example.com", Some("v1")));
    assert!(failure.error.contains("service unavailable"));
    assert_eq!(server.requests().len(), 4);
    assert!(server.seen()[0].header("accept").contains("as=APIGroupDiscoveryList"));
}

#[tokio::test]
async fn a_failed_group_keeps_its_known_types_and_others_do_not() {
    let apis = || groups(&[("a.io", &["v1"], "v1"), ("b.io", &["v1"], "v1")]);
    let widgets = || plain("a.io/v1", &[("widgets", "Widget", ALL)]);
    let gadgets = || plain("b.io/v1", &[("gadgets", "Gadget", ALL)]);
    let before = with([("/apis", apis()), ("/apis/a.io/v1", widgets()), ("/apis/b.io/v1", gadgets())]);
    let before = before.api().discover(None).await.unwrap();

    // One group version fails.
    let forbidden = Reply::status(403, "no", "{}");
    let server = with([("/apis", apis()), ("/apis/a.io/v1", forbidden), ("/apis/b.io/v1", gadgets())]);
    let after = server.api().discover(Some(&before)).await.unwrap();
    assert_eq!(names(&after), names(&before));
    assert!(after.catalog.resolve("a.io/v1", "Widget").is_some());
    // Once more: the known types are kept, however long the failure lasts.
    let again = server.api().discover(Some(&after)).await.unwrap();
    assert_eq!(names(&again), names(&before));

    // The list of groups fails.
    let server = with([("/apis", Reply::code(500, "oops"))]);
    let after = server.api().discover(Some(&before)).await.unwrap();
    assert_eq!(names(&after), names(&before));
    assert_eq!(&*after.failures[0].group, "*");

    // A group that is no longer listed is gone.
    let server = with([("/apis", groups(&[("b.io", &["v1"], "v1")])), ("/apis/b.io/v1", gadgets())]);
    let after = server.api().discover(Some(&before)).await.unwrap();
    assert_eq!(names(&after), ["configmaps v1", "pods v1", "gadgets.b.io v1"]);
}

/// A server that makes types up does not fill the memory.
#[tokio::test]
async fn too_many_types_or_versions_are_a_failure() {
    let names: Vec<_> = (0..=MOST_TYPES).map(|number| format!("things{number}")).collect();
    let types: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_str(), ALL)).collect();
    let apis = || groups(&[("a.io", &["v1"], "v1")]);
    let discover = async |types: &[_]| {
        let server = with([("/apis", apis()), ("/apis/a.io/v1", plain("a.io/v1", types))]);
        server.api().discover(None).await.unwrap()
    };
    let as_many = discover(&types[1..]).await;
    assert_eq!((as_many.watchable.len(), as_many.failures.len()), (2 + MOST_TYPES, 0));
    let too_many = discover(&types).await;
    assert_eq!(too_many.watchable.len(), 2);
    assert!(too_many.failures[0].error.contains("2001 types"), "{}", too_many.failures[0].error);

    let names: Vec<_> = (0..=MOST_VERSIONS).map(|number| format!("v{number}")).collect();
    let versions: Vec<_> = names.iter().map(String::as_str).collect();
    let too_many =
        with([("/apis", groups(&[("a.io", &versions, "v1")]))]).api().discover(None).await.unwrap();
    assert_eq!(&*too_many.failures[0].group, "*");
    assert!(too_many.failures[0].error.contains("10000 group versions"), "{}", too_many.failures[0].error);
}

/// Rule 5.14.
#[tokio::test]
async fn what_was_never_read_is_told_from_what_was() {
    let parts = |discovered: &Discovered| -> Vec<String> {
        discovered.never_read.iter().map(|part| part.unseen().what).collect()
    };
    let apis = || groups(&[("a.io", &["v1", "v2"], "v1")]);
    let v1 = || plain("a.io/v1", &[("widgets", "Widget", ALL)]);
    let down = || Reply::code(503, "no");
    let server = with([("/apis", down())]);
    let nothing = server.api().discover(None).await.unwrap();
    assert_eq!(parts(&nothing), ["the list of API groups"]);

    let server = with([("/apis", apis()), ("/apis/a.io/v1", v1()), ("/apis/a.io/v2", down())]);
    let first = server.api().discover(Some(&nothing)).await.unwrap();
    assert_eq!(parts(&first), ["a.io/v2"]);
    assert!(first.never_read[0].error.contains("503"), "{:?}", first.never_read);
    assert!(first.catalog.is_unread("a.io/v2") && !first.catalog.is_unread("a.io/v1"));
    let server = with([("/apis", down())]);
    let second = server.api().discover(Some(&first)).await.unwrap();
    assert_eq!(parts(&second), ["a.io/v2"], "the groups are known");

    let v2 = plain("a.io/v2", &[("widgets", "Widget", ALL)]);
    let server = with([("/apis", apis()), ("/apis/a.io/v1", down()), ("/apis/a.io/v2", v2)]);
    let third = server.api().discover(Some(&second)).await.unwrap();
    assert_eq!((parts(&third).len(), third.failures.len()), (0, 1), "v1 was read before");
    assert!(!third.catalog.has_unread() && third.catalog.resolve("a.io/v1", "Widget").is_some());
}

#[tokio::test]
async fn nothing_discovered_is_an_error() {
    let down = server([("/api", Reply::code(503, "no")), ("/apis", Reply::code(503, "no"))]);
    assert_eq!(down.api().discover(None).await.unwrap_err().class, ErrorClass::Transient);
    let empty = server([
        ("/api", Reply::ok(r#"{"kind":"APIVersions","versions":[]}"#)),
        ("/apis", Reply::ok(r#"{"kind":"APIGroupList","groups":[]}"#)),
    ]);
    assert_eq!(empty.api().discover(None).await.unwrap_err().class, ErrorClass::Unusable);
    // An answer of the wrong kind must not read as "no resource exists".
    let wrong = server([("/api", Reply::ok("{}")), ("/apis", Reply::ok(r#"{"kind":"List","items":[]}"#))]);
    assert_eq!(wrong.api().discover(None).await.unwrap_err().class, ErrorClass::Unusable);
}

fn aggregated(discovered: &Discovered) -> Vec<bool> {
    discovered.watchable.iter().map(|watchable| watchable.deletes_prove == DeletesProve::Nothing).collect()
}

#[tokio::test]
async fn the_server_of_a_group_is_known_or_assumed_to_be_foreign() {
    const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
    let apis = || groups(&[("a.io", &["v1"], "v1"), ("b.io", &["v1"], "v1")]);
    let documents = || {
        [
            ("/apis", apis()),
            ("/apis/a.io/v1", plain("a.io/v1", &[("widgets", "Widget", ALL)])),
            ("/apis/b.io/v1", plain("b.io/v1", &[("gadgets", "Gadget", ALL)])),
        ]
    };
    let [one, two, three] = documents();
    let services = Reply::ok(
        r#"{"kind":"APIServiceList","items":[
            {"spec":{"version":"v1"}},
            {"spec":{"group":"a.io","version":"v1","service":null,"caBundle":"x"}},
            {"spec":{"group":"b.io","version":"v1","service":{"name":"b"}}}]}"#,
    );
    let server = with([one, two, three, (PATH, services)]);
    let known = server.api().discover(None).await.unwrap();
    assert_eq!(aggregated(&known), [false, false, false, true]);

    let [one, two, three] = documents();
    let server = with([one, two, three]);
    let unknown = server.api().discover(None).await.unwrap();
    assert_eq!(aggregated(&unknown), [false, false, true, true]);
    let kept = server.api().discover(Some(&known)).await.unwrap();
    assert_eq!(aggregated(&kept), [false, false, false, true]);
}

#[tokio::test]
async fn a_deletable_resource_keeps_a_kind_that_two_claim() {
    let server = with([
        ("/apis", groups(&[("a.io", &["v1"], "v1")])),
        (
            "/apis/a.io/v1",
            plain("a.io/v1", &[("alsowidgets", "Widget", r#"["get"]"#), ("widgets", "Widget", ALL)]),
        ),
    ]);
    let discovered = server.api().discover(None).await.unwrap();
    let resolved = discovered.catalog.resolve("a.io/v1", "Widget").unwrap();
    assert_eq!(resolved.group_resource, GroupResource::parse("widgets.a.io"));
}

/// An aggregated API may claim whatever it likes to serve; each type would be watched.
#[tokio::test]
async fn absurd_names_of_types_are_rejected() {
    let absurd = [("..", "A", ALL), ("a?b", "B", ALL), ("a%2Fb", "C", ALL), ("fine", "D", ALL)];
    let server = with([
        ("/apis", groups(&[("absurd.io", &["v1"], "v1")])),
        ("/apis/absurd.io/v1", plain("absurd.io/v1", &absurd)),
    ]);
    let discovered = server.api().discover(None).await.unwrap();
    assert_eq!(names(&discovered), ["configmaps v1", "pods v1", "fine.absurd.io v1"]);
}

async fn content_types(v2: Reply) -> ContentTypes {
    let core = r#"{"kind":"APIResourceList","resources":[
        {"name":"pods","namespaced":true,"kind":"Pod","verbs":["delete","deletecollection","list","get"]},
        {"name":"pods/status","namespaced":true,"kind":"Pod","verbs":["get","delete"]},
        {"name":"bindings","namespaced":true,"kind":"Binding","verbs":["create"]},
        {"name":"nodes","namespaced":false,"kind":"Node","verbs":["delete","list"]}]}"#;
    let v1 = [("widgets", "Widget", r#"["delete","list"]"#), ("secrecies", "Secrecy", r#"["delete"]"#)];
    let server = with([
        ("/api/v1", Reply::ok(core)),
        ("/apis", groups(&[("example.com", &["v2", "v1"], "v2")])),
        ("/apis/example.com/v1", plain("example.com/v1", &v1)),
        ("/apis/example.com/v2", v2),
    ]);
    server.api().content_types().await.unwrap()
}

#[tokio::test]
async fn each_namespaced_type_that_can_be_deleted_counts_in_a_version_that_can_be_listed() {
    let v2 = plain("example.com/v2", &[("widgets", "Widget", r#"["delete"]"#)]);
    let found = content_types(v2).await;
    let shown: Vec<_> = found
        .types
        .iter()
        .map(|of| (of.resource.group_resource.to_string(), of.can_list, of.can_delete_collection))
        .collect();
    let expected =
        [("pods", true, true), ("secrecies.example.com", false, false), ("widgets.example.com", true, false)];
    assert_eq!(shown, expected.map(|(name, list, collection)| (name.to_owned(), list, collection)));
    assert_eq!(&*found.types[2].resource.version, "v1");
    assert!(found.undiscovered.is_empty() && found.unparsed.is_empty());
    // A version that cannot be read is named.
    let found = content_types(Reply::status(503, "not at home", "{}")).await;
    let [(part, why)] = &found.undiscovered[..] else { panic!("{found:?}") };
    assert!(part == "example.com/v2" && why.contains("not at home"), "{part} {why}");
}

/// Rule 5.15.
#[test]
fn groups_of_metrics_contain_no_dependents() {
    let of = |group: &str| GroupFailure { group: group.into(), version: None, error: String::new() };
    for metrics in ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"] {
        assert!(!of(metrics).may_have_objects(), "{metrics}");
    }
    for other in ["", "*", "example.com", "notmetrics.k8s.io", "metrics.k8s.io.example.com"] {
        assert!(of(other).may_have_objects(), "{other}");
    }
}

/// As kubectl has it: a resource or its singular, in whatever group, then a short name, then a kind.
#[tokio::test]
async fn a_name_of_a_type_goes_before_short_names_of_others() {
    let types = |of: &str| {
        let of = of.replace('\'', "\"");
        let fields = r#""namespaced":true,"verbs":["delete","list","watch"]"#;
        Reply::ok(format!(r#"{{"kind":"APIResourceList","resources":[{}]}}"#, of.replace("ALL", fields)))
    };
    let one = "{'name':'ones','kind':'Thing','singularName':'one','shortNames':['cm','two','tw','pod'],ALL}";
    let two = "{'name':'twos','kind':'Two','singularName':'two','shortNames':['tw'],ALL},
               {'name':'cm','kind':'Cm','singularName':'cm','shortNames':['o','thing'],ALL},
               {'name':'fakes','kind':'Fake','singularName':'configmap',ALL}";
    let server = with([
        ("/apis", groups(&[("a.io", &["v1"], "v1"), ("b.io", &["v1"], "v1")])),
        ("/apis/a.io/v1", types(one)),
        ("/apis/b.io/v1", types(two)),
    ]);
    let discovered = server.api().discover(None).await.unwrap();
    for (name, expected) in [
        ("cm", "cm.b.io"),
        ("cm.a.io", "ones.a.io"),
        ("CM.v1.b.io", "cm.b.io"),
        ("two", "twos.b.io"),
        ("tw", "ones.a.io"),
        ("o", "cm.b.io"),
        // A kind is the last.
        ("thing", "cm.b.io"),
        ("Thing.a.io", "ones.a.io"),
        // The kind stands for the singular that the server does not give.
        ("configmap", "configmaps"),
        ("configmap.b.io", "fakes.b.io"),
        ("pods", "pods"),
        ("pod", "ones.a.io"),
        ("none", ""),
    ] {
        let found = discovered.type_named(name).map(|found| found.group_resource.to_string());
        assert_eq!(found.unwrap_or_default(), expected, "{name}");
    }
}
