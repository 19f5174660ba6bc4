//! The rules, what they decide about an item, and why.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use kube_gc_core::text;
use serde::{Serialize, Serializer};

/// Declares the rules with their numbers and texts. The README has their sources.
macro_rules! rules {
    ($($name:ident $number:literal $text:literal,)+) => {
        /// A rule that decided about an item. Output, log and metrics name its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $text] $name,)+
        }

        impl Rule {
            /// All rules, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The number, such as `C3`.
            pub const fn number(self) -> &'static str {
                match self {
                    $(Self::$name => $number,)+
                }
            }
        }
    };
}

rules! {
    C1 "C1" "Only a container that is not running and was created at least `min_age` ago may go.",
    C2 "C2" "Containers of one pod uid and one name belong together.",
    C3 "C3" "Of a pod that is gone, all dead containers go.",
    C4 "C4" "Under pressure, all dead containers of terminated pods go.",
    C5 "C5" "Of the others, the newest `max_per_container` of each name stay.",
    C6 "C6" "Above `max_total` dead containers, each name keeps an equal share, then the oldest go.",
    C7 "C7" "A removal that fails counts as done; an UNKNOWN container is stopped first.",
    C8 "C8" "A container's logs and its legacy symlink go before it.",
    S1 "S1" "A sandbox that is not ready and has no containers goes; a living pod keeps its newest.",
    L1 "L1" "The log directory of a pod that is gone goes.",
    L2 "L2" "A symlink to a log that leads nowhere goes, unless its container has not exited.",
    I1 "I1" "An image that a container in any state uses, or an image volume, stays.",
    I2 "I2" "An image that the runtime has pinned stays.",
    I3 "I3" "The least recently used image goes first; of those used equally long ago, the one detected first.",
    I4 "I4" "From `high` percent on, unused images go until usage is down to `low` percent.",
    I5 "I5" "An image younger than `images.min_age` since its detection stays.",
    I6 "I6" "An image that has been unused for `images.max_age` goes, however much space there is.",
    I7 "I7" "With `high` 100 and no `max_age`, images are not collected; a failing removal stops no other.",
    P1 "P1" "Under pressure, dead containers of terminated pods go, then unused images.",
    B1 "B1" "What needs a whole list waits until the runtime can send one.",
    B2 "B2" "An image that the spec of a pod on this node names stays.",
    B5 "B5" "An image that `keep` names, that has no repository digest, or that sandboxes need stays.",
    Free "--free" "Unused images go until the asked share of the file system is free.",
    Safety1 "safety 1" "Nothing running, ready or in use is touched, and nothing that cannot be told apart.",
    Safety2 "safety 2" "A pod is gone only if it is proved.",
    Safety3 "safety 3" "Beside a kubelet, the newest dead instance and what was just created stay.",
    Safety4 "safety 4" "A pass removes at most so many containers and images.",
    Safety5 "safety 5" "Files go only beneath the two directories of logs.",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.number())
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

/// A duration in words, in whole seconds from a minute on.
pub(crate) fn words(duration: Duration) -> humantime::FormattedDuration {
    let shown = if duration.as_secs() >= 60 { Duration::from_secs(duration.as_secs()) } else { duration };
    humantime::format_duration(shown)
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
