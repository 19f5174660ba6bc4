//! Owner references.

use std::sync::Arc;

use serde::Serialize;

use super::Uid;
use crate::text::{LONGEST_WORD, word};

/// One entry of `metadata.ownerReferences`.
///
/// The API server checks neither that the owner exists nor its namespace or scope, so nothing here
/// is reliable before it is verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    pub api_version: Arc<str>,
    /// May be in lower case.
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
    /// Whether the owner is the managing controller.
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for this dependent.
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// Whether all of its texts are as long as those of a real owner can be.
    #[must_use]
    pub fn is_short(&self) -> bool {
        let Self { api_version, kind, name, uid, controller: _, block_owner_deletion: _ } = self;
        let longest = [api_version, kind, name].map(|text| text.len()).into_iter().max();
        longest.max(Some(uid.text_bytes())) <= Some(LONGEST_WORD)
    }

    /// The reference for people, with each text cut to [`LONGEST_WORD`] bytes.
    #[must_use]
    pub fn shortened(self) -> Self {
        if self.is_short() {
            return self;
        }
        let Self { api_version, kind, name, uid, controller, block_owner_deletion } = self;
        let [api_version, kind, name] = [api_version, kind, name].map(|text| word(&text).to_string().into());
        let shown = uid.shown().to_string();
        let uid = Uid::parse(&shown).unwrap_or(uid);
        Self { api_version, kind, name, uid, controller, block_owner_deletion }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 7.9.
    #[test]
    fn each_text_of_a_reference_is_cut_by_itself() {
        let short = OwnerReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: "n".repeat(253).into(),
            uid: Uid::parse("u").unwrap(),
            controller: true,
            block_owner_deletion: false,
        };
        assert_eq!(short.clone().shortened(), short);
        let text = "x".repeat(1 << 20);
        let long = [
            OwnerReference { api_version: (*text).into(), ..short.clone() },
            OwnerReference { kind: (*text).into(), ..short.clone() },
            OwnerReference { name: (*text).into(), ..short.clone() },
            OwnerReference { uid: Uid::parse(&text).unwrap(), ..short.clone() },
        ];
        for long in long {
            assert!(short.is_short() && !long.is_short());
            let cut = long.shortened();
            assert!(cut.is_short() && cut != short && cut.controller, "{cut:?}");
        }
    }
}
