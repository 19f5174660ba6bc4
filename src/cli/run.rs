//! `kube-gc run`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::exit::Exit;
use super::report;
use super::shared::{LogArgs, begin, ended, name};
use crate::app::{self, RunOptions, Target};
use kube_gc_config::{ConfigError, DecisionLines, Loader, Settings};

/// The end of `kube-gc run --help`.
const EXAMPLES: &str = "\
Examples:
  A dry run: decide and log, write nothing
    kube-gc run --dry-run -v

  The cluster of one context of your kubeconfig
    kube-gc run --context staging

  In a pod, with its service account; probes and metrics are open to the cluster
    kube-gc run --config /etc/kube-gc/config.toml --listen 0.0.0.0:8080 --log-format json

  A setting by its environment variable
    KUBE_GC__DISCOVERY__IGNORED=events,events.events.k8s.io,leases.coordination.k8s.io kube-gc run

Settings come from built-in defaults, the file of --config, environment variables named
KUBE_GC__SECTION__KEY, and flags. Later sources override earlier ones. config/default.toml
documents all settings.";

/// The arguments of `kube-gc run`.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = super::exit::after(EXAMPLES, "run"))]
pub struct RunArgs {
    #[command(flatten)]
    connection: Target,

    /// TOML file with settings
    ///
    /// It needs to contain only what differs from the defaults. Unknown keys are errors.
    #[arg(long, value_name = "FILE", env = "KUBE_GC_CONFIG")]
    config: Option<PathBuf>,

    /// Decide and report, but write nothing
    ///
    /// Lists, watches and looks up owners as usual. Each decision is logged
    /// instead of carried out, so decisions that would follow from it are not made.
    #[arg(long)]
    dry_run: bool,

    /// Empty and finalize namespaces that are being deleted
    ///
    /// Only for control planes without kube-controller-manager, which otherwise does
    /// this. See docs/finish-namespaces.md.
    #[arg(long)]
    finish_namespaces: bool,

    /// Let claims and volumes go that are being deleted and not used
    ///
    /// Removes kubernetes.io/pvc-protection and kubernetes.io/pv-protection from them, only
    /// where kube-controller-manager does not run. See docs/finish-namespaces.md.
    #[arg(long)]
    remove_protection_finalizers: bool,

    /// Address for /livez, /readyz and /metrics [default: 127.0.0.1:8080]
    ///
    /// Port 0 selects a free port, which the log names.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,

    /// Address for the /debug pages [default: 127.0.0.1:8081]
    ///
    /// Anyone who can connect can read them, unless `access.listeners` restricts
    /// access. Consider this before you open them to a network.
    #[arg(long, value_name = "ADDR:PORT")]
    debug_listen: Option<SocketAddr>,

    /// How many objects to process at the same time [default: 100]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    delete_workers: Option<i64>,

    /// How many owners to orphan the dependents of at the same time [default: 5]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    orphan_workers: Option<i64>,

    /// Interval of API discovery, such as 30s or 5m [default: 30s]
    ///
    /// New custom resources and aggregated APIs are discovered immediately in any case.
    #[arg(long, value_name = "DURATION")]
    discovery_interval: Option<String>,

    /// Successful decisions that have a line each in the log [default: auto]
    ///
    /// Failures, refusals and warnings always have a line. With -v, every decision has one.
    #[arg(long, value_name = "WHICH", value_enum)]
    log_decisions: Option<DecisionLines>,

    #[command(flatten)]
    log: LogArgs,

    #[command(flatten)]
    options: RunOptions,
}

/// Runs the collector. Errors are in the log once there is one, and on standard error before.
pub fn run(args: &RunArgs) -> Exit {
    let settings = match begin(args.settings()) {
        Ok(settings) => settings,
        Err(error) => return report(&error),
    };
    ended(app::run(&args.connection, &settings, &args.options))
}

impl RunArgs {
    /// The whole configuration: defaults, file, the environment of this process, and these flags.
    ///
    /// # Errors
    /// The file, a variable or a flag is wrong.
    fn settings(&self) -> Result<Settings, ConfigError> {
        self.settings_with(std::env::vars_os())
    }

