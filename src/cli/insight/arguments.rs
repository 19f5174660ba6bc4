//! The arguments that these commands share. They are kubectl's.

use std::time::Duration;

use clap::Args;

use crate::app::insight::Connection;
use crate::cli::shared::ConnectionArgs;
use crate::insight::TypeFilter;

/// Where the object is, and how it is reached.
#[derive(Args, Clone, Debug, Default)]
pub struct CommonArgs {
    /// The object: TYPE/NAME, TYPE NAME or uid:UID
    ///
    /// TYPE is a resource, a kind or a short name, and may have a version and a group:
    /// deploy, deployments.apps, deployments.v1.apps.
    #[arg(value_name = "OBJECT", required = true, num_args = 1..=2)]
    pub object: Vec<String>,

    /// Namespace of the object [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    #[command(flatten)]
    reach: ReachArgs,
}

/// Which objects are looked at, and how they are reached.
#[derive(Args, Clone, Debug, Default)]
pub struct ScopeArgs {
    /// Namespace to look at [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Look at all namespaces, and at cluster-scoped objects
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// Report only objects with these labels, as in kubectl: app=web,tier!=cache
    ///
    /// Their owners and dependents are looked at, whatever their labels.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,

    #[command(flatten)]
    reach: ReachArgs,
}

/// How a cluster is reached, and what of it is listed.
#[derive(Args, Clone, Debug, Default)]
struct ReachArgs {
    #[command(flatten)]
    server: ConnectionArgs,

    /// Time limit of each request, such as 10s [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    request_timeout: Option<Duration>,

    /// List only types that match, such as 'pods' or '*.example.com'; repeatable
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    kinds: Vec<String>,

    /// Do not list types that match; repeatable
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    exclude: Vec<String>,

    /// Leave out the line with the names of the columns
    #[arg(long)]
    no_headers: bool,
}

impl CommonArgs {
    /// How the cluster is reached.
    pub fn connection(&self) -> Connection {
        self.reach.connection(self.namespace.clone())
    }

    /// Which types are listed.
    pub fn filter(&self) -> TypeFilter {
        self.reach.filter()
    }

    /// Whether to show the names of the columns.
    pub const fn headers(&self) -> bool {
        !self.reach.no_headers
    }
}

impl ScopeArgs {
    /// How the cluster is reached.
    pub fn connection(&self) -> Connection {
        self.reach.connection(self.namespace.clone())
    }

    /// Which types are listed.
    pub fn filter(&self) -> TypeFilter {
        self.reach.filter()
    }

    /// Whether to show the names of the columns.
    pub const fn headers(&self) -> bool {
        !self.reach.no_headers
    }
}

impl ReachArgs {
    fn connection(&self, namespace: Option<String>) -> Connection {
        let Self { server, request_timeout, .. } = self;
        Connection { target: server.target(), request_timeout: *request_timeout, namespace }
    }

    fn filter(&self) -> TypeFilter {
        TypeFilter { only: self.kinds.clone(), without: self.exclude.clone() }
    }
}

/// A number without a unit is a number of seconds, as in kubectl.
fn timeout(text: &str) -> Result<Duration, String> {
    let limit = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string())?,
    };
    if limit.is_zero() { Err("a request needs some time".to_owned()) } else { Ok(limit) }
}
