//! The read model of node collection, and its page `/debug/node`.

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use tokio::sync::watch;

use crate::node::amount;
use crate::node::run::NodeStatus;
use kube_gc_observe::http::page::{json_text, not_found, text};
use kube_gc_observe::readiness::{Check, Readiness};

const INDEX: &str = "\
/debug/node      the last plan for this node, and what came of it
";

/// What `/readyz` and `/debug/node` show.
#[derive(Clone, Debug)]
pub struct NodeView {
    status: watch::Receiver<NodeStatus>,
}

impl NodeView {
    /// Shows what the actor publishes.
    pub const fn new(status: watch::Receiver<NodeStatus>) -> Self {
        Self { status }
    }

    /// Whether the node can be collected.
    pub fn readiness(&self) -> Readiness {
        assess(&self.status.borrow())
    }

    /// The last plan, and what came of it, as indented JSON; nothing before the first one.
    pub fn last(&self) -> Option<Result<String, serde_json::Error>> {
        let report = self.status.borrow().report.clone();
        report.map(|report| serde_json::to_string_pretty(&*report))
    }

    /// The pages of the debug listener.
    pub fn debug_router(self) -> Router {
        Router::new()
            .route("/debug/node", get(async move || self.page()))
            .route("/", get(async || text(StatusCode::OK, INDEX)))
            .route("/debug", get(async || text(StatusCode::OK, INDEX)))
            .fallback(not_found)
    }

    fn page(&self) -> Response {
        match self.last() {
            Some(Ok(report)) => json_text(StatusCode::OK, &report),
            Some(Err(error)) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "the node has not been looked at yet"),
        }
    }
}

/// Node collection is ready once it has looked at the node, as long as the runtime answers, and
/// unless the name of the node is wrong.
fn assess(status: &NodeStatus) -> Readiness {
    let mut checks = Vec::new();
    checks.push(match (&status.error, &status.report) {
        (Some(error), _) => Check::failed("look", error.to_string()),
        (None, None) => Check::failed("look", "the node has not been looked at yet"),
        (None, Some(_)) => Check::fine("look"),
    });
    let Some(report) = &status.report else { return Readiness { checks } };
    checks.push(if report.plan.wrong_node {
        Check::failed(
            "node",
            format!(
                "the API server knows fewer than half of the ready sandboxes here; is {} the name of this node \
                 (`node.name`)?",
                report.node
            ),
        )
    } else {
        Check::fine("node")
    });
    if let Some(why) = &report.dry_run {
        checks.push(Check::warning("dry run", why.as_str()));
    }
    checks.extend(report.notes.iter().map(|note| Check::warning("look", note.text.as_str())));
    if let Some(result) = &report.result {
        if result.missing_bytes > 0 || result.missing_inodes > 0 {
            let missing = amount(result.missing_bytes, result.missing_inodes);
            let why = format!("{missing} could not be freed; /debug/node shows what fills the file system");
            checks.push(Check::warning("space", why));
        }
        if result.unmeasured {
            let why = "space is to be freed, and the file system of the images cannot be measured";
            checks.push(Check::warning("space", why));
        }
        if result.failed > 0 {
            let why = format!("{} could not be removed; /debug/node shows why", result.failed);
            checks.push(Check::warning("removals", why));
        }
    }
    Readiness { checks }
}
