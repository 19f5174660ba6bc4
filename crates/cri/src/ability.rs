//! What a runtime can do, as far as its version says.

use crate::ApiVersion;
use crate::messages::VersionResponse;

/// The first versions that mount images as volumes: containerd#10579 came with 2.1, and cri-o#8317 with
/// 1.31, the release for the Kubernetes that introduced them (KEP-4639).
const MOUNT_IMAGES: [(&str, (u32, u32)); 2] = [("containerd", (2, 1)), ("cri-o", (1, 31))];

/// Whether containers of a runtime may have images mounted as volumes. v1alpha2 has no field for that.
/// A runtime or version that is not known counts as one that can.
#[must_use]
pub fn mounts_images(api: ApiVersion, runtime: &VersionResponse) -> bool {
    let name = runtime.runtime_name.to_ascii_lowercase();
    let first = MOUNT_IMAGES.iter().find(|(known, _)| *known == name).map(|(_, first)| *first);
    match (first, major_minor(&runtime.runtime_version)) {
        _ if api == ApiVersion::V1Alpha2 => false,
        (Some(first), Some(version)) => version >= first,
        _ => true,
    }
}

/// The beginning of a version such as `v1.7.23-k3s1`.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix('v').unwrap_or(version).splitn(3, '.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1(name: &str, version: &str) -> bool {
        let (runtime_name, runtime_version) = (name.to_owned(), version.to_owned());
        let runtime = VersionResponse { runtime_name, runtime_version, ..VersionResponse::default() };
        assert!(!mounts_images(ApiVersion::V1Alpha2, &runtime), "{name} {version}");
        mounts_images(ApiVersion::V1, &runtime)
    }

    #[test]
    fn a_version_before_image_volumes_cannot_mount_them() {
        for version in ["1.6.20~ds1", "v1.7.23-k3s1", "2.0.5", "v2.0.0-rc.1"] {
            assert!(!v1("containerd", version), "{version}");
        }
        assert!(!v1("cri-o", "1.30.4"));
    }

    #[test]
    fn a_version_with_image_volumes_or_an_unknown_one_can() {
        for (name, version) in [
            ("containerd", "2.1.0"),
            ("containerd", "v2.10.1"),
            ("containerd", "10.0"),
            ("cri-o", "1.31.0"),
            ("containerd", "main"),
            ("containerd", "2"),
            ("containerd", ""),
            ("docker", "1.0.0"),
            ("", ""),
        ] {
            assert!(v1(name, version), "{name} {version}");
        }
    }
}
