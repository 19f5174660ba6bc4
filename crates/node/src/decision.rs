//! What becomes of an item, and why.

use std::borrow::Cow;

use crate::Rule;

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
