//! The settings of the rules, and where everything is.

use std::time::Duration;

use kube_gc_cri::{Endpoint, endpoint};
use kube_gc_node::Rules;
use kube_gc_node::glob::Glob;
use kube_gc_node::rules::{self, ContainerRules, ImageRules, Kubelet, LogRoots, Pressure};

use super::kubelet::{detect, is_in_pod};
use super::{NodeError, Presence, StateFile};
use crate::config::{BesideKubelet, NodeSettings, Settings};

/// What one node is collected by.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The settings of the rules.
    pub rules: Rules,
    /// The socket of the container runtime.
    pub endpoint: Endpoint,
    /// The name of this node.
    pub name: String,
    /// Where the ages of images are kept.
    pub state: StateFile,
    /// Whether a kubelet runs here.
    pub kubelet: Presence,
    /// What may be removed beside one.
    pub beside: rules::BesideKubelet,
    /// Looks for a kubelet again.
    pub detect: fn() -> Presence,
    /// Whether this process runs in a pod.
    pub in_pod: bool,
}

impl NodeOptions {
    /// What these settings say. `free` is the percentage that has to be free after a pass, whatever
    /// the thresholds say.
    ///
    /// # Errors
    /// There is no container runtime, or more than one.
    pub fn new(settings: &Settings, free: Option<u8>) -> Result<Self, NodeError> {
        let (node, kubelet) = (&settings.node, detect());
        let endpoint = if node.runtime_endpoint.is_empty() {
            endpoint::discover()?
        } else {
            Endpoint::parse(&node.runtime_endpoint)?
        };
        let name = if node.name.is_empty() { hostname() } else { node.name.clone() };
        let rules = rules(settings, free, &kubelet);
        let state = StateFile::new(node.state.clone());
        let beside = beside(node.beside_kubelet);
        Ok(Self { rules, endpoint, name, state, kubelet, beside, detect, in_pod: is_in_pod() })
    }

    /// Looks for a kubelet that has come since. Returns whether there is one now.
    pub fn meets_kubelet(&mut self) -> bool {
        if self.kubelet != Presence::Absent {
            return false;
        }
        self.is_beside((self.detect)())
    }

    /// Takes notice of a kubelet. Returns whether there is one.
    pub fn is_beside(&mut self, kubelet: Presence) -> bool {
        self.kubelet = kubelet;
        let has_come = self.kubelet != Presence::Absent;
        if has_come {
            self.rules.kubelet = Kubelet::Beside(self.beside);
        }
        has_come
    }
}

const fn beside(setting: BesideKubelet) -> rules::BesideKubelet {
    match setting {
        BesideKubelet::Nothing => rules::BesideKubelet::Nothing,
        BesideKubelet::Images => rules::BesideKubelet::Images,
        BesideKubelet::All => rules::BesideKubelet::All,
    }
}

/// The settings of the rules.
fn rules(settings: &Settings, free: Option<u8>, kubelet: &Presence) -> Rules {
    let NodeSettings {
        runtime_endpoint: _,
        name: _,
        pods: _,
        state: _,
        beside_kubelet,
        min_age,
        max_per_container,
        max_total,
        high,
        low,
        period,
        images,
        pressure,
        roots,
    } = &settings.node;
    // A negative number stands for no limit.
    let limit = |count: i64| u32::try_from(count).ok();
    let nonzero = |duration: Duration| Some(duration).filter(|duration| !duration.is_zero());
    Rules {
        containers: ContainerRules {
            min_age: *min_age,
            max_per_container: limit(*max_per_container),
            max_total: limit(*max_total),
            period: *period,
        },
        images: ImageRules {
            high: *high,
            low: *low,
            min_age: images.min_age,
            max_age: nonzero(images.max_age),
            // The settings have been checked.
            keep: images.keep.iter().filter_map(|pattern| Glob::parse(pattern)).collect(),
            keep_local: images.keep_local,
            period: images.period,
        },
        pressure: pressure.enabled.then_some(Pressure { bytes: pressure.bytes, inodes: pressure.inodes }),
        free,
        roots: LogRoots { pods: roots.pods.clone(), containers: roots.containers.clone() },
        kubelet: match kubelet {
            Presence::Absent => Kubelet::Absent,
            Presence::Present { .. } => Kubelet::Beside(beside(*beside_kubelet)),
        },
        dry_run: settings.dry_run,
        ..Rules::default()
    }
}

/// The hostname as the kubelet takes it for the name of its node.
fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_settings_are_the_default_rules() {
        assert_eq!(rules(&Settings::default(), None, &Presence::Absent), Rules::default());
        rules(&Settings::default(), Some(30), &Presence::Absent).validate().unwrap();
    }

    #[test]
    fn every_setting_reaches_the_rules() {
        let mut settings = Settings { dry_run: true, ..Settings::default() };
        settings.node = NodeSettings {
            beside_kubelet: BesideKubelet::All,
            min_age: Duration::from_secs(1),
            max_per_container: -1,
            max_total: 7,
            high: 70,
            low: 60,
            period: Duration::from_secs(2),
            ..NodeSettings::default()
        };
        settings.node.images.max_age = Duration::from_secs(9);
        settings.node.images.keep = vec!["a*".to_owned()];
        settings.node.images.keep_local = false;
        settings.node.pressure.enabled = true;
        let rules = rules(&settings, Some(33), &Presence::Present { why: String::new() });
        assert_eq!((rules.containers.max_per_container, rules.containers.max_total), (None, Some(7)));
        assert_eq!((rules.images.high, rules.images.low, rules.free), (70, 60, Some(33)));
        assert_eq!(rules.images.max_age, Some(Duration::from_secs(9)));
        assert_eq!(rules.images.keep.len(), 1);
        assert!(!rules.images.keep_local && rules.dry_run);
        assert_eq!(rules.pressure, Some(Pressure::default()));
        assert_eq!(rules.kubelet, Kubelet::Beside(rules::BesideKubelet::All));
    }

    #[test]
    fn whatever_the_configuration_accepts_the_rules_accept() {
        for (high, low) in [(1, 0), (100, 99), (100, 0), (85, 84)] {
            let mut settings = Settings::default();
            (settings.node.high, settings.node.low) = (high, low);
            rules(&settings, None, &Presence::Absent).validate().unwrap();
        }
    }
}
