//! The arguments that these commands share. They are kubectl's.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};

use super::{Failed, Format, usage};
use crate::app::Target;
use crate::app::insight::Connection;
use crate::cli::text::Look;
use crate::insight::{Credentials, Endpoint, ObjectArgument, QueryScope, Source, TypeFilter};

/// The headings of `--help`.
pub const OBJECT: &str = "Object";
pub const OUTPUT: &str = "Output";
pub const SOURCE: &str = "Source of the answer";
const CONNECTION: &str = "Connection";

/// Where the object is.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = OBJECT)]
pub struct CommonArgs {
    /// The object: TYPE/NAME, TYPE NAME or uid:UID
    ///
    /// TYPE is a resource, a kind or a short name, and may have a version and a group:
    /// deploy, deployments.apps, deployments.v1.apps.
    #[arg(value_name = "OBJECT", required = true, num_args = 1..=2)]
    object: Vec<String>,

    /// Namespace of the object [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// Which objects are looked at.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = OBJECT)]
pub struct ScopeArgs {
    /// Namespace to look at [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Look at all namespaces, and at cluster-scoped objects
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// Report only objects with these labels, as in kubectl: app=web,tier!=cache
    ///
    /// Their owners and dependents are looked at, whatever their labels.
    #[arg(short = 'l', long, value_name = "SELECTOR", overrides_with = "selector")]
    selector: Option<String>,
}

/// How a cluster is reached, and what of it is listed.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = SOURCE)]
pub struct ReachArgs {
    /// List only types that match, such as 'pods' or '*.example.com'; repeatable
    #[arg(long, value_name = "PATTERN", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    kinds: Vec<String>,

    /// Do not list types that match; repeatable
    #[arg(long, value_name = "PATTERN", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    exclude: Vec<String>,

    /// Leave out the line with the names of the columns
    #[arg(long, help_heading = OUTPUT)]
    no_headers: bool,

    #[command(flatten, next_help_heading = CONNECTION)]
    server: Target,

    /// Time limit of each request, such as 10s [default: 30s]
    #[arg(long, help_heading = CONNECTION, value_name = "DURATION", value_parser = timeout)]
    request_timeout: Option<Duration>,
}

/// Where the answer comes from.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = SOURCE)]
pub struct SourceArgs {
    /// Where the answer comes from
    ///
    /// docs/tree.md says which collector is asked, and what that takes.
    #[arg(long, value_name = "SOURCE", value_enum, default_value_t)]
    from: From,

    /// URL of a collector's debug pages, such as http://127.0.0.1:8081
    ///
    /// Without it, --from collector looks for pods labelled app.kubernetes.io/name=kube-gc in the
    /// namespace kube-gc, and connects to the leader's through the API server, as kubectl
    /// port-forward does.
    #[arg(long, value_name = "URL")]
    collector: Option<String>,

    /// Namespace in which a collector is looked for [default: kube-gc]
    #[arg(long, value_name = "NAME", conflicts_with = "collector")]
    collector_namespace: Option<String>,

    /// File with a token for protected debug pages
    ///
    /// It is sent only over https, to this machine, or through the API server to a pod in the
    /// namespace kube-gc or --collector-namespace.
    #[arg(long, value_name = "FILE")]
    collector_token_file: Option<PathBuf>,

    /// File with the certificates that sign the collector's, for https
    #[arg(long, value_name = "FILE")]
    collector_ca_file: Option<PathBuf>,
}

/// Where the answer comes from, of a command that no collector answers.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = SOURCE)]
pub struct ListsArgs {
    /// Where the answer comes from: lists and reads of the API server, with auto as well as with lists
    ///
    /// A collector does not answer: to find objects that own each other in a circle, or that share a
    /// uid, all objects are looked at together, and the graph of a collector has other work.
    #[arg(long, value_name = "SOURCE", value_enum, default_value_t, hide_possible_values = true)]
    from: From,

    /// Other commands have this flag, so people try it.
    #[arg(long, value_name = "URL", hide = true)]
    collector: Option<String>,
}

/// What a user may choose as the source of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum From {
    /// The collector of --collector; explain and stuck also ask one that they find in the namespace
    /// kube-gc; otherwise lists
    #[default]
    Auto,
    /// Lists and reads of the API server
    Lists,
    /// The graph of a running collector
    Collector,
}

/// Whether a command looks for a collector without being told of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auto {
    /// It does.
    Looks,
    /// It asks lists.
    Lists,
}

impl CommonArgs {
    /// The object that is meant.
    pub fn object(&self) -> Result<ObjectArgument, Failed> {
        ObjectArgument::read(&self.object).map_err(usage)
    }
}

