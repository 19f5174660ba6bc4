//! Questions of people to a partition.

use std::sync::Arc;

use actix::Message;

use kube_gc_core::graph::{Cursor, MemberMark, MemberPage, MembersOf, SearchPage, SearchQuery, ViewLimits};
use kube_gc_core::insight::{Fact, Need};
use kube_gc_core::object::Catalog;

/// Asks for facts. Live reads are not a partition's business, and are left out of the answer.
#[derive(Debug, Message)]
#[rtype(result = "Vec<Fact>")]
pub struct AskFacts {
    /// What a question needs.
    pub needs: Vec<Need>,
    /// How much of each node to show.
    pub limits: ViewLimits,
}

/// Asks for a page of a search.
#[derive(Debug, Message)]
#[rtype(result = "SearchPage")]
pub struct AskSearch {
    /// What to look for.
    pub query: Arc<SearchQuery>,
    /// The end of the page before.
    pub after: Option<Cursor>,
    /// How many slots to scan.
    pub slots: usize,
}

/// Asks for objects in full. Each question gets a page, until this many references or slots have
/// been visited; the questions after that get none.
#[derive(Debug, Message)]
#[rtype(result = "Vec<MemberPage>")]
pub struct AskMembers {
    /// Which objects, and where their last page ended.
    pub of: Vec<(MembersOf, Option<MemberMark>)>,
    /// How many references or slots to visit.
    pub visits: usize,
}

/// Asks for the catalog that the partition uses.
#[derive(Debug, Message)]
#[rtype(result = "Arc<Catalog>")]
pub struct AskCatalog;
