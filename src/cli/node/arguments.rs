//! The arguments that all subcommands of `kube-gc node` have.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::app::Target;
use crate::cli::shared::{ConnectionArgs, LogArgs};
use crate::config::Loader;

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

    #[command(flatten)]
    connection: ConnectionArgs,

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
    pub fn loader(&self, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Loader {
        let Self {
            // The connection is not a setting.
            connection: _,
            runtime_endpoint,
            node,
            config,
            log,
        } = self;
        let loader = Loader::new()
            .file(config.as_deref())
            .environment(environment)
            .flag("--runtime-endpoint", "node.runtime_endpoint", runtime_endpoint.as_deref())
            .flag("--node", "node.name", node.as_deref());
        log.add_to(loader)
    }

    /// Which API server to ask.
    pub fn target(&self) -> Target {
        self.connection.target()
    }
}
