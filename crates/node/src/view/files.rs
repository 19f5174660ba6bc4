//! What the file system says.

use crate::Timestamp;
use crate::pressure::Usage;

/// The log directories, the symlinks to logs, and how full the image file system is.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The entries of `/var/log/pods`.
    pub log_directories: Vec<LogDirectory>,
    /// The entries of `/var/log/containers`.
    pub log_symlinks: Vec<LogSymlink>,
    /// How full the file system of the images is; nothing if it could not be measured.
    pub image_usage: Option<Usage>,
}

/// An entry of the directory of the pods' logs.
#[derive(Clone, Debug)]
pub struct LogDirectory {
    /// The name in that directory: `NAMESPACE_NAME_UID`, or `UID` by old kubelets.
    pub name: String,
    /// Whether it is a directory; a symlink to one is none.
    pub is_directory: bool,
    /// The size of what is in it.
    pub bytes: u64,
    /// When something was last created or removed directly in it.
    pub modified: Timestamp,
}

/// An entry of the directory of symlinks to the containers' logs.
#[derive(Clone, Debug)]
pub struct LogSymlink {
    /// The name in that directory: `POD_NAMESPACE_CONTAINER-ID.log`.
    pub name: String,
    /// Where it leads.
    pub state: SymlinkState,
    /// What the symlink says; empty for other files.
    pub target: String,
}

/// Where a symlink leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymlinkState {
    /// To a file.
    Leads,
    /// Nowhere: there is no such file.
    Dangling,
    /// It is not known: the symlink could not be followed.
    Unknown,
    /// It is no symlink.
    NotASymlink,
}
