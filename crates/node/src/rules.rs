//! The settings of the rules.

use std::fmt;
use std::time::Duration;

use crate::glob::Glob;
use crate::time::words;

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
    #[must_use]
    pub fn kubelet_only() -> Self {
        let mut rules = Self::default();
        rules.images.keep_local = false;
        rules.limits = Limits { containers: usize::MAX, images: usize::MAX };
        rules.created_grace = Duration::ZERO;
        rules.additions = Additions { spec_images: false, inodes: false, running_logs: false };
        rules
    }

    /// What a plan may do under these rules.
    #[must_use]
    pub const fn effects(&self) -> Effects {
        match (self.dry_run, self.kubelet) {
            (true, _) | (false, Kubelet::Beside(BesideKubelet::Nothing)) => Effects::Nothing,
            (false, Kubelet::Beside(BesideKubelet::Images)) => Effects::Images,
            (false, Kubelet::Beside(BesideKubelet::All) | Kubelet::Absent) => Effects::All,
        }
    }

    /// Whether images are collected by their thresholds at all (I7).
    #[must_use]
    pub const fn collects_images(&self) -> bool {
        self.images.high < 100 || self.images.max_age.is_some()
    }

    /// Whether every setting makes sense.
    ///
    /// # Errors
    /// The first key that does not, with the values that are allowed.
    pub fn validate(&self) -> Result<(), Invalid> {
        const DAY: Duration = Duration::from_secs(86_400);
        const YEAR: Duration = Duration::from_secs(366 * 86_400);
        let Self { containers, images, .. } = self;
        check("node.min_age", words(containers.min_age), containers.min_age <= YEAR, AGE)?;
        check("node.period", words(containers.period), is_period(containers.period), PERIOD)?;
        let (high, low) = (images.high, images.low);
        check("node.high", high, (1..=100).contains(&high), "a whole percentage from 1 to 100")?;
        check("node.low", low, low < high, "a whole percentage from 0, below `node.high`")?;
        check("node.images.min_age", words(images.min_age), images.min_age <= YEAR, AGE)?;
        if let Some(max_age) = images.max_age {
            check(
                "node.images.max_age",
                words(max_age),
                !max_age.is_zero() && max_age <= 10 * YEAR,
                MAX_AGE,
            )?;
        }
        check("node.images.period", words(images.period), is_period(images.period), PERIOD)?;
        check("node.images.keep", images.keep.len(), images.keep.len() <= MOST_KEPT, KEEP)?;
        if let Some(Pressure { bytes, inodes }) = self.pressure {
            check("node.pressure.bytes", bytes, bytes <= 99, SHARE)?;
            check("node.pressure.inodes", inodes, inodes <= 99, SHARE)?;
        }
        if let Some(free) = self.free {
            check("--free", free, (1..=99).contains(&free), "a whole percentage from 1 to 99")?;
        }
        check("node.limits.containers", self.limits.containers, self.limits.containers > 0, "at least 1")?;
        check("node.limits.images", self.limits.images, self.limits.images > 0, "at least 1")?;
        let LogRoots { pods, containers } = &self.roots;
        check("node.roots.pods", pods, is_root(pods), ROOT)?;
        check("node.roots.containers", containers, is_root(containers), ROOT)?;
        check(
            "node.roots.containers",
            containers,
            containers != pods,
            "another directory than `node.roots.pods`",
        )?;
        check("node.created_grace", words(self.created_grace), self.created_grace <= DAY, GRACE)
    }
}

const AGE: &str = r#"a duration from "0s" to "366d", with its unit"#;
const MAX_AGE: &str = r#"a duration up to ten years, with its unit; "0s" means no limit"#;
const PERIOD: &str = r#"a duration from "1s" to "1d", with its unit"#;
const GRACE: &str = r#"a duration from "0s" to "1d", with its unit"#;
const SHARE: &str = "a whole percentage from 0 to 99";
const ROOT: &str = "an absolute path of at least two parts, without `.` and `..`";
const KEEP: &str = "a list of at most 256 names of images, in which `*` stands for any text";
/// The most patterns of the setting `keep`.
const MOST_KEPT: usize = 256;

fn is_period(period: Duration) -> bool {
    (Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&period)
}

/// Whether files beneath this directory may go: never those beneath `/` or `/var`.
fn is_root(path: &str) -> bool {
    let parts = path.strip_prefix('/').unwrap_or_default();
    path.len() <= 1024
        && parts.split('/').count() >= 2
        && parts.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
}

fn check(
    key: &'static str,
    value: impl fmt::Display,
    fine: bool,
    allowed: &'static str,
) -> Result<(), Invalid> {
    if fine { Ok(()) } else { Err(Invalid { key, value: value.to_string(), allowed }) }
}

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad value for `{key}`: {value}; it must be {allowed}")]
pub struct Invalid {
    /// The key, with its section.
    pub key: &'static str,
    /// The value.
    pub value: String,
    /// The values that are allowed.
    pub allowed: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_kubelets_and_valid() {
        let rules = Rules::default();
        rules.validate().unwrap();
        assert_eq!((rules.images.high, rules.images.low), (85, 80));
        assert_eq!((rules.containers.max_per_container, rules.containers.max_total), (Some(1), None));
        assert_eq!(rules.pressure, None);
        assert_eq!(Pressure::default(), Pressure { bytes: 15, inodes: 5 });
        Rules::kubelet_only().validate().unwrap();
    }

    #[test]
    fn each_bad_value_is_named_with_what_is_allowed() {
        type Change = fn(&mut Rules);
        let cases: &[(&str, Change)] = &[
            ("node.low", |rules| rules.images.low = 85),
            ("node.low", |rules| rules.images.low = 200),
            ("node.high", |rules| rules.images.high = 101),
            ("node.high", |rules| (rules.images.high, rules.images.low) = (0, 0)),
            ("node.images.max_age", |rules| rules.images.max_age = Some(Duration::ZERO)),
            ("node.images.min_age", |rules| rules.images.min_age = Duration::MAX),
            ("node.period", |rules| rules.containers.period = Duration::ZERO),
            ("node.images.period", |rules| rules.images.period = Duration::MAX),
            ("node.pressure.bytes", |rules| rules.pressure = Some(Pressure { bytes: 100, inodes: 5 })),
            ("node.pressure.inodes", |rules| rules.pressure = Some(Pressure { bytes: 15, inodes: 101 })),
            ("--free", |rules| rules.free = Some(100)),
            ("node.limits.images", |rules| rules.limits.images = 0),
            ("node.roots.pods", |rules| rules.roots.pods = "/".to_owned()),
            ("node.roots.pods", |rules| rules.roots.pods = "/var".to_owned()),
            ("node.roots.pods", |rules| rules.roots.pods = "/var/log/../lib".to_owned()),
            ("node.roots.containers", |rules| rules.roots.containers = "log/containers".to_owned()),
            ("node.roots.containers", |rules| rules.roots.containers = rules.roots.pods.clone()),
        ];
        for (key, change) in cases {
            let mut rules = Rules::default();
            change(&mut rules);
            let error = rules.validate().unwrap_err();
            assert_eq!(error.key, *key, "{error}");
            assert!(error.to_string().contains("it must be "), "{error}");
        }
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
}
