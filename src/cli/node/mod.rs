//! `kube-gc node`: its subcommands. `table` has their text.

mod table;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use humantime::format_duration;

use super::exit::Exit;
use super::report;
use super::shared::{LogArgs, begin, ended, name};
use super::text::{columns, json, print};
use crate::app::{self, Error, ErrorKind, Target};
use crate::node::{Asked, Report};
use kube_gc_config::{Loader, PodKnowledge};
use kube_gc_node::plan::Action;
use kube_gc_node::rules::Label;
use table::Shown;

/// The end of `kube-gc node --help`.
const EXAMPLES: &str = "\
Examples:
  What would go, what stays, and why
    kube-gc node plan

  Free a third of the disk now, on a host without a kubelet
    kube-gc node once --free 33

  On a host without an API server
    kube-gc node once --pods none

Beside a kubelet, once and run remove nothing unless `node.beside_kubelet` allows it.
docs/node.md describes the rules by their numbers.";

/// The arguments of `kube-gc node`.
#[derive(Args, Clone, Debug)]
#[command(arg_required_else_help = true, after_long_help = EXAMPLES)]
pub struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum NodeCommand {
    /// Show what would be removed from this node, what stays, and why; remove nothing
    Plan(PlanArgs),
    /// Collect this node once: dead containers, sandboxes, logs, unused images
    Once(OnceArgs),
    /// Collect this node again and again, until SIGTERM or SIGINT
    Run(RunArgs),
}

/// Runs a subcommand of `kube-gc node`.
pub fn run(args: &NodeArgs) -> Exit {
    let ended = match &args.command {
        NodeCommand::Plan(args) => args.plan(),
        NodeCommand::Once(args) => args.once(),
        NodeCommand::Run(args) => args.run(),
    };
    ended.unwrap_or_else(|error| report(&error))
}

/// Where the node is described, and how it is reached.
#[derive(Args, Clone, Debug, Default)]
struct CommonArgs {
    /// Socket of the container runtime, such as unix:///run/containerd/containerd.sock
    ///
    /// The default is the only one that exists of those of containerd, k3s, RKE2, CRI-O,
    /// cri-dockerd, k0s and MicroK8s.
    #[arg(long, value_name = "SOCKET")]
    runtime_endpoint: Option<String>,

    /// Name of this node in the API server [default: the hostname in lower case]
    ///
    /// With a wrong name, none of its pods would be known. kube-gc notices that, and then
    /// takes no pod for gone.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Who knows the pods of this node [default: api]
    ///
    /// With none, no API server is asked, and no pod is taken for gone.
    #[arg(long, value_name = "WHO", value_enum)]
    pods: Option<PodKnowledge>,

    #[command(flatten)]
    connection: Target,

    /// TOML file with settings, those of `[node]` among them
    ///
    /// It needs to contain only what differs from the defaults. Unknown keys are errors.
    #[arg(long, value_name = "FILE", env = "KUBE_GC_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    log: LogArgs,
}

impl CommonArgs {
    /// The sources of the configuration. A subcommand adds its own flags.
    fn loader(&self) -> Loader {
        let loader = Loader::new()
            .file(self.config.as_deref())
            .environment(std::env::vars_os())
            .flag("--runtime-endpoint", "node.runtime_endpoint", self.runtime_endpoint.as_deref())
            .flag("--node", "node.name", self.node.as_deref())
            .flag("--pods", "node.pods", self.pods.as_ref().and_then(name));
        self.log.add_to(loader)
    }

    /// The flags that another command about this node needs, too.
    fn again(&self) -> String {
        let Target { kubeconfig, context, .. } = &self.connection;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let flags = [
            ("--config", path(&self.config)),
            ("--runtime-endpoint", self.runtime_endpoint.clone()),
            ("--node", self.node.clone()),
            ("--pods", self.pods.as_ref().and_then(name)),
            ("--kubeconfig", path(kubeconfig)),
            ("--context", context.clone()),
        ];
        flags.into_iter().filter_map(|(flag, value)| Some(format!(" {flag} {}", quoted(value?)))).collect()
    }
}

