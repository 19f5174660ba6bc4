//! What the log looks like, in both formats.

mod writer;

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::telemetry::testing::logged_in;
use crate::telemetry::{PrintedObject, Structured};
use kube_gc_config::LogFormat;
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType, Scope, Uid};

fn logged(format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
    logged_in(format, filter, false, log)
}

#[test]
fn the_filter_decides_what_is_logged() {
    let log = || {
        tracing::debug!("quiet");
        tracing::warn!("loud");
    };
    let text = logged(LogFormat::Text, "info", log);
    assert!(text.contains("loud") && !text.contains("quiet"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours: {text:?}");
    assert_eq!(verbose_filter(0), None);
    for count in 1..=4 {
        let text = logged(LogFormat::Text, verbose_filter(count).unwrap(), log);
        assert!(text.contains("quiet"), "{text}");
    }
}

#[test]
fn whatever_has_pending_lines_writes_them_once_before_the_end() {
    #[derive(Default)]
    struct Lines(Mutex<u32>);
    impl PendingLines for Lines {
        fn write_lines(&self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let pending = Pending(Mutex::default());
    let (first, second) = (Arc::new(Lines::default()), Arc::new(Lines::default()));
    for _ in 0..100 {
        pending.add(Arc::downgrade(&Arc::new(Lines::default())) as _);
    }
    for lines in [&first, &second] {
        pending.add(Arc::downgrade(lines) as _);
    }
    assert_eq!(pending.0.lock().unwrap().len(), 2, "what is gone takes no memory");
    pending.write();
    pending.write();
    assert_eq!((*first.0.lock().unwrap(), *second.0.lock().unwrap()), (1, 1));
}

/// An error whose text comes from the cluster.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Denied(String);

/// Logs a text in every way in which there are fields.
fn log_everywhere(text: &str) {
    let error = Denied(text.to_owned());
    let span = tracing::info_span!("work", object = %text, quoted = text);
    let _entered = span.enter();
    tracing::warn!(
        name = %text,
        quoted = text,
        debug = ?[text],
        error = &error as &dyn std::error::Error,
        %error,
        "{text}: it is said that {error}"
    );
}

#[test]
fn text_looks_as_it_does_without_anything_to_escape() {
    let line = logged(LogFormat::Text, "info", || {
        tracing::info!(listener = "health", address = %"127.0.0.1:1", number = 3, list = ?["a"], "listening");
    });
    let fields = r#"listening listener="health" address=127.0.0.1:1 number=3 list=["a"]"#;
    assert!(
        line.ends_with(&format!("INFO kube_gc_observe::telemetry::logging::tests: {fields}\n")),
        "{line}"
    );
}

#[test]
fn colours_are_ours_alone() {
    let line = logged_in(LogFormat::Text, "info", true, || log_everywhere("\u{1b}[31mred"));
    assert!(line.contains('\u{1b}') && !line.contains("\u{1b}[31mred"), "{line:?}");
    assert!(line.contains(r"\u{1b}[31mred"), "{line:?}");
}

fn named(name: &str) -> Identity {
    let resource = Arc::new(ResourceType {
        group_resource: GroupResource::parse("deployments.apps"),
        version: "v1".into(),
        kind: "Deployment".into(),
        scope: Scope::Namespaced,
    });
    let uid = Uid::parse("0b6ecb4f-8a3b-4d5c-9a6b-0e8f7f3a1c2d").unwrap();
    Identity { resource, namespace: Namespace::parse("shop"), name: name.into(), uid }
}

#[test]
fn an_object_has_members_in_json_and_is_one_text_otherwise() {
    let log = || {
        let (object, owner) = (named("web"), named("api"));
        tracing::info!(
            object = Structured::object(&object).logged(),
            owner = Structured::other_object(&owner).logged(),
            none = None::<bool>,
            "decision"
        );
    };
    let line: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json, "info", || {
        tracing::info!(object = Structured::object(&named("web")).logged(), seconds = 0.25, "decision");
    }))
    .unwrap();
    assert!(
        line["timestamp"].is_string() && line["level"] == "INFO" && line["message"] == "decision",
        "{line}"
    );
    let uid = "0b6ecb4f-8a3b-4d5c-9a6b-0e8f7f3a1c2d";
    assert_eq!((&line["resource"], &line["namespace"]), (&"deployments.apps".into(), &"shop".into()));
    assert_eq!((&line["name"], &line["uid"], &line["seconds"]), (&"web".into(), &uid.into(), &0.25.into()));
    assert!(line.get("object").is_none(), "{line}");
    let line = logged(LogFormat::Json, "info", log);
    assert!(line.contains(&format!(
        r#""owner":{{"name":"api","namespace":"shop","resource":"deployments.apps","uid":"{uid}"}}"#
    )));
    let line = logged(LogFormat::Text, "info", log);
    assert!(line.contains(&format!("decision object=deployments.apps shop/web ({uid}) owner=")), "{line}");
}

#[test]
fn escaping_does_not_make_a_line_longer_than_its_limit() {
    let owners = vec!["\u{1b}".repeat(256); 8000];
    for format in [LogFormat::Text, LogFormat::Json] {
        let line = logged(format, "info", || {
            tracing::warn!(
                object = Structured::object(&named("web")).logged(),
                owners = Structured::list("owners", owners.iter()).as_ref().map(Structured::logged),
                error = %"\u{202e}".repeat(2048),
                "decision"
            );
        });
        assert!(line.len() < kube_gc_core::text::LONGEST + 512, "{} bytes", line.len());
        assert!(line.contains("decision") && line.contains("web"), "{line}");
        if format == LogFormat::Json {
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            let shown = line["owners"].as_array().unwrap().len();
            assert!(shown > 0 && line["more_owners"] == 8000 - shown, "{line}");
        }
    }
}

#[test]
fn a_list_is_an_array_in_json_and_is_left_out_when_it_is_empty() {
    let log = |types: &[String]| {
        let unsynced = Structured::list("unsynced", types.iter());
        tracing::info!(unsynced = unsynced.as_ref().map(Structured::logged), "collecting");
    };
    let json = |types: &[String]| -> serde_json::Value {
        serde_json::from_str(&logged(LogFormat::Json, "info", || log(types))).unwrap()
    };
    assert_eq!(json(&[]).get("unsynced"), None);
    let two = ["pods".to_owned(), "widgets.example.com".to_owned()];
    let line = json(&two);
    assert_eq!((&line["unsynced"], line.get("more_unsynced")), (&serde_json::json!(two), None));
    let text = logged(LogFormat::Text, "info", || log(&two));
    assert!(text.ends_with("collecting unsynced=\"pods, widgets.example.com\"\n"), "{text}");
    let many: Vec<_> = (0..1000).map(|number| number.to_string()).collect();
    let line = json(&many);
    assert_eq!(line["unsynced"].as_array().map(Vec::len), Some(16));
    assert_eq!(line["more_unsynced"], 984);
    let text = logged(LogFormat::Text, "info", || log(&many));
    assert!(text.contains("15, and 984 more\""), "{text}");
}

proptest! {
    /// Whatever the author of an object calls it.
    #[test]
    fn a_name_cannot_add_a_member_or_change_one(name in any::<String>()) {
        let object = named(&name);
        let log = || {
            let (members, other) = (Structured::object(&object), Structured::other_object(&object));
            tracing::info!(object = members.logged(), owner = other.logged(), "decision");
        };
        let line = logged(LogFormat::Json, "info", log);
        prop_assert_eq!(line.matches('\n').count(), 1);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let bounded = kube_gc_core::text::word(&name).to_string();
        prop_assert_eq!(line["name"].as_str(), Some(bounded.as_str()));
        prop_assert_eq!(line["owner"]["name"].as_str(), Some(bounded.as_str()));
        prop_assert_eq!(line["message"].as_str(), Some("decision"));
        prop_assert_eq!(line.as_object().map(serde_json::Map::len), Some(9));
        let line = logged(LogFormat::Text, "info", log);
        prop_assert_eq!(line.matches('\n').count(), 1);
    }

    /// Whatever comes from the cluster: an event is one line without a character that
    /// controls anything, in both formats.
    #[test]
    fn an_event_is_always_one_line(text in any::<String>()) {
        for format in [LogFormat::Text, LogFormat::Json] {
            let line = logged(format, "info", || log_everywhere(&text));
            let line = line.strip_suffix('\n');
            prop_assert!(line.is_some_and(|line| !line.is_empty()));
            let escaped = crate::telemetry::Escaped(line.unwrap_or_default()).to_string();
            prop_assert_eq!(Some(escaped.as_str()), line);
            if format == LogFormat::Json {
                let line: serde_json::Value = serde_json::from_str(&escaped).unwrap();
                prop_assert_eq!(line["quoted"].as_str(), Some(text.as_str()));
            }
        }
    }
}

#[test]
fn an_object_with_a_long_name_and_uid_is_shown_shortened() {
    let long = "x".repeat(500_000);
    let identity = Identity { uid: Uid::parse(&long).unwrap(), ..named(&long) };
    let view = serde_json::to_string(&PrintedObject::from(&identity)).unwrap();
    assert!(view.len() < 1024, "{} bytes", view.len());
}
