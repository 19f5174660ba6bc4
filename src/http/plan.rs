//! The parameters and the answer of `/debug/plan`: what happens to every object if one is deleted.

use serde::Serialize;

use super::parameters;
use kube_gc_core::object::{GroupResource, PropagationPolicy, Uid};
use kube_gc_insight::{Plan, Unseen};

/// The parameters of `/debug/plan`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// The object that would be deleted.
    pub uid: Uid,
    /// Its type, if several types show the uid.
    pub resource: Option<GroupResource>,
    /// How it would be deleted.
    pub policy: PropagationPolicy,
    /// The most objects to list.
    pub limit: usize,
}

impl PlanRequest {
    /// Reads the parameters of a request.
    pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Self, String> {
        use parameters::{limit, resource, set, unknown};
        let (mut uid, mut of_resource, mut policy, mut listed) = (None, None, None, None);
        for (name, value) in parameters {
            match name.as_str() {
                "uid" => {
                    let parsed = Uid::parse(&value).ok_or_else(|| "uid= needs a uid".to_owned());
                    set(&mut uid, &name, parsed)?;
                }
                "resource" => set(&mut of_resource, &name, resource(&value))?,
                "policy" => set(&mut policy, &name, policy_named(&value))?,
                "limit" => set(&mut listed, &name, limit(&value))?,
                _ => return Err(unknown(&name)),
            }
        }
        Ok(Self {
            uid: uid.ok_or("uid= is missing")?,
            resource: of_resource,
            policy: policy.unwrap_or(PropagationPolicy::Background),
            limit: listed.unwrap_or(parameters::DEFAULT_LIMIT),
        })
    }
}

fn policy_named(value: &str) -> Result<PropagationPolicy, String> {
    match value {
        "background" => Ok(PropagationPolicy::Background),
        "foreground" => Ok(PropagationPolicy::Foreground),
        "orphan" => Ok(PropagationPolicy::Orphan),
        _ => Err(format!("policy={value:?} must be background, foreground or orphan")),
    }
}

/// The answer of `/debug/plan`: that of `kube-gc plan -o json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanPage {
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// As in the command's answer: no type is left out.
    pub left_out: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<PlanRequest, String> {
        let owned = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        PlanRequest::read(owned.collect())
    }

    #[test]
    fn parameters_are_checked() {
        let request = read(&[("uid", "a"), ("policy", "orphan"), ("resource", "jobs.batch")]).unwrap();
        assert_eq!((request.policy, request.limit), (PropagationPolicy::Orphan, parameters::DEFAULT_LIMIT));
        assert_eq!(read(&[("uid", "a")]).unwrap().policy, PropagationPolicy::Background);
        let wrong: [&[(&str, &str)]; 5] = [
            &[],
            &[("uid", "")],
            &[("uid", "a"), ("policy", "Orphan")],
            &[("uid", "a"), ("limit", "0")],
            &[("uid", "a"), ("up", "1")],
        ];
        for wrong in wrong {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