/// A value as a shell takes it for one word.
fn quoted(value: String) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:@".contains(&byte);
    let is_word = !value.is_empty() && value.bytes().all(is_plain);
    if is_word { value } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

/// What a person asks of one pass.
#[derive(Args, Clone, Debug, Default)]
struct AskedArgs {
    /// Remove unused images until so much of their file system is free, whatever the thresholds
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=99))]
    free: Option<u8>,

    /// Remove all unused images, however much space is free
    ///
    /// Those that are pinned, that `node.images` keeps, or that were first seen just now stay.
    #[arg(long, conflicts_with = "free")]
    all: bool,

    /// Remove no image that has been unused for less than this, such as 24h
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,

    /// Remove only images that have this label, with this value or any; repeat it for others
    ///
    /// containerd and CRI-O tell labels. Images stay if theirs are not told. Containers, sandboxes and
    /// logs are not chosen by label.
    #[arg(long = "label", value_name = "KEY[=VALUE]", value_parser = Label::parse)]
    labels: Vec<Label>,
}

impl AskedArgs {
    fn asked(&self, wait: bool) -> Asked {
        let Self { free, all, older_than, labels } = self.clone();
        Asked { free, all, older_than, labels, wait }
    }

    /// These flags, for another command.
    fn again(&self) -> String {
        let age = |age| format_duration(age).to_string().replace(' ', "");
        let flags = [
            self.free.map(|percent| format!(" --free {percent}")),
            self.all.then(|| " --all".to_owned()),
            self.older_than.map(|least| format!(" --older-than {}", age(least))),
        ];
        let labels = self.labels.iter().map(|label| format!(" --label {}", quoted(label.0.clone())));
        flags.into_iter().flatten().chain(labels).collect()
    }
}

/// How a plan, or what came of it, is shown.
#[derive(Args, Clone, Debug, Default)]
struct ShownArgs {
    /// Format: a table; a table with pods, states, ages, ids and all tags; or JSON
    ///
    /// docs/node-plan.schema.json describes the JSON.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,

    /// Show only what goes, or only what stays
    #[arg(long, value_name = "DECISION", value_enum)]
    only: Option<Only>,
}

/// The format of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table.
    #[default]
    Table,
    /// A table with pods, states, ages, ids and all tags.
    Wide,
    /// JSON.
    Json,
}

/// A decision about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    /// What goes.
    Remove,
    /// What stays.
    Keep,
}

impl ShownArgs {
    /// Prints a plan, or what came of it.
    fn print(&self, mut report: Report, asked: &AskedArgs, common: &CommonArgs) -> Result<(), Error> {
        report.asked = asked.again() + &common.again();
        let only = self.only.map(|only| match only {
            Only::Remove => Action::Remove,
            Only::Keep => Action::Keep,
        });
        print(&match self.output {
            Format::Json => {
                let plan = Arc::make_mut(&mut report.plan);
                plan.entries.retain(|entry| only.is_none_or(|only| entry.decision == only));
                let report = serde_json::to_string_pretty(&report);
                json(&report.map_err(|error| Error::new(ErrorKind::Internal, error))?)
            }
            output => table::text(&report, Shown { wide: output == Format::Wide, only, columns: columns() }),
        })?;
        Ok(())
    }
}

/// A plan, or what came of it, as a table.
#[cfg(feature = "demo")]
pub fn text(report: &Report) -> String {
    table::text(report, Shown { columns: columns(), ..Shown::default() })
}

/// The end of `kube-gc node plan --help`.
const PLAN_EXAMPLES: &str = "\
Examples:
  Everything on this node, with pods, states, ages and ids
    kube-gc node plan -o wide

  What would be removed to have a third of the disk free
    kube-gc node plan --free 33 --only remove

  The same for a script
    kube-gc node plan --free 33 --only remove -o json | jq -r '.entries[].id'

The plan is what `kube-gc node once` would do now. It needs the same rights as once: the
socket usually belongs to root. It writes nothing, not even the ages of images, so images
that no earlier pass has seen count as seen just now, and stay for `node.images.min_age`.";

/// The arguments of `kube-gc node plan`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = super::exit::after(PLAN_EXAMPLES, "node plan"))]
struct PlanArgs {
    #[command(flatten)]
    common: CommonArgs,

