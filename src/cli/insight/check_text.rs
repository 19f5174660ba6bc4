//! Findings as text.

use std::collections::HashSet;

use super::names::kubectl_name;
use super::style::{Colour, Style};
use super::table::{Cell, columns};
use kube_gc_core::text::Thousands;
use kube_gc_insight::{CheckEffect, CheckReport, Class, Finding, ObjectName};

/// How findings are shown.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// With namespaces.
    pub namespaces: bool,
    /// With the objects' uids, and whole uids of owners.
    pub wide: bool,
    /// With the names of the columns.
    pub headers: bool,
    /// Colours.
    pub style: Style,
}

/// How many characters of a uid a table shows.
const SHORT_UID: usize = 4;

/// The findings for people, the worst first.
pub fn table(report: &CheckReport, look: &Look) -> String {
    let mut rows = Vec::new();
    if look.headers && !report.findings.is_empty() {
        let namespace = look.namespaces.then_some("NAMESPACE");
        let uid = look.wide.then_some("UID");
        let names = namespace.into_iter().chain(["EFFECT", "CLASS", "OBJECT"]).chain(uid);
        rows.push(names.chain(["REFERENCE", "HINT"]).map(Cell::new).collect());
    }
    rows.extend(report.findings.iter().map(|finding| row(finding, look)));
    let mut text = columns(&rows, look.style);
    let more = report.finding_count - report.findings.len();
    if more > 0 {
        text.push_str(&format!("And {} more findings.\n", Thousands(more)));
    }
    text
}

fn row(finding: &Finding, look: &Look) -> Vec<Cell> {
    let Finding { effect, class, object, hint, .. } = finding;
    let colour = match effect {
        CheckEffect::Deletes => Colour::Red,
        CheckEffect::Leaks | CheckEffect::Unknown => Colour::Yellow,
        CheckEffect::Odd => Colour::Plain,
    };
    let mut cells = Vec::new();
    if look.namespaces {
        cells.push(Cell::new(object.namespace.as_deref().unwrap_or_default()));
    }
    cells.push(Cell::new(effect.as_str()).coloured(colour));
    cells.push(Cell::new(class.as_str()));
    cells.push(Cell::new(kubectl_name(object)));
    if look.wide {
        cells.push(Cell::new(&object.uid));
    }
    cells.push(Cell::new(reference(finding, look.wide)));
    cells.push(Cell::new(hint).coloured(Colour::Dim));
    cells
}

/// The owner as the reference names it, and what it may mean.
fn reference(finding: &Finding, wide: bool) -> String {
    let Finding { class, owner, found, .. } = finding;
    let shown = |uid: &str| match uid.char_indices().nth(SHORT_UID) {
        Some((end, _)) if !wide => format!("{}…", &uid[..end]),
        _ => uid.to_owned(),
    };
    let name = match class {
        Class::Unresolved | Class::UnservedVersion => format!("{} {owner}", owner.api_version),
        _ => format!("{owner} {}", shown(&owner.uid)),
    };
    let Some(found) = found else { return name };
    let uid = shown(&found.uid);
    match class {
        Class::Recreated => format!("{name}: that name is {uid} now"),
        Class::OtherNamespace => {
            let namespace = found.namespace.as_deref().unwrap_or_default();
            format!("{name}: that uid is in namespace {namespace}")
        }
        _ => format!("{name}: that uid is {found}"),
    }
}

/// What there is in all.
pub fn summary(report: &CheckReport) -> String {
    let deletes = report.broken_objects.deletes;
    format!(
        "{} of {} reference{}; {} object{} would be deleted.",
        Thousands(report.broken_references),
        Thousands(report.references),
        if report.references == 1 { "" } else { "s" },
        Thousands(deletes),
        if deletes == 1 { "" } else { "s" },
    )
}

/// The names of the objects, as kubectl writes them, each once.
pub fn names(report: &CheckReport) -> String {
    let mut known: HashSet<&ObjectName> = HashSet::new();
    let objects = report.findings.iter().map(|finding| &finding.object);
    objects.filter(|object| known.insert(object)).map(|object| kubectl_name(object) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_insight::EffectCounts;

    fn name(api_version: &str, kind: &str, name: &str, uid: &str) -> ObjectName {
        ObjectName {
            api_version: api_version.into(),
            kind: kind.into(),
            resource: None,
            namespace: Some("shop".into()),
            name: name.into(),
            uid: uid.into(),
        }
    }

    fn report() -> CheckReport {
        let finding = |effect, class, object, owner, found, hint: &str| Finding {
            effect,
            class,
            object,
            owner,
            found,
            served_as: None,
            hint: hint.into(),
            place: 0,
        };
        let web = name("apps/v1", "Deployment", "web", "1f3c0000");
        let now = ObjectName { uid: "77a00000".into(), ..web.clone() };
        let tls = name("extensions/v1beta1", "Ingress", "web", "u");
        CheckReport {
            findings: vec![
                finding(
                    CheckEffect::Deletes,
                    Class::Recreated,
                    name("v1", "ConfigMap", "prices", "p"),
                    web,
                    Some(now),
                    "restored? name the new uid",
                ),
                finding(
                    CheckEffect::Leaks,
                    Class::Unresolved,
                    name("v1", "Secret", "tls", "t"),
                    tls,
                    None,
                    "served as networking.k8s.io/v1",
                ),
            ],
            finding_count: 3,
            objects: 100,
            references: 1412,
            broken_references: 2,
            broken_objects: EffectCounts { deletes: 1, leaks: 1, ..EffectCounts::default() },
        }
    }

    const PLAIN: Look = Look { namespaces: false, wide: false, headers: true, style: Style::plain() };

    #[test]
    fn findings_are_a_table() {
        assert_eq!(
            table(&report(), &PLAIN),
            "\
EFFECT   CLASS       OBJECT            REFERENCE                                     HINT
deletes  recreated   configmap/prices  Deployment/web 1f3c…: that name is 77a0… now  restored? name the new uid
leaks    unresolved  secret/tls        extensions/v1beta1 Ingress/web                served as networking.k8s.io/v1
And 1 more findings.
"
        );
        assert_eq!(summary(&report()), "2 of 1,412 references; 1 object would be deleted.");
        assert_eq!(names(&report()), "configmap/prices\nsecret/tls\n");
    }

    #[test]
    fn wide_has_namespaces_and_whole_uids() {
        let text = table(&report(), &Look { namespaces: true, wide: true, ..PLAIN });
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["NAMESPACE", "EFFECT", "CLASS", "OBJECT", "UID", "REFERENCE", "HINT"]);
        assert_eq!(
            lines[1][..7],
            ["shop", "deletes", "recreated", "configmap/prices", "p", "Deployment/web", "1f3c0000:"]
        );
    }

    #[test]
    fn hostile_texts_stay_in_their_cell() {
        let mut report = report();
        report.findings[0].owner = name("a\n", "K\u{1b}[31m", "n\u{202e}\n", "é\u{202e}\nlong");
        report.findings[0].object.name = "x\ny".into();
        for text in [table(&report, &PLAIN), names(&report)] {
            assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
            assert!(text.lines().count() <= 4, "{text}");
        }
    }
}
