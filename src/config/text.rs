//! Settings that are written as text.

/// Durations as people write them: `30s`, `5ms`, `1m 30s`.
pub(super) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map_err(D::Error::custom)
    }
}

/// Resource types as kubectl writes them: `configmaps`, `deployments.apps`.
pub(super) mod group_resources {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use kube_gc_core::object::GroupResource;

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &[GroupResource],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(value)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<GroupResource>, D::Error> {
        Vec::<String>::deserialize(deserializer)?
            .iter()
            .map(|text| read(text).map_err(D::Error::custom))
            .collect()
    }

    /// Rejects text that cannot be a resource type: ignoring such a type would silently
    /// have no effect.
    fn read(text: &str) -> Result<GroupResource, String> {
        let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if text.split('.').all(|label| !label.is_empty() && label.bytes().all(fine)) {
            Ok(GroupResource::parse(text))
        } else {
            Err(format!("{text:?} is not a resource type"))
        }
    }
}
