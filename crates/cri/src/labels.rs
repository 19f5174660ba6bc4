//! Labels and annotations of what a runtime has.
//!
//! A list of a thousand items has thousands of labels, and nearly all of their keys are those of the
//! kubelet. Here, such a key takes no memory of its own, and labels keep the order in which they came.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

use prost::DecodeError;
use prost::Message;
use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType, skip_field, string};

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

/// Labels or annotations: a field of the type `map<string, string>`. If a key occurs twice, the last
/// one counts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(Vec<Label>);

/// A label or an annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The key.
    pub key: LabelKey,
    /// The value.
    pub value: String,
}

/// The key of a label or of an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelKey {
    /// [`POD_NAME`].
    PodName,
    /// [`POD_NAMESPACE`].
    PodNamespace,
    /// [`POD_UID`].
    PodUid,
    /// [`CONTAINER_NAME`].
    ContainerName,
    /// [`CONFIG_SOURCE`].
    ConfigSource,
    /// Any other one.
    Other(String),
}

impl LabelKey {
    /// All but other ones.
    const OF_KUBELET: [Self; 5] =
        [Self::PodName, Self::PodNamespace, Self::PodUid, Self::ContainerName, Self::ConfigSource];

    /// The key as a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::PodName => POD_NAME,
            Self::PodNamespace => POD_NAMESPACE,
            Self::PodUid => POD_UID,
            Self::ContainerName => CONTAINER_NAME,
            Self::ConfigSource => CONFIG_SOURCE,
            Self::Other(key) => key,
        }
    }

    /// The key of the kubelet at the beginning of a message, after its length, which takes one byte.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first()?;
        let key = rest.get(..usize::from(*length))?;
        // To compare with a constant takes a few instructions, and no call.
        Some(match key {
            key if key == POD_UID.as_bytes() => Self::PodUid,
            key if key == POD_NAMESPACE.as_bytes() => Self::PodNamespace,
            key if key == POD_NAME.as_bytes() => Self::PodName,
            key if key == CONTAINER_NAME.as_bytes() => Self::ContainerName,
            key if key == CONFIG_SOURCE.as_bytes() => Self::ConfigSource,
            _ => return None,
        })
    }
}

impl Default for LabelKey {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl From<String> for LabelKey {
    fn from(key: String) -> Self {
        let of_kubelet = Self::OF_KUBELET.into_iter().find(|of_kubelet| of_kubelet.as_str() == key);
        of_kubelet.unwrap_or(Self::Other(key))
    }
}

impl Labels {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let label = self.iter().rfind(|label| label.key.as_str() == key);
        label.map(|label| label.value.as_str())
    }
}

impl From<BTreeMap<String, String>> for Labels {
    fn from(labels: BTreeMap<String, String>) -> Self {
        labels.into_iter().map(|(key, value)| Label { key: key.into(), value }).collect()
    }
}

impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Self {
        Self(labels.into_iter().collect())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ordered: BTreeMap<_, _> = self.iter().map(|label| (label.key.as_str(), &label.value)).collect();
        f.debug_map().entries(ordered).finish()
    }
}

impl IntoIterator for Labels {
    type Item = Label;
    type IntoIter = std::vec::IntoIter<Label>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

// The code that is derived for messages takes this for a repeated field, which is the same on the wire.

impl<'a> IntoIterator for &'a Labels {
    type Item = &'a Label;
    type IntoIter = std::slice::Iter<'a, Label>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Deref for Labels {
    type Target = Vec<Label>;

    fn deref(&self) -> &Vec<Label> {
        &self.0
    }
}

impl DerefMut for Labels {
    fn deref_mut(&mut self) -> &mut Vec<Label> {
        &mut self.0
    }
}

/// An entry of a map is a message with two fields: the key is 1, the value 2.
impl Message for Label {
    fn encode_raw(&self, into: &mut impl BufMut) {
        string::encode(1, &self.key.as_str().to_owned(), into);
        string::encode(2, &self.value, into);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            1 => {
                if wire_type == WireType::LengthDelimited
                    && let Some(key) = LabelKey::read(from.chunk())
                {
                    from.advance(1 + key.as_str().len());
                    self.key = key;
                    return Ok(());
                }
                let mut key = String::new();
                string::merge(wire_type, &mut key, from, context)?;
                self.key = key.into();
                Ok(())
            }
            2 => string::merge(wire_type, &mut self.value, from, context),
            _ => skip_field(wire_type, tag, from, context),
        }
    }

    fn encoded_len(&self) -> usize {
        string::encoded_len(1, &self.key.as_str().to_owned()) + string::encoded_len(2, &self.value)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the definition of the field has it.
    #[derive(Clone, PartialEq, Message)]
    struct Defined {
        #[prost(btree_map = "string, string", tag = "1")]
        labels: BTreeMap<String, String>,
    }

    /// As messages here have it.
    #[derive(Clone, PartialEq, Message)]
    struct Ours {
        #[prost(message, repeated, tag = "1")]
        labels: Labels,
    }

    fn defined(keys: impl IntoIterator<Item = String>) -> Defined {
        let labels = keys.into_iter().enumerate().map(|(number, key)| (key, number.to_string()));
        Defined { labels: labels.collect() }
    }

    #[test]
    fn labels_are_read_and_written_as_a_map() {
        let known = LabelKey::OF_KUBELET.map(|key| key.as_str().to_owned());
        let nearly = known.clone().map(|key| key.replace(['.', '/'], "-"));
        let shorter = known.clone().map(|key| key[1..].to_owned());
        let longer = known.clone().map(|key| format!("{key}x"));
        let long = ["x".repeat(127), "x".repeat(128), "x".repeat(70_000), String::new()];
        for keys in [known.to_vec(), nearly.into(), shorter.into(), longer.into(), long.into()] {
            let defined = defined(keys);
            let ours = Ours::decode(defined.encode_to_vec().as_slice()).unwrap();
            assert_eq!(ours.labels, Labels::from(defined.labels.clone()));
            assert_eq!(Defined::decode(ours.encode_to_vec().as_slice()).unwrap(), defined);
            assert_eq!(ours.encode_to_vec().len(), ours.encoded_len());
        }
    }

    #[test]
    fn keys_of_the_kubelet_are_known_as_such() {
        for key in LabelKey::OF_KUBELET {
            let text = key.as_str().to_owned();
            assert!(text.len() < 128, "the length of {text} takes one byte");
            assert_eq!(LabelKey::from(text), key);
        }
    }

    #[test]
    fn what_is_no_label_is_an_error_as_it_is_in_a_map() {
        let whole = defined(LabelKey::OF_KUBELET.map(|key| key.as_str().to_owned())).encode_to_vec();
        for end in 0..whole.len() {
            assert_eq!(Ours::decode(&whole[..end]).is_ok(), Defined::decode(&whole[..end]).is_ok(), "{end}");
        }
        let not_utf8 = [10, 4, 10, 2, 0xc3, 0x28];
        assert!(Ours::decode(&not_utf8[..]).is_err());
    }
}
