//! The rules, what they decide about an item, and why.

use std::borrow::Cow;
use std::time::Duration;

use kube_gc_core::text;
use serde::Serialize;

/// A rule that decided about an item. Output, log and metrics name its number. The README has the sources.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(into = "&'static str")]
pub enum Rule {
    /// Only a container that is not running and was created at least `min_age` ago may go.
    C1,
    /// Containers of one pod uid and one name belong together.
    C2,
    /// Of a pod that is gone, all dead containers go.
    C3,
    /// Under pressure, all dead containers of terminated pods go.
    C4,
    /// Of the others, the newest `max_per_container` of each name stay.
    C5,
    /// Above `max_total` dead containers, each name keeps an equal share, then the oldest go.
    C6,
    /// A removal that fails counts as done; an UNKNOWN container is stopped first.
    C7,
    /// A container's logs and its legacy symlink go before it.
    C8,
    /// A sandbox that is not ready and has no containers goes; a living pod keeps its newest.
    S1,
    /// The log directory of a pod that is gone goes.
    L1,
    /// A symlink to a log that leads nowhere goes, unless its container has not exited.
    L2,
    /// An image that a container in any state uses, or an image volume, stays.
    I1,
    /// An image that the runtime has pinned stays.
    I2,
    /// The least recently used image goes first; of those used equally long ago, the one detected first.
    I3,
    /// From `high` percent on, unused images go until usage is down to `low` percent.
    I4,
    /// An image younger than `images.min_age` since its detection stays.
    I5,
    /// An image that has been unused for `images.max_age` goes, however much space there is.
    I6,
    /// With `high` 100 and no `max_age`, images are not collected; a failing removal stops no other.
    I7,
    /// Under pressure, dead containers of terminated pods go, then unused images.
    P1,
    /// What needs a whole list waits until the runtime can send one.
    B1,
    /// An image that the spec of a pod on this node names stays, unless the pod has ended.
    B2,
    /// An image that `keep` names, that has a name and no repository digest, or that sandboxes need stays.
    B5,
    /// Unused images go until the asked share of the file system is free.
    #[strum(serialize = "--free")]
    Free,
    /// All unused images go.
    #[strum(serialize = "--all")]
    All,
    /// An image that has been unused for less than was asked for stays.
    #[strum(serialize = "--older-than")]
    OlderThan,
    /// An image without a label that was asked for stays.
    #[strum(serialize = "--label")]
    Label,
    /// Nothing running, ready or in use is touched, and nothing that cannot be told apart.
    #[strum(serialize = "safety 1")]
    Safety1,
    /// A pod is gone only if it is proved.
    #[strum(serialize = "safety 2")]
    Safety2,
    /// Beside a kubelet, the newest dead instance and what was just created stay.
    #[strum(serialize = "safety 3")]
    Safety3,
    /// A pass removes at most so many containers and images.
    #[strum(serialize = "safety 4")]
    Safety4,
    /// Files go only beneath the two directories of logs.
    #[strum(serialize = "safety 5")]
    Safety5,
}

impl Rule {
    /// All rules, in the order of their numbers.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The number, such as `C3`.
    pub fn number(self) -> &'static str {
        self.into()
    }
}

/// What becomes of an item, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it goes.
    pub removes: bool,
    /// The rule that decided.
    pub rule: Rule,
    /// The reason, for people.
    pub reason: Cow<'static, str>,
}

impl Decision {
    pub(crate) fn keep(rule: Rule, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { removes: false, rule, reason: reason.into() }
    }

    pub(crate) fn remove(rule: Rule, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { removes: true, rule, reason: reason.into() }
    }

    /// Something above the rules keeps what they would remove.
    pub(crate) fn overrule(&mut self, rule: Rule, reason: &str) {
        if self.removes {
            *self = Self::keep(rule, format!("{reason} ({} would remove it: {})", self.rule, self.reason));
        }
    }
}

/// Text from the runtime, for people: short, and without control characters.
pub(crate) fn escaped(text: &str) -> String {
    let cut = text::word(text).to_string();
    if cut.chars().any(char::is_control) { cut.escape_debug().to_string() } else { cut }
}

/// A duration in words, in whole seconds from a minute on, and in whole days from two on.
pub(crate) fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => humantime::format_duration(duration).to_string(),
        60..172_800 => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_every_rule() {
        let readme = include_str!("../README.md");
        for rule in Rule::ALL {
            assert!(readme.contains(&format!("| {rule} |")), "{rule} is missing");
        }
    }

    #[test]
    fn escaped_text_is_short_and_harmless() {
        assert_eq!(escaped("web"), "web");
        assert_eq!(escaped("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        assert!(escaped(&"x".repeat(100_000)).len() < 300);
    }
}
