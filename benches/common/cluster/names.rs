//! The names and uids of objects.

use std::fmt::Write as _;

use super::shape::{FAMILIES, Naming};
use super::{Cluster, Number, Place};

const TEAMS: [&str; 8] = [
    "payments",
    "checkout",
    "search",
    "machine-learning",
    "logistics",
    "observability",
    "web",
    "mobile-backend",
];
const STAGES: [&str; 4] = ["prod", "staging", "test", "dev"];
const WORDS: [&str; 8] =
    ["checkout", "catalog", "cart", "shipping", "recommendations", "notifications", "sessions", "audit"];
const ROLES: [&str; 8] = ["api", "worker", "web", "gateway", "consumer", "scheduler", "cache", "exporter"];

/// The characters of random names in Kubernetes. They have no vowels and form no words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Mixes the bits of a number (SplitMix64). Different numbers stay different.
pub const fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Appends the uid of an object: a UUID that looks random (version 4).
pub fn uid(out: &mut String, Number(number): Number) {
    let (mixed, fill) = (mix(number), mix(!number));
    let parts: [(u64, usize); 5] = [
        (mixed >> 32, 8),
        (mixed >> 16 & 0xffff, 4),
        (0x4000 | fill & 0xfff, 4),
        (0x8000 | fill >> 12 & 0x3fff, 4),
        ((fill >> 26 & 0xffff_ffff) << 16 | mixed & 0xffff, 12),
    ];
    for (index, (part, digits)) in parts.into_iter().enumerate() {
        if index > 0 {
            out.push('-');
        }
        hex(out, part, digits);
    }
}

/// Appends a number with this many hexadecimal digits.
pub fn hex(out: &mut String, number: u64, digits: usize) {
    for digit in (0..digits).rev() {
        out.push(char::from(b"0123456789abcdef"[(number >> (4 * digit) & 0xf) as usize]));
    }
}

fn random(out: &mut String, seed: u64, letters: usize) {
    let mut seed = mix(seed);
    for _ in 0..letters {
        out.push(char::from(LETTERS[(seed % 27) as usize]));
        seed /= 27;
    }
}

/// Appends the name of an application of a block.
pub fn app(out: &mut String, block: u64, app: u64) {
    out.push_str(WORDS[(mix(block).wrapping_add(app) % 8) as usize]);
    out.push('-');
    out.push_str(ROLES[(mix(block ^ app << 40) % 8) as usize]);
}

/// Appends the name of a block's namespace.
fn namespace_of(out: &mut String, block: u64) {
    let stage = STAGES[(mix(block) / 8 % 4) as usize];
    let _ = write!(out, "{}-{stage}-{block:05}", TEAMS[(mix(block) % 8) as usize]);
}

const fn block_of(place: Place) -> u64 {
    match place {
        Place::Block { block, .. } | Place::Custom { block, .. } | Place::Later { block, .. } => block,
    }
}

/// Appends the namespace of a namespaced object.
pub fn namespace(out: &mut String, cluster: &Cluster, number: Number) {
    namespace_of(out, block_of(cluster.place(number)));
}

/// Appends the name of an object.
pub fn name(out: &mut String, cluster: &Cluster, number: Number) {
    let of_owner = |out: &mut String| {
        if let Some(owner) = cluster.owner(number) {
            name(out, cluster, owner);
            out.push('-');
        }
    };
    match cluster.place(number) {
        Place::Block { block, family, index } => match FAMILIES[family].naming {
            Naming::Namespace => namespace_of(out, block),
            Naming::Node | Naming::OfNode => {
                let address = [block >> 16 & 0xff, block >> 8 & 0xff, block & 0xff];
                let [a, b, c] = address;
                let _ = write!(out, "ip-10-{a}-{b}-{c}.eu-central-1.compute.internal");
            }
            Naming::App(suffixes) => {
                app(out, block, index % 8);
                out.push_str(suffixes[(index / 8) as usize]);
            }
            Naming::Hash => {
                of_owner(out);
                random(out, number.0, 10);
            }
            Naming::Short => {
                of_owner(out);
                random(out, number.0, 5);
            }
            Naming::Minute => {
                of_owner(out);
                let _ = write!(out, "{}", 29_000_000 + block % 1000 * 10 + index % 3);
            }
        },
        Place::Custom { block, index, .. } => {
            app(out, block, index % 8);
            let _ = write!(out, "-{index}");
        }
        Place::Later { .. } => {
            of_owner(out);
            random(out, number.0, 5);
        }
    }
}
