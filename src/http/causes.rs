//! The parameters and the answer of `/debug/stuck/causes`: what was deleted long ago, by what holds it.

use std::time::Duration;

use serde::Serialize;

use super::parameters;
use kube_gc_core::object::Namespace;
use kube_gc_insight::{StuckReport, Unseen};

/// How long ago an object was deleted that counts as stuck, unless the request says otherwise.
const OLDER: Duration = Duration::from_secs(60);

/// The parameters of `/debug/stuck/causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CausesQuery {
    /// Only objects in this namespace.
    pub namespace: Option<Namespace>,
    /// How long ago an object must have been deleted.
    pub older: Duration,
}

impl CausesQuery {
    /// Reads the parameters of a request.
    pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Self, String> {
        use parameters::{namespace, set, unknown};
        let (mut of_namespace, mut older) = (None, None);
        for (name, value) in parameters {
            match name.as_str() {
                "namespace" => set(&mut of_namespace, &name, namespace(&value))?,
                "older" => {
                    let seconds = value.parse().map(Duration::from_secs);
                    let seconds = seconds.map_err(|_| format!("older={value:?} is not a number of seconds"));
                    set(&mut older, &name, seconds)?;
                }
                _ => return Err(unknown(&name)),
            }
        }
        Ok(Self { namespace: of_namespace, older: older.unwrap_or(OLDER) })
    }
}

/// The answer of `/debug/stuck/causes`: that of `kube-gc stuck -o json`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CausesPage {
    /// What holds the objects.
    #[serde(flatten)]
    pub report: StuckReport,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// As in the command's answer: no type is left out.
    pub left_out: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked() {
        let read = |pairs: &[(&str, &str)]| {
            let owned = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
            CausesQuery::read(owned.collect())
        };
        assert_eq!(read(&[]), Ok(CausesQuery { namespace: None, older: OLDER }));
        let query = read(&[("namespace", "a"), ("older", "0")]).unwrap();
        assert_eq!((query.namespace.unwrap().as_str(), query.older), ("a", Duration::ZERO));
        for wrong in [("namespace", ""), ("older", "-1"), ("older", "1m"), ("reason", "blocked")] {
            assert!(read(&[wrong]).is_err(), "{wrong:?}");
        }
        assert!(read(&[("older", "1"), ("older", "2")]).is_err());
    }
}
