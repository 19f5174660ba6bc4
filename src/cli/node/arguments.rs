//! The arguments that all subcommands of `kube-gc node` have.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use crate::app::{Error, ErrorKind, Target};
use crate::config::{ConfigError, Loader, LogFormat, Settings};
use crate::telemetry::logging::{self, verbose_filter};

/// Where the node is described, and how it is reached.
#[derive(Args, Clone, Debug, Default)]
pub struct CommonArgs {
    /// Socket of the container runtime, such as unix:///run/containerd/containerd.sock
    ///
    /// The default is the only one that exists of those of containerd, k3s, CRI-O and
    /// cri-dockerd.
    #[arg(long, value_name = "SOCKET")]
    runtime_endpoint: Option<String>,

    /// Name of this node in the API server [default: the hostname in lower case]
    ///
    /// With a wrong name, none of its pods would be known. kube-gc notices that, and then
    /// takes no pod for gone.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Kubeconfig to connect with
    ///
    /// The default is the first of: the files of $KUBECONFIG, ~/.kube/config, and, in
    /// a pod, its service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// TOML file with settings, those of `[node]` among them
    ///
    /// It needs to contain only what differs from the defaults. Unknown keys are errors.
    #[arg(long, value_name = "FILE", env = "KUBE_GC_CONFIG")]
    config: Option<PathBuf>,

    /// Format of the log on standard error [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    log_format: Option<LogFormat>,

    /// Log more: -v decisions in detail, -vv everything in kube-gc, -vvv libraries, too
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

impl CommonArgs {
    /// The sources of the configuration. A subcommand adds its own flags.
    pub fn loader(&self, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Loader {
        let Self {
            // The connection is not a setting.
            kubeconfig: _,
            context: _,
            runtime_endpoint,
            node,
            config,
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
            .flag("--runtime-endpoint", "node.runtime_endpoint", runtime_endpoint.as_deref())
            .flag("--node", "node.name", node.as_deref())
            .flag("--log-format", "log.format", log_format)
            .flag("--verbose", "log.filter", verbose_filter(*verbose))
    }

    /// Which API server to ask.
    pub fn target(&self) -> Target {
        Target { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }
}

/// Loads the settings and starts the log.
pub fn begin(loaded: Result<Settings, ConfigError>) -> Result<Settings, Error> {
    let settings = loaded.map_err(|error| Error::new(ErrorKind::Settings, error))?;
    logging::init(&settings.log).map_err(|error| Error::new(ErrorKind::Internal, error))?;
    Ok(settings)
}