impl ScopeArgs {
    /// Which objects are looked at.
    pub fn query(&self, reach: &ReachArgs) -> QueryScope {
        QueryScope {
            everywhere: self.all_namespaces,
            filter: reach.filter(),
            selector: self.selector.clone().filter(|selector| !selector.is_empty()),
        }
    }
}

impl ReachArgs {
    pub fn connection(&self, namespace: Option<&String>) -> Connection {
        let Self { server, request_timeout, .. } = self;
        let namespace = namespace.cloned();
        Connection { target: server.clone(), request_timeout: *request_timeout, namespace }
    }

    /// Which types are listed.
    pub fn filter(&self) -> TypeFilter {
        TypeFilter { only: self.kinds.clone(), without: self.exclude.clone(), ..TypeFilter::default() }
    }

    /// How an answer is shown in a format.
    pub fn look(&self, format: Format) -> Look {
        Look::new(format == Format::Wide, !self.no_headers)
    }
}

impl ListsArgs {
    /// Checks that no collector is meant.
    pub fn refuse_a_collector(&self) -> Result<(), Failed> {
        match (self.from, &self.collector) {
            (From::Auto | From::Lists, None) => Ok(()),
            _ => Err(usage(
                "no collector answers this, because all objects are looked at together; \
                 use --from lists, without --collector",
            )),
        }
    }
}

impl SourceArgs {
    /// The source, if the arguments do not contradict each other and name files that can be used.
    pub fn source(&self, auto: Auto) -> Result<Source, Failed> {
        let Self { from, collector, collector_namespace: namespace, .. } = self;
        let credentials = Credentials {
            token: self.collector_token_file.clone(),
            authority: self.collector_ca_file.clone(),
        };
        if let Some(url) = collector {
            if *from == From::Lists {
                return Err(usage("--from lists asks no collector, and --collector names one"));
            }
            return Ok(Source::Collector(Box::new(Endpoint::new(url, &credentials).map_err(usage)?)));
        }
        let is_meant = namespace.is_some() || credentials != Credentials::default();
        let required = match from {
            From::Lists if is_meant => return Err(usage("--from lists asks no collector")),
            From::Lists => return Ok(Source::Lists),
            From::Auto if auto == Auto::Lists && !is_meant => return Ok(Source::Lists),
            From::Auto => is_meant,
            From::Collector => true,
        };
        Ok(Source::Found { namespace: namespace.clone(), credentials, required })
    }

    /// Lists, which alone can answer. If a collector is meant, the error says `why` it cannot.
    pub fn only_lists(&self, why: &str) -> Result<Source, Failed> {
        match self.source(Auto::Lists)? {
            Source::Lists => Ok(Source::Lists),
            Source::Collector(_) | Source::Found { .. } => Err(usage(why)),
        }
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SourceArgs,
    }

    fn choose(line: &str, auto: Auto) -> Result<Source, Failed> {
        Line::parse_from(std::iter::once("x").chain(line.split_whitespace())).args.source(auto)
    }

    #[test]
    fn a_url_is_asked_unless_lists_are_wanted() {
        let with_url = |from| choose(&format!("--from {from} --collector http://127.0.0.1:1"), Auto::Looks);
        for from in ["auto", "collector"] {
            assert!(matches!(with_url(from), Ok(Source::Collector(_))));
        }
        assert!(with_url("lists").unwrap_err().message.contains("--collector names one"));
    }

    #[test]
    fn a_collector_is_looked_for_only_in_its_namespace() {
        let found = |line, auto| match choose(line, auto) {
            Ok(Source::Found { namespace, required, .. }) => Some((namespace, required)),
            Ok(Source::Lists) => None,
            other => panic!("{other:?}"),
        };
        let named = Some("a".to_owned());
        for (line, auto, expected) in [
            ("--from lists", Auto::Looks, None),
            ("", Auto::Lists, None),
            ("", Auto::Looks, Some((None, false))),
            ("--from collector", Auto::Looks, Some((None, true))),
            ("--collector-namespace a", Auto::Looks, Some((named.clone(), true))),
            ("--from collector --collector-namespace a", Auto::Looks, Some((named, true))),
            ("--from collector --collector-token-file /a", Auto::Looks, Some((None, true))),
        ] {
            assert_eq!(found(line, auto), expected, "{line}");
        }
        let refused = choose("--from lists --collector-token-file /a", Auto::Looks).unwrap_err();
        assert!(refused.message.contains("asks no collector"), "{refused:?}");
    }
}