    fn settings_with(
        &self,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Settings, ConfigError> {
        let loader = Loader::new()
            .file(self.config.as_deref())
            .environment(environment)
            .flag("--dry-run", "dry_run", self.dry_run.then_some(true))
            .flag("--finish-namespaces", "finish_namespaces", self.finish_namespaces.then_some(true))
            .flag(
                "--remove-protection-finalizers",
                "remove_protection_finalizers",
                self.remove_protection_finalizers.then_some(true),
            )
            .flag("--listen", "http.listen", self.listen.map(|address| address.to_string()))
            .flag("--debug-listen", "http.debug_listen", self.debug_listen.map(|address| address.to_string()))
            .flag("--delete-workers", "workers.delete", self.delete_workers)
            .flag("--orphan-workers", "workers.orphan", self.orphan_workers)
            .flag("--discovery-interval", "discovery.interval", self.discovery_interval.as_deref())
            .flag("--log-decisions", "log.decisions", self.log_decisions.as_ref().and_then(name));
        self.log.add_to(loader).load()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::*;
    use kube_gc_config::LogFormat;

    fn parse(line: &str) -> RunArgs {
        match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Command::Run(args) => args,
            _ => panic!("not a run"),
        }
    }

    fn load(line: &str) -> Result<Settings, ConfigError> {
        parse(line).settings_with([])
    }

    #[test]
    fn without_flags_the_settings_are_the_defaults() {
        assert_eq!(load("kube-gc run").unwrap(), Settings::default());
    }

    #[test]
    fn the_defaults_in_the_help_are_the_defaults() {
        let defaults = load(
            "kube-gc run --listen 127.0.0.1:8080 --debug-listen 127.0.0.1:8081 --delete-workers 100 --orphan-workers 5 \
             --discovery-interval 30s --log-format text --log-decisions auto",
        );
        assert_eq!(defaults.unwrap(), Settings::default());
    }

    #[test]
    fn every_flag_sets_its_setting() {
        let args = parse(
            "kube-gc run --kubeconfig /k --context c --dry-run --finish-namespaces --remove-protection-finalizers --listen [::]:1 --debug-listen 127.0.0.1:0 \
             --delete-workers 2 --orphan-workers 3 --discovery-interval 5m --log-format json --log-decisions none -vv",
        );
        assert_eq!(args.connection.kubeconfig, Some("/k".into()));
        assert_eq!(args.connection.context.as_deref(), Some("c"));
        assert_eq!(args.options.exit_with_parent, None);
        assert_eq!(parse("kube-gc run --exit-with-parent").options.exit_with_parent, Some(None));
        assert_eq!(parse("kube-gc run --exit-with-parent=42").options.exit_with_parent, Some(Some(42)));
        let settings = args.settings_with([]).unwrap();
        assert!(settings.dry_run && settings.finish_namespaces && settings.remove_protection_finalizers);
        assert_eq!(settings.http.listen.to_string(), "[::]:1");
        assert_eq!(settings.http.debug_listen.port(), 0);
        assert_eq!((settings.workers.delete, settings.workers.orphan), (2, 3));
        assert_eq!(settings.discovery.interval, Duration::from_secs(300));
        assert_eq!(settings.log.format, LogFormat::Json);
        assert_eq!(settings.log.decisions, DecisionLines::None);
        assert_eq!(settings.log.filter, "info,kube_gc=trace");
    }

    #[test]
    fn a_missing_flag_does_not_override_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "dry_run = true\n[log]\nformat = \"json\"\n").unwrap();
        let settings = load(&format!("kube-gc run --config {}", file.path().display())).unwrap();
        assert!(settings.dry_run);
        assert_eq!(settings.log.format, LogFormat::Json);
    }

    #[test]
    fn an_error_names_the_bad_flag() {
        for (flags, expected) in [
            ("--discovery-interval soon", "for `discovery.interval` in the flag --discovery-interval: "),
            ("--orphan-workers 0", "--orphan-workers: 0; it must be a whole number from 1 to 1000"),
            ("--delete-workers=-5", "--delete-workers: -5; it must be a whole number from 1 to 1000"),
            ("--delete-workers -5", "--delete-workers: -5; it must be a whole number from 1 to 1000"),
            ("--listen 127.0.0.1:1 --debug-listen 127.0.0.1:1", "in the flag --debug-listen"),
        ] {
            let error = load(&format!("kube-gc run {flags}")).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
