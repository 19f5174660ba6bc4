//! What is on the node before the first scenario.

use kube_gc_cri::messages::ContainerState;

/// A gibibyte.
pub const GIB: u64 = 1 << 30;
/// The namespace of the pods.
pub const NAMESPACE: &str = "shop";
/// The node.
pub const NODE: &str = "demo-node";
/// The size of the disk, and what is on it apart from images and containers.
pub const DISK: u64 = 100 * GIB;
pub const OTHER: u64 = 20 * GIB;
/// What `keep` names.
pub const KEEP: &str = "registry.example.com/base/*";
/// The image that is unused until something starts it in the second scenario.
pub const LATE: &str = "registry.example.com/shop/checkout:1";

/// An image.
pub struct Image {
    pub name: &'static str,
    pub gib: u64,
    /// Whether a registry has it under a digest.
    pub from_registry: bool,
    pub pinned: bool,
    /// How many hours ago it was detected, and last used if ever.
    pub detected: u64,
    pub used: Option<u64>,
}

const fn image(name: &'static str, gib: u64, detected: u64) -> Image {
    Image { name, gib, from_registry: true, pinned: false, detected, used: None }
}

/// The images.
pub const IMAGES: [Image; 11] = [
    image("registry.example.com/shop/web:3", 4, 72),
    image("registry.example.com/shop/web:2", 6, 400),
    image("registry.example.com/shop/importer:1", 8, 300),
    Image { used: Some(20), ..image(LATE, 10, 500) },
    image("registry.example.com/shop/cart:7", 6, 1),
    Image { used: Some(700), ..image("registry.example.com/shop/report:1", 7, 900) },
    Image { used: Some(90), ..image("registry.example.com/shop/search:4", 8, 800) },
    Image { used: Some(900), ..image("registry.example.com/base/tools:1", 9, 950) },
    Image { from_registry: false, ..image("localhost/debug:dev", 6, 600) },
    image("registry.example.com/shop/new:1", 3, 0),
    Image { pinned: true, ..image("registry.k8s.io/pause:3.10", 1, 1000) },
];

/// A pod, and what is left of it on the node.
pub struct Pod {
    pub name: &'static str,
    /// `status.phase`; `None` if the API server does not have it.
    pub phase: Option<&'static str>,
    pub sandbox: Option<Sandbox>,
    pub containers: &'static [Container],
    /// The image that its spec names.
    pub image: &'static str,
}

/// The sandbox of a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    Ready,
    Stopped,
}

/// A container of a pod.
pub struct Container {
    pub name: &'static str,
    pub image: &'static str,
    pub state: ContainerState,
    /// How many hours ago it was created.
    pub created: u64,
    /// How many gibibytes it has written.
    pub written: u64,
}

const fn exited(image: &'static str, created: u64, written: u64) -> Container {
    Container { name: "app", image, state: ContainerState::ContainerExited, created, written }
}

/// The pods. Their containers are in the order of their creation.
pub const PODS: [Pod; 4] = [
    Pod {
        name: "web",
        phase: Some("Running"),
        sandbox: Some(Sandbox::Ready),
        containers: &[
            exited("registry.example.com/shop/web:2", 90, 1),
            exited("registry.example.com/shop/web:2", 80, 1),
            exited("registry.example.com/shop/web:2", 75, 0),
            Container {
                name: "app",
                image: "registry.example.com/shop/web:3",
                state: ContainerState::ContainerRunning,
                created: 70,
                written: 1,
            },
        ],
        image: "registry.example.com/shop/web:3",
    },
    Pod {
        name: "importer",
        phase: Some("Succeeded"),
        sandbox: Some(Sandbox::Stopped),
        containers: &[exited("registry.example.com/shop/importer:1", 48, 0)],
        image: "registry.example.com/shop/importer:1",
    },
    // Its node was cut off when it was deleted.
    Pod {
        name: "checkout-old",
        phase: None,
        sandbox: Some(Sandbox::Stopped),
        containers: &[exited(LATE, 200, 0)],
        image: LATE,
    },
    // Bound to this node a moment ago: its image is there, its container is not.
    Pod {
        name: "cart",
        phase: Some("Pending"),
        sandbox: None,
        containers: &[],
        image: "registry.example.com/shop/cart:7",
    },
];
