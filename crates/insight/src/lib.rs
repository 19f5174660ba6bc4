//! Questions of people about the graph, and their answers.
//!
//! An answer is computed by the collector's own rules: [`verdict`](kube_gc_core::verdict) decides on
//! what a [`Partition`](kube_gc_core::graph::Partition) shows, so no answer can differ from what the
//! collector would do. Nothing here writes, and nothing here does I/O.
//!
//! A question is a function of what is known ([`Knowledge`]). If something is missing, [`ask`]
//! returns what the question [needs](Need) instead of an answer. The caller finds that out, tells
//! the knowledge ([`Fact`]), and asks again. It does not matter to a question whether its facts
//! come from the partitions of a running collector or from lists that a command has just read
//! ([`LocalGraph`]).
//!
//! | Files | Contents |
//! |---|---|
//! | `knowledge`, `local` | facts, needs, and a graph that is filled from lists |
//! | `judge` | the class of an owner reference with the evidence for it, and the verdict on an object |
//! | `neighbourhood`, `layout` | what belongs to an object, the worst of it, in pages, and as the rows of a tree |
//! | `explain`, `chain`, `contents`, `hold`, `finalizers`, `advice`, `sentence` | why an object or a namespace is still there, and what holds it |
//! | `check` | what is wrong with owner references |
//! | `plan` | what a deletion does to every object |
//! | `stuck` | what was deleted long ago, by what holds it |

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment has to say more than the name; the crate is not published")]

mod advice;
mod chain;
mod check;
mod contents;
mod explain;
mod finalizers;
mod hold;
mod judge;
mod knowledge;
mod layout;
mod local;
mod name;
mod neighbourhood;
mod plan;
mod sentence;
mod stuck;
#[cfg(test)]
mod tests;

pub use advice::Advice;
pub use chain::{Chain, ChainLink, Leaf};
pub use check::{
    CheckEffect, CheckReport, CheckedObject, Circles, Class, EffectCounts, Finding, Survey, Suspect,
    check_object,
};
pub use contents::{HeldObjects, NamespaceCondition, NamespaceReport, TypeLeft, explain_namespace};
pub use explain::{Explanation, HeldBy, Outcome, explain};
pub use finalizers::FinalizerReport;
pub use hold::{Hold, NAMESPACE_CONTROLLER, contents_of};
pub use judge::{Evidence, JudgedReference, classify};
pub use knowledge::{
    AbsenceEvidence, Asker, Details, Fact, FinalizerSetter, Knowledge, Live, LiveObject, Need, NodeState,
    Particulars, ask,
};
pub use layout::{NeighbourhoodPage, Row, RowKind, join, page, rows};
pub use local::{LocalGraph, facts};
pub use name::{Answer, Document, LeftOut, ObjectName, Outside, Report, Source, Unseen};
pub use neighbourhood::{
    Edge, More, Neighbourhood, NeighbourhoodQuery, NodeExtra, Shown, Standing, State, neighbourhood,
};
pub use plan::{Cascade, Effect, Forecast, Plan, PlanQuery, PlannedObject, TypeEffects, Walk, plan};
pub use sentence::{age, counted, counted_of};
pub use stuck::{StuckGroup, StuckReport, stuck};
