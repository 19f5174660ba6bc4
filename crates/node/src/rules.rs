//! The settings of the rules.

use std::time::Duration;

/// All settings. [`Default`] has the kubelet's own defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The most that one pass removes.
    pub limits: Limits,
    /// Where the logs are.
    pub roots: LogRoots,
    /// Whether a kubelet collects on this node, too.
    pub kubelet: Kubelet,
    /// Plan, and remove nothing.
    pub dry_run: bool,
    /// How long a container that has been created and not started stays, and a log directory in
    /// which something has changed.
    pub created_grace: Duration,
    /// What goes beyond the kubelet's rules and can be turned off.
    pub additions: Additions,
}

/// The settings of dead containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRules {
    /// How long ago a container must have been created.
    pub min_age: Duration,
    /// How many dead containers of one name in a pod stay; nothing means all.
    pub max_per_container: Option<u32>,
    /// How many dead containers stay in all; nothing means all.
    pub max_total: Option<u32>,
    /// How often dead containers, sandboxes and logs are collected.
    pub period: Duration,
}

/// The settings of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRules {
    /// The usage in percent from which on images go.
    pub high: u8,
    /// The usage in percent down to which images go.
    pub low: u8,
    /// How long an image stays after its detection.
    pub min_age: Duration,
    /// How long an unused image stays; nothing means as long as there is space.
    pub max_age: Option<Duration>,
    /// Names of images that stay.
    pub keep: Vec<Glob>,
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

/// Whether a kubelet collects on this node, too (safety 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelet {
    /// There is none.
    Absent,
    /// There is one.
    Beside(BesideKubelet),
}

/// What may be removed beside a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesideKubelet {
    /// Nothing: a dry run.
    Nothing,
    /// Only images.
    Images,
    /// Everything but the newest dead instance of each container.
    All,
}

/// What goes beyond the kubelet's rules and can be turned off, so that plans can be compared with
/// the kubelet's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Additions {
    /// Images that specs name are in use (B2).
    pub spec_images: bool,
    /// `high` and `low` hold for inodes, too (B7).
    pub inodes: bool,
    /// The log directory of a pod with a running container or a ready sandbox stays.
    pub running_logs: bool,
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
            limits: Limits { containers: 1000, images: 50 },
            roots: LogRoots {
                pods: "/var/log/pods".to_owned(),
                containers: "/var/log/containers".to_owned(),
            },
            kubelet: Kubelet::Absent,
            dry_run: false,
            created_grace: Duration::from_secs(300),
            additions: Additions { spec_images: true, inodes: true, running_logs: true },
        }
    }
}

/// What a plan may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
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
    /// Only what the kubelet does, to compare with it.
    pub fn kubelet_only() -> Self {
        let mut rules = Self::default();
        rules.images.keep_local = false;
        rules.limits = Limits { containers: usize::MAX, images: usize::MAX };
        rules.created_grace = Duration::ZERO;
        rules.additions = Additions { spec_images: false, inodes: false, running_logs: false };
        rules
    }

    /// What a plan may do under these rules.
    pub const fn effects(&self) -> Effects {
        match (self.dry_run, self.kubelet) {
            (true, _) | (false, Kubelet::Beside(BesideKubelet::Nothing)) => Effects::Nothing,
            (false, Kubelet::Beside(BesideKubelet::Images)) => Effects::Images,
            (false, Kubelet::Beside(BesideKubelet::All) | Kubelet::Absent) => Effects::All,
        }
    }

    /// Whether images are collected by their thresholds at all (I7).
    pub const fn collects_images(&self) -> bool {
        self.images.high < 100 || self.images.max_age.is_some()
    }
}

/// A pattern of the setting `keep`, which a whole name has to match: `*` is any text, `?` is any character.
///
/// Unlike in a shell, `*` crosses slashes: `registry.example/*` names everything in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// A pattern, unless it is empty or longer than 512 bytes.
    pub fn parse(pattern: &str) -> Option<Self> {
        let fine = (1..=512).contains(&pattern.len()) && !pattern.chars().any(char::is_whitespace);
        fine.then(|| Self(pattern.to_owned()))
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches all of this text. Takes at most as many steps as the product of
    /// both lengths.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut p, mut t) = (0, 0);
        // Where to go on if what follows the last star does not match here.
        let mut retry: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    retry = Some((p, t));
                    p += 1;
                }
                Some(b'?') => (p, t) = (p + 1, t + 1),
                Some(&byte) if byte == text[t] => (p, t) = (p + 1, t + 1),
                _ => {
                    let Some((star, seen)) = retry else { return false };
                    retry = Some((star, seen + 1));
                    (p, t) = (star + 1, seen + 1);
                }
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_kubelets() {
        let rules = Rules::default();
        assert_eq!((rules.images.high, rules.images.low), (85, 80));
        assert_eq!((rules.containers.max_per_container, rules.containers.max_total), (Some(1), None));
        assert_eq!(rules.pressure, None);
        assert_eq!(Pressure::default(), Pressure { bytes: 15, inodes: 5 });
    }

    #[test]
    fn beside_a_kubelet_nothing_goes_unless_it_is_asked_for() {
        let with = |kubelet, dry_run| Rules { kubelet, dry_run, ..Rules::default() }.effects();
        assert_eq!(with(Kubelet::Absent, false), Effects::All);
        assert_eq!(with(Kubelet::Beside(BesideKubelet::Nothing), false), Effects::Nothing);
        assert_eq!(with(Kubelet::Beside(BesideKubelet::Images), false), Effects::Images);
        assert_eq!(with(Kubelet::Beside(BesideKubelet::All), false), Effects::All);
        assert_eq!(with(Kubelet::Absent, true), Effects::Nothing);
    }

    fn matches(pattern: &str, text: &str) -> bool {
        Glob::parse(pattern).unwrap().matches(text)
    }

    #[test]
    fn stars_match_any_text_and_question_marks_one_character() {
        assert!(matches("registry.example/*", "registry.example/team/app:1"));
        assert!(matches("*/pause:*", "registry.k8s.io/pause:3.9"));
        assert!(matches("app:?", "app:1"));
        assert!(matches("**", ""));
        assert!(!matches("app:?", "app:10"));
        assert!(!matches("registry.example/*", "other.example/registry.example/app"));
        assert!(!matches("app", "apple"));
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(&pattern, &"a".repeat(10_000)));
    }

    #[test]
    fn empty_long_and_spaced_patterns_are_no_patterns() {
        assert_eq!(Glob::parse(""), None);
        assert_eq!(Glob::parse("a b"), None);
        assert_eq!(Glob::parse(&"a".repeat(513)), None);
    }
}