    #[command(flatten)]
    asked: AskedArgs,

    #[command(flatten)]
    shown: ShownArgs,
}

impl PlanArgs {
    /// Plans and shows the plan.
    fn plan(&self) -> Result<Exit, Error> {
        let settings = begin(self.common.loader().load())?;
        let report = app::node::plan(&self.common.connection, &settings, &self.asked.asked(false))?;
        self.shown.print(report, &self.asked, &self.common)?;
        Ok(Exit::Success)
    }
}

/// The end of `kube-gc node once --help`.
const ONCE_EXAMPLES: &str = "\
Examples:
  Collect by the rules: images only if the disk is fuller than `node.high`
    kube-gc node once

  Remove unused images until a third of the disk is free
    kube-gc node once --free 33

  Remove all images that nothing has used for a day, like crictl rmi --prune
    kube-gc node once --all --older-than 24h

  The first time on this host: wait until images are old enough
    kube-gc node once --free 33 --wait";

/// The arguments of `kube-gc node once`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = super::exit::after(ONCE_EXAMPLES, "node once"))]
struct OnceArgs {
    #[command(flatten)]
    common: CommonArgs,

    #[command(flatten)]
    asked: AskedArgs,

    #[command(flatten)]
    shown: ShownArgs,

    /// Wait until what is only too young is old enough, then collect
    ///
    /// On the first pass, every image was first seen just now, so all of them stay for
    /// `node.images.min_age`, or for --older-than.
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,

    /// Show the plan of the pass instead of carrying it out
    #[arg(long)]
    dry_run: bool,
}

impl OnceArgs {
    /// Collects once and says what came of it.
    fn once(&self) -> Result<Exit, Error> {
        let loader = self.common.loader();
        let settings = begin(loader.flag("--dry-run", "dry_run", self.dry_run.then_some(true)).load())?;
        let report = app::node::once(&self.common.connection, &settings, &self.asked.asked(self.wait))?;
        let is_complete = report.is_complete();
        self.shown.print(report, &self.asked, &self.common)?;
        Ok(if is_complete { Exit::Success } else { Exit::Incomplete })
    }
}

/// The end of `kube-gc node run --help`.
const RUN_EXAMPLES: &str = "\
Examples:
  A dry run: plan again and again, show the plan at /debug/node, remove nothing
    kube-gc node run --dry-run

  Beside a kubelet, only unused images
    KUBE_GC__NODE__BESIDE_KUBELET=images kube-gc node run

Dead containers, sandboxes and logs are collected every `node.period`, images every
`node.images.period`. config/default.toml documents all settings.";

/// The arguments of `kube-gc node run`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = super::exit::after(RUN_EXAMPLES, "node run"))]
struct RunArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// Plan and report, but remove nothing
    #[arg(long)]
    dry_run: bool,

    /// Address for /livez, /readyz and /metrics [default: 127.0.0.1:8080]
    ///
    /// Port 0 selects a free port, which the log names.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,

    /// Address for /debug/node [default: 127.0.0.1:8081]
    ///
    /// Anyone who can connect can read it, unless `access.listeners` restricts access.
    #[arg(long, value_name = "ADDR:PORT")]
    debug_listen: Option<SocketAddr>,
}

impl RunArgs {
    /// Collects until a signal.
    fn run(&self) -> Result<Exit, Error> {
        let Self { common, dry_run, listen, debug_listen } = self;
        let loader = common
            .loader()
            .flag("--dry-run", "dry_run", dry_run.then_some(true))
            .flag("--listen", "http.listen", listen.map(|address| address.to_string()))
            .flag("--debug-listen", "http.debug_listen", debug_listen.map(|address| address.to_string()));
        let settings = begin(loader.load())?;
        Ok(ended(app::node::run(&common.connection, &settings)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_repeat_can_be_given_to_a_shell() {
        let common = CommonArgs {
            config: Some("/a b/it's $HOME.toml".into()),
            node: Some("n-1".to_owned()),
            ..CommonArgs::default()
        };
        assert_eq!(common.again(), r" --config '/a b/it'\''s $HOME.toml' --node n-1");
    }
}
