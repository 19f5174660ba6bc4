//! The messages of CRI v1, generated from `proto/api.proto`: the definition of Kubernetes 1.36 as it is.
//! v1alpha2 has the same messages.

#[allow(missing_docs, clippy::all, reason = "the definition has comments of its own")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/runtime.v1.rs"));
}

use std::collections::BTreeMap;

use serde_json::Value;

pub use generated::*;

/// The longest configuration of an image that is read. Some have hundreds of KiB in labels.
pub(crate) const LONGEST_INFO: usize = 1024 * 1024;
/// The label with the name of the pod that a container or sandbox belongs to.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// The label with the namespace of the pod that a container or sandbox belongs to.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The label with the uid of the pod that a container or sandbox belongs to.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// The label with the name that a container has in its pod.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// The annotation of a sandbox that says where its pod comes from.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// The annotation of a sandbox that says since when a kubelet has known its pod.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";

// containerd's own API on the same socket, as far as it is used: `api/services/namespaces/v1` and
// `api/services/containers/v1`.

/// Asks for all namespaces.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListNamespacesRequest {}

/// All namespaces.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListNamespacesResponse {
    /// The namespaces.
    #[prost(message, repeated, tag = "1")]
    pub namespaces: Vec<ForeignNamespace>,
}

/// A namespace of containerd.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForeignNamespace {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Asks for the containers of a namespace, which a header names, one after the other.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListNamespaceContainersRequest {}

/// One of them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListNamespaceContainersResponse {
    /// The container.
    #[prost(message, optional, tag = "1")]
    pub container: Option<ForeignContainer>,
}

/// What is used of a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ForeignContainer {
    /// Its id, which is unique in its namespace.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The name of its image; empty if it was made without one.
    #[prost(string, tag = "3")]
    pub image: String,
}

impl StatusResponse {
    /// The image of sandboxes, as the runtime is configured with it. No container shows that this image is
    /// in use, and older runtimes do not pin it.
    ///
    /// containerd and CRI-O name it in their verbose status. The answer is `None` if a runtime does not.
    pub fn sandbox_image(&self) -> Option<String> {
        let config: Value = serde_json::from_str(self.info.get("config")?).ok()?;
        config.get("sandboxImage")?.as_str().filter(|image| !image.is_empty()).map(str::to_owned)
    }
}

impl ImageStatusResponse {
    /// The labels of the image, as containerd and CRI-O have them in their verbose status: that of its configuration
    /// below `imageSpec`. The answer is `None` if a runtime does not tell them, or in another way.
    pub fn labels(&self) -> Option<BTreeMap<String, String>> {
        let info = self.info.get("info").filter(|info| info.len() <= LONGEST_INFO)?;
        let info: Value = serde_json::from_str(info).ok()?;
        let labels =
            info.pointer("/imageSpec/config")?.as_object()?.get("Labels").cloned().unwrap_or_default();
        serde_json::from_value::<Option<_>>(labels).ok().map(Option::unwrap_or_default)
    }
}

impl VersionResponse {
    /// Whether containers may have images mounted as volumes, which only their status says. containerd does so since
    /// 2.1 (containerd#10579).
    pub fn mounts_images(&self) -> bool {
        let version = self.runtime_version.trim_start_matches('v');
        self.runtime_name != "containerd" || !(version.starts_with("1.") || version.starts_with("2.0."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_containerd_that_is_known_to_be_older_mounts_no_images() {
        for (name, version, mounts) in [
            ("containerd", "1.6.20~ds1", false),
            ("containerd", "v1.7.23-k3s1", false),
            ("containerd", "v2.0.0-rc.1", false),
            ("containerd", "2.1.0", true),
            ("containerd", "v2.10.1", true),
            ("containerd", "10.0", true),
            ("containerd", "", true),
            ("cri-o", "1.30.4", true),
        ] {
            let (runtime_name, runtime_version) = (name.to_owned(), version.to_owned());
            let runtime = VersionResponse { runtime_name, runtime_version, ..VersionResponse::default() };
            assert_eq!(runtime.mounts_images(), mounts, "{name} {version}");
        }
    }

    #[test]
    fn the_image_of_sandboxes_is_read_if_it_is_there() {
        let image = |config: &str| {
            let info = [("config".to_owned(), config.to_owned())].into();
            StatusResponse { info, ..StatusResponse::default() }.sandbox_image()
        };
        assert_eq!(image(r#"{"containerd":{"x":[1]},"sandboxImage":"pause:3"}"#).as_deref(), Some("pause:3"));
        for nothing in
            ["", "{}", "[]", r#"{"sandboxImage":""}"#, r#"{"sandboxImage":7}"#, r#"{"sandboxImage":null}"#]
        {
            assert_eq!(image(nothing), None, "{nothing}");
        }
        assert_eq!(StatusResponse::default().sandbox_image(), None);
    }

    #[test]
    fn labels_are_read_if_they_are_there_and_make_sense() {
        let labels = |info: &str| {
            let info = [("info".to_owned(), info.to_owned())].into();
            ImageStatusResponse { info, ..ImageStatusResponse::default() }.labels()
        };
        let of = |config: &str| {
            labels(&format!(r#"{{"chainID":"","imageSpec":{{"os":"linux","config":{config}}}}}"#))
        };
        let some = |key: &str, value: &str| Some([(key.to_owned(), value.to_owned())].into());
        assert_eq!(of(r#"{"Cmd":[],"Labels":{"stage":"build"}}"#), some("stage", "build"));
        // CRI-O repeats them elsewhere.
        let crio = r#"{"labels":{"x":"y"},"imageSpec":{"config":{"Labels":{"stage":"build"}}}}"#;
        assert_eq!(labels(crio), some("stage", "build"));
        for none in ["{}", r#"{"Labels":null}"#, r#"{"Labels":{}}"#, r#"{"labels":{"a":"b"}}"#] {
            assert_eq!(of(none), Some(BTreeMap::new()), "{none}");
        }
        // Whoever else reads it takes the last one, too.
        assert_eq!(of(r#"{"Labels":{"a":"1"},"Labels":{"b":"1","b":"2"}}"#), some("b", "2"));
        let (huge, deep) = ("x".repeat(LONGEST_INFO), "[".repeat(LONGEST_INFO / 2));
        for odd in [
            "null",
            "[]",
            "7",
            r#"{"Labels":[]}"#,
            r#"{"Labels":"a"}"#,
            r#"{"Labels":{"a":7}}"#,
            r#"{"Labels":{"a":null}}"#,
            r#"{"Labels":{"a":{"b":"c"}}}"#,
            &format!(r#"{{"Labels":{{"a":"{huge}"}}}}"#),
            &format!(r#"{{"Labels":{deep}"#),
            &format!(r#"{{"Labels":{{"a":{}{}}}}}"#, "[".repeat(200_000), "]".repeat(200_000)),
        ] {
            assert_eq!(of(odd), None, "{}", odd.chars().take(40).collect::<String>());
        }
        for other in ["", "{}", "[]", "cannot marshal", r#"{"imageSpec":null}"#, r#"{"imageSpec":{}}"#] {
            assert_eq!(labels(other), None, "{other}");
        }
        assert_eq!(ImageStatusResponse::default().labels(), None);
    }
}
