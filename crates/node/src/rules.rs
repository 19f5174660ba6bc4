//! The settings of the rules.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use wildmatch::WildMatch;

/// All settings. [`Default`] has the kubelet's own defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Dead containers.
    pub containers: ContainerRules,
    /// Images.
    pub images: ImageRules,
    /// From when on the node is under pressure (P1); nothing means never.
    pub pressure: Option<Pressure>,
    /// The percentage of the image file system that is to be free after this pass, whatever the
    /// thresholds say.
    pub free: Option<u8>,
    /// Whether all unused images go, however much space is free, as with `crictl rmi --prune`.
    pub all: bool,
    /// How long an image must have been unused, whatever else removes it.
    pub older_than: Option<Duration>,
    /// The labels that an image must have, whatever else removes it.
    pub labels: Vec<Label>,
    /// The most that one pass removes.
    pub limits: Limits,
    /// Where the logs are.
    pub roots: LogRoots,
    /// What may be removed beside the kubelet of this node (safety 3); `None` if there is no kubelet.
    pub beside_kubelet: Option<Effects>,
    /// Plan, and remove nothing.
    pub dry_run: bool,
    /// How long a container that has been created and not started stays, and a log directory in
    /// which something has changed.
    pub created_grace: Duration,
}

/// The settings of dead containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRules {
    /// How long ago a container must have been created.
    pub min_age: Duration,
    /// How many dead containers of one name in a pod stay; nothing means all.
    pub max_per_container: Option<usize>,
    /// How many dead containers stay in all; nothing means all.
    pub max_total: Option<usize>,
    /// How often dead containers, sandboxes and logs are collected.
    pub period: Duration,
}

/// The settings of images.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageRules {
    /// The usage in percent from which on images go.
    pub high: u8,
    /// The usage in percent down to which images go.
    pub low: u8,
    /// How long an image stays after its detection.
    pub min_age: Duration,
    /// How long an unused image stays; nothing means as long as there is space.
    pub max_age: Option<Duration>,
    /// Patterns of the names of images that stay. Unlike in a shell, `*` crosses slashes:
    /// `registry.example/*` names everything in a registry.
    pub keep: Vec<WildMatch>,
    /// Whether images stay that no registry has under a digest.
    pub keep_local: bool,
    /// How often images are collected.
    pub period: Duration,
}

/// The free percentages below which the node is under pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Of the bytes.
    pub bytes: u8,
    /// Of the inodes.
    pub inodes: u8,
}

impl Default for Pressure {
    fn default() -> Self {
        Self { bytes: 15, inodes: 5 }
    }
}

/// A label of an image: `KEY` with any value, or `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(pub String);

impl Label {
    /// Whether it is one of these.
    pub fn is_in(&self, labels: &BTreeMap<String, String>) -> bool {
        match self.0.split_once('=') {
            Some((key, value)) => labels.get(key).is_some_and(|found| found == value),
            None => labels.contains_key(&self.0),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// It has no key.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() || text.starts_with('=') {
            Err("it has no key")
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}

/// The most that one pass removes (safety 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Containers; and as many sandboxes, and as many logs.
    pub containers: usize,
    /// Images.
    pub images: usize,
}

/// The two directories beneath which files may go (safety 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRoots {
    /// The directory of the pods' logs.
    pub pods: String,
    /// The directory of the symlinks to the containers' logs.
    pub containers: String,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            containers: ContainerRules {
                min_age: Duration::ZERO,
                max_per_container: Some(1),
                max_total: None,
                period: Duration::from_secs(60),
            },
            images: ImageRules {
                high: 85,
                low: 80,
                min_age: Duration::from_secs(120),
                max_age: None,
                keep: Vec::new(),
                keep_local: true,
                period: Duration::from_secs(300),
            },
            pressure: None,
            free: None,
            all: false,
            older_than: None,
            labels: Vec::new(),
            limits: Limits { containers: 1000, images: 50 },
            roots: LogRoots {
                pods: "/var/log/pods".to_owned(),
                containers: "/var/log/containers".to_owned(),
            },
            beside_kubelet: None,
            dry_run: false,
            created_grace: Duration::from_secs(300),
        }
    }
}

/// What a plan may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effects {
    /// Nothing: a dry run.
    Nothing,
    /// Remove images.
    Images,
    /// Remove whatever the rules say.
    All,
}

impl Rules {
    /// What a plan may do under these rules.
    pub fn effects(&self) -> Effects {
        if self.dry_run { Effects::Nothing } else { self.beside_kubelet.unwrap_or(Effects::All) }
    }

    /// The most that a pass removes (safety 4). Whoever asks for all unused images gets them in one.
    pub const fn most(&self) -> Limits {
        Limits { images: if self.all { usize::MAX } else { self.limits.images }, ..self.limits }
    }

    /// Whether images are collected by their thresholds at all (I7).
    pub const fn collects_images(&self) -> bool {
        self.images.high < 100 || self.images.max_age.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_a_kubelet_nothing_goes_unless_it_is_asked_for() {
        let with = |beside_kubelet, dry_run| Rules { beside_kubelet, dry_run, ..Rules::default() }.effects();
        assert_eq!(with(None, false), Effects::All);
        for effects in [Effects::Nothing, Effects::Images, Effects::All] {
            assert_eq!(with(Some(effects), false), effects);
            assert_eq!(with(Some(effects), true), Effects::Nothing);
        }
        assert_eq!(with(None, true), Effects::Nothing);
    }

    #[test]
    fn a_label_has_a_key_and_any_value_or_one() {
        let labels =
            [("stage", "build=1"), ("empty", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        for (label, expected) in [
            ("stage", true),
            ("stage=build=1", true),
            ("stage=build", false),
            ("stage=", false),
            ("empty=", true),
            ("Stage", false),
            ("stag", false),
        ] {
            assert_eq!(Label::parse(label).unwrap().is_in(&labels.clone().into()), expected, "{label}");
        }
        assert!(Label::parse("").is_err() && Label::parse("=build").is_err());
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!WildMatch::new(&pattern).matches(&"a".repeat(10_000)));
    }
}
