//! The answer: what is wrong, the worst first.

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{CheckEffect, Finding};
use super::object::CheckedObject;
use super::survey::Survey;

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// The first findings, the worst first.
    pub findings: Vec<Finding>,
    /// The number of all findings.
    pub finding_count: usize,
    /// The number of objects that were looked at.
    pub objects: usize,
    /// The number of their owner references.
    pub references: usize,
    /// The number of references with findings.
    pub broken_references: usize,
    /// The number of objects with findings.
    pub broken_objects: EffectCounts,
}

/// A number of objects of each effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EffectCounts {
    pub deletes: usize,
    pub leaks: usize,
    pub unknown: usize,
    pub odd: usize,
}

impl CheckReport {
    #[must_use]
    pub fn new(survey: &Survey) -> Self {
        Self { objects: survey.objects, references: survey.references, ..Self::default() }
    }

    /// Adds what is wrong with an object. The findings beyond the first `most` are only counted.
    pub fn add(&mut self, checked: CheckedObject, most: usize) {
        let CheckedObject { effect, findings, .. } = checked;
        if findings.is_empty() {
            return;
        }
        let mut places: Vec<usize> = findings.iter().map(|finding| finding.place).collect();
        places.sort_unstable();
        places.dedup();
        self.broken_references += places.len();
        self.finding_count += findings.len();
        *match effect {
            CheckEffect::Deletes => &mut self.broken_objects.deletes,
            CheckEffect::Leaks => &mut self.broken_objects.leaks,
            CheckEffect::Unknown => &mut self.broken_objects.unknown,
            CheckEffect::Odd => &mut self.broken_objects.odd,
        } += 1;
        self.findings.extend(findings);
        if self.findings.len() > most.saturating_mul(2) {
            self.keep_first(most);
        }
    }

    /// Sorts the findings.
    pub fn keep_first(&mut self, most: usize) {
        self.findings.sort_by(|a, b| a.rank().cmp(&b.rank()));
        self.findings.truncate(most);
    }
}
