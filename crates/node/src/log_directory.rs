//! The names of log directories.

/// What the name of a log directory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryName<'a> {
    namespace_and_name: Option<(&'a str, &'a str)>,
    uid: &'a str,
}

impl<'a> DirectoryName<'a> {
    /// The uid of the pod.
    #[must_use]
    pub const fn uid(self) -> &'a str {
        self.uid
    }

    /// Namespace, name and uid, if all are there.
    #[must_use]
    pub fn named(self) -> Option<(&'a str, &'a str, &'a str)> {
        self.namespace_and_name.map(|(namespace, name)| (namespace, name, self.uid))
    }
}

/// `parsePodUIDFromLogsDirectory` in `kuberuntime/helpers.go`: `NAMESPACE_NAME_UID`, or `UID`.
#[must_use]
pub fn parse_directory(name: &str) -> DirectoryName<'_> {
    let Some((rest, uid)) = name.rsplit_once('_') else {
        return DirectoryName { namespace_and_name: None, uid: name };
    };
    let parts = rest.split_once('_').filter(|(_, name)| !name.contains('_'));
    DirectoryName { namespace_and_name: parts, uid }
}
