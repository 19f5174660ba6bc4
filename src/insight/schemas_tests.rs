//! Keeps docs/schemas true: the schemas follow from the types of the answers.

use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, RestrictFormats, Transform as _};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::ExplainAnswer;
use kube_gc_insight::{Answer, CheckReport, Document, Neighbourhood, Plan, StuckReport};

/// The schema of what a command prints.
fn schema<A: JsonSchema>(kind: &'static str, title: &str, command: &str) -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<A>();
    let document = serde_json::to_value(Document::new(kind, &())).unwrap();
    let root = schema.ensure_object();
    root.insert("title".to_owned(), title.into());
    root.insert(
        "description".to_owned(),
        format!("What `kube-gc {command} -o json` prints, on one line.").into(),
    );
    for (name, value) in document.as_object().unwrap() {
        root["properties"][name] = json!({ "const": value });
        root["required"].as_array_mut().unwrap().push(name.as_str().into());
    }
    RecursiveTransform(refine).transform(&mut schema);
    // The names of Rust's numbers, such as `uint`, are no formats of JSON Schema.
    RestrictFormats::default().transform(&mut schema);
    schema.to_value()
}

/// Refuses fields that are not described, and turns documentation for Rust into plain text.
fn refine(schema: &mut Schema) {
    if schema.get("properties").is_some() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
    // How we read what a collector answers is no business of who reads the output.
    schema.remove("default");
    schema.remove("readOnly");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = plain(text);
    }
}

/// Paragraphs of one line each, without the targets of links.
fn plain(documentation: &str) -> String {
    let paragraphs = documentation.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    let text = paragraphs.collect::<Vec<_>>().join("\n\n");
    let mut parts = text.split("[`");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("`]").unwrap();
        let (target, rest) = match rest.strip_prefix('(') {
            Some(linked) => linked.split_once(')').unwrap(),
            None => ("", rest),
        };
        // A value of the same enum, as JSON has it.
        let shown = if target.starts_with("Self::") { in_json(name) } else { name.to_owned() };
        plain += &format!("`{shown}`{rest}");
    }
    plain
}

fn in_json(variant: &str) -> String {
    let (first, rest) = variant.split_at(1);
    first.to_lowercase() + rest
}

/// Writes the schemas first if `KUBE_GC_WRITE_DOCS` is set (`make docs-schemas`).
#[test]
fn the_schemas_are_those_of_the_answers() {
    let check = "Owner references with which something is wrong";
    let plan = "What happens to every object if one is deleted";
    let stuck = "What was deleted long ago and is still there";
    for (name, schema) in [
        ("check.json", schema::<Answer<CheckReport>>("Check", check, "check")),
        (
            "explanation.json",
            schema::<ExplainAnswer>("Explanation", "Why an object is still there", "explain"),
        ),
        ("plan.json", schema::<Answer<Plan>>("Plan", plan, "plan")),
        ("stuck.json", schema::<Answer<StuckReport>>("Stuck", stuck, "stuck")),
        ("tree.json", schema::<Answer<Neighbourhood>>("Tree", "What belongs to an object", "tree")),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas").join(name);
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("KUBE_GC_WRITE_DOCS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{name} is old; run `make docs-schemas`");
    }
}
