//! `kube-gc run`: its arguments.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use crate::config::{ConfigError, Loader, LogFormat, Settings};
use crate::telemetry::logging::verbose_filter;

/// For the end of `kube-gc run --help`.
const EXAMPLES: &str = "\
Examples:
  Look before you leap: decide and log, write nothing
    kube-gc run --dry-run -v

  The cluster of one context of your kubeconfig
    kube-gc run --context staging

  In a pod: the service account is found by itself; probes and metrics for the cluster
    kube-gc run --config /etc/kube-gc/config.toml --listen 0.0.0.0:8080 --log-format json

  Any setting by its environment variable
    KUBE_GC__DISCOVERY__IGNORED=events,events.events.k8s.io,leases.coordination.k8s.io kube-gc run

Settings come from, the later winning: built-in defaults, the file of --config, environment
variables KUBE_GC__SECTION__KEY, flags. config/default.toml documents them all.";

/// The arguments of `kube-gc run`.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", super::exit::HELP))]
pub struct RunArgs {
    /// Kubeconfig to connect with
    ///
    /// Without it: the files of $KUBECONFIG, then ~/.kube/config, then, inside
    /// a pod, its service account.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// TOML file with settings
    ///
    /// Only what differs from the defaults needs to be in it. Unknown keys are refused.
    #[arg(long, value_name = "FILE", env = "KUBE_GC_CONFIG")]
    pub config: Option<PathBuf>,

    /// Decide and report, but write nothing
    ///
    /// Reads, watches and looks owners up as usual. Each decision is logged
    /// instead of being carried out, so what would follow from it does not show.
    #[arg(long)]
    pub dry_run: bool,

    /// Address for /livez, /readyz and /metrics [default: 127.0.0.1:8080]
    ///
    /// Port 0 takes any free port; the log says which.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,

    /// Address for the /debug pages [default: 127.0.0.1:8081]
    ///
    /// Whoever reaches them may read them, unless `access.listeners` says
    /// otherwise: think before you open them to a network.
    #[arg(long, value_name = "ADDR:PORT")]
    pub debug_listen: Option<SocketAddr>,

    /// Objects to work on at a time [default: 100]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub delete_workers: Option<i64>,

    /// Owners to orphan the dependents of at a time [default: 5]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub orphan_workers: Option<i64>,

    /// Time between two looks at what the server serves, such as 30s or 5m [default: 30s]
    ///
    /// New custom resources and aggregated APIs are noticed at once in any case.
    #[arg(long, value_name = "DURATION")]
    pub discovery_interval: Option<String>,

    /// How the log looks, on standard error [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub log_format: Option<LogFormat>,

    /// Log more: -v decisions in detail, -vv everything of ours, -vvv of all
    ///
    /// Short for a `log.filter` of "info,kube_gc=debug", "info,kube_gc=trace" and
    /// "debug,kube_gc=trace"; wins over RUST_LOG.
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}

impl RunArgs {
    /// The whole configuration: defaults, file, this process's environment, and
    /// these flags.
    ///
    /// # Errors
    /// When the file, a variable or a flag is wrong; exit with
    /// [`Exit::Usage`](super::Exit::Usage).
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        self.settings_with(std::env::vars_os())
    }

    fn settings_with(
        &self,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Settings, ConfigError> {
        let Self {
            // How to connect is no setting.
            kubeconfig: _,
            context: _,
            config,
            dry_run,
            listen,
            debug_listen,
            delete_workers,
            orphan_workers,
            discovery_interval,
            log_format,
            verbose,
        } = self;
        let log_format = log_format.map(|format| match format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        });
        Loader::new()
            .file(config.as_deref())
            .environment(environment)
            .flag("--dry-run", "dry_run", dry_run.then_some(true))
            .flag("--listen", "http.listen", listen.map(|address| address.to_string()))
            .flag("--debug-listen", "http.debug_listen", debug_listen.map(|address| address.to_string()))
            .flag("--delete-workers", "workers.delete", *delete_workers)
            .flag("--orphan-workers", "workers.orphan", *orphan_workers)
            .flag("--discovery-interval", "discovery.interval", discovery_interval.as_deref())
            .flag("--log-format", "log.format", log_format)
            .flag("--verbose", "log.filter", verbose_filter(*verbose))
            .load()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::*;

    fn parse(line: &str) -> RunArgs {
        match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Command::Run(args) => args,
            Command::Demo(_) => panic!("not a run"),
        }
    }

    fn load(line: &str) -> Result<Settings, ConfigError> {
        parse(line).settings_with([])
    }

    #[test]
    fn without_flags_the_defaults_hold() {
        assert_eq!(load("kube-gc run").unwrap(), Settings::default());
    }

    #[test]
    fn the_defaults_that_the_help_names_are_the_defaults() {
        let defaults = load(
            "kube-gc run --listen 127.0.0.1:8080 --debug-listen 127.0.0.1:8081 --delete-workers 100 --orphan-workers 5 \
             --discovery-interval 30s --log-format text",
        );
        assert_eq!(defaults.unwrap(), Settings::default());
    }

    #[test]
    fn every_flag_arrives() {
        let args = parse(
            "kube-gc run --kubeconfig /k --context c --dry-run --listen [::]:1 --debug-listen 127.0.0.1:0 \
             --delete-workers 2 --orphan-workers 3 --discovery-interval 5m --log-format json -vv",
        );
        assert_eq!(args.kubeconfig, Some("/k".into()));
        assert_eq!(args.context.as_deref(), Some("c"));
        let settings = args.settings_with([]).unwrap();
        assert!(settings.dry_run);
        assert_eq!(settings.http.listen.to_string(), "[::]:1");
        assert_eq!(settings.http.debug_listen.port(), 0);
        assert_eq!((settings.workers.delete, settings.workers.orphan), (2, 3));
        assert_eq!(settings.discovery.interval, Duration::from_secs(300));
        assert_eq!(settings.log.format, LogFormat::Json);
        assert_eq!(settings.log.filter, "info,kube_gc=trace");
    }

    #[test]
    fn a_flag_that_is_not_given_leaves_the_file_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "dry_run = true\n[log]\nformat = \"json\"\n").unwrap();
        let settings = load(&format!("kube-gc run --config {}", file.path().display())).unwrap();
        assert!(settings.dry_run);
        assert_eq!(settings.log.format, LogFormat::Json);
    }

    #[test]
    fn bad_flags_are_named() {
        let error = load("kube-gc run --discovery-interval soon").unwrap_err().to_string();
        assert!(
            error.starts_with("bad value for `discovery.interval` in the flag --discovery-interval: "),
            "{error}"
        );
        let error = load("kube-gc run --orphan-workers 0").unwrap_err().to_string();
        assert!(error.contains("--orphan-workers: 0; it must be a whole number from 1 to 1000"), "{error}");
        for negative in ["--delete-workers=-5", "--delete-workers -5"] {
            let error = load(&format!("kube-gc run {negative}")).unwrap_err().to_string();
            let expected = "--delete-workers: -5; it must be a whole number from 1 to 1000";
            assert!(error.contains(expected), "{error}");
        }
        let both =
            load("kube-gc run --listen 127.0.0.1:1 --debug-listen 127.0.0.1:1").unwrap_err().to_string();
        assert!(both.contains("in the flag --debug-listen"), "{both}");
    }
}
