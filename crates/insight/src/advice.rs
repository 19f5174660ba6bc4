//! What a person can do, and the command for it.

use serde::{Deserialize, Serialize};

use crate::name::ObjectName;

/// What a person can do. For people and in JSON, it is one text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Advice {
    pub(crate) what: String,
    /// The command for one object.
    command: Option<String>,
    /// There are others, for which it is another one.
    is_for_each: bool,
}

impl Advice {
    /// What keeps garbage collectors from an object, one of so many, whatever its owners do. After a change of one
    /// reference, they would decide by the others.
    pub(crate) fn to_keep(object: &ObjectName, count: usize) -> Self {
        let what = format!(
            "Removing all owner references of {object} in one change keeps it from garbage collection, but not from \
             the end of its namespace, or from a controller that adopts it"
        );
        let Some(words) = in_shell(object) else { return (what + ".").into() };
        let test = format!(r#"{{"op":"test","path":"/metadata/uid","value":"{}"}}"#, object.uid);
        let remove = r#"{"op":"remove","path":"/metadata/ownerReferences"}"#;
        Self::from(what).with(format!("kubectl patch {words} --type=json -p '[{test},{remove}]'"), count)
    }

    /// With the command for one object of so many.
    pub(crate) fn with(self, command: String, count: usize) -> Self {
        Self { command: Some(command), is_for_each: count > 1, ..self }
    }

    /// Each piece of advice once: the command for the first object stands for all.
    pub(crate) fn once<'a>(all: impl IntoIterator<Item = &'a Self>) -> Vec<String> {
        let mut once: Vec<Self> = Vec::new();
        for advice in all {
            match once.iter_mut().find(|known| known.what == advice.what) {
                Some(known) => known.is_for_each |= known.command != advice.command,
                None => once.push(advice.clone()),
            }
        }
        once.into_iter().map(String::from).collect()
    }
}

impl From<String> for Advice {
    fn from(what: String) -> Self {
        Self { what, command: None, is_for_each: false }
    }
}

impl From<Advice> for String {
    fn from(Advice { what, command, is_for_each }: Advice) -> Self {
        let each = if is_for_each { ", for each object as for this one" } else { "" };
        command.map_or_else(|| what.clone(), |command| format!("{what}{each}: {command}"))
    }
}

/// Type, name and namespace of an object for a command with its uid, if a shell takes all of them as they are.
pub(crate) fn in_shell(object: &ObjectName) -> Option<String> {
    let ObjectName { resource, namespace, name, uid, .. } = object;
    let (resource, namespace) = (resource.as_deref()?, namespace.as_deref());
    let flag = namespace.map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let is_safe = [resource, name, uid, namespace.unwrap_or_default()].into_iter().all(is_plain);
    is_safe.then(|| format!("{resource} {name}{flag}"))
}

/// Whether a shell takes a word as it is. Whoever may choose a name must not choose what a shell does.
pub(crate) fn is_plain(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:".contains(&byte);
    !word.starts_with('-') && word.bytes().all(is_plain)
}
