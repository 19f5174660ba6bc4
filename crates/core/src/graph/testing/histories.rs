//! Random histories of a few objects.

use proptest::prelude::*;

use super::world::*;
use crate::graph::*;
use crate::object::*;

/// What happens to one object of the universe.
#[derive(Clone, Debug)]
pub struct Step {
    pub object: usize,
    pub op: Op,
}

#[derive(Clone, Debug)]
pub enum Op {
    /// A list or watch shows it, with these references and this deletion state.
    See { references: Vec<(usize, u8)>, deletion: u8 },
    /// It is deleted.
    Delete,
    /// A list of its type does not contain it.
    Relist,
}

pub const OBJECTS: usize = 9;

pub fn steps(relists: bool) -> impl Strategy<Value = Vec<Step>> {
    let references = prop::collection::vec((0..OBJECTS, 0..8_u8), 0..4);
    let see = (references, 0..8_u8).prop_map(|(references, deletion)| Op::See { references, deletion });
    let last = if relists { Op::Relist } else { Op::Delete };
    let op = prop_oneof![8 => see, 1 => Just(Op::Delete), 1 => Just(last)];
    prop::collection::vec((0..OBJECTS, op).prop_map(|(object, op)| Step { object, op }), 1..50)
}

/// Turns steps into objects. A deleted object comes back with the same name and a new uid.
/// References name the current or last uid.
#[derive(Debug, Default)]
pub struct Universe {
    lives: [u32; OBJECTS],
    version: u64,
}

impl Universe {
    pub fn base(&self, index: usize) -> Obj {
        let life = self.lives[index];
        let base = match index {
            0 => obj("configmaps", "a", "c0"),
            1 => obj("configmaps", "a", "c1"),
            2 => obj("configmaps", "b", "c2"),
            3 => obj("pods", "a", "p0"),
            4 => obj("pods", "b", "p1"),
            5 => obj("nodes", "", "n0"),
            6 => obj("things.example.com", "", "t0"),
            7 => obj("ingresses.extensions", "a", "i"),
            _ => obj("ingresses.networking.k8s.io", "a", "i"),
        };
        // Both views of the ingress share a uid as long as they were deleted equally often.
        let uid = format!("{}-{life}", base.facts.name);
        base.uid(&uid)
    }
    pub fn tick(&mut self) -> u64 {
        self.version += 1;
        self.version + 10
    }
    pub fn retire(&mut self, index: usize) {
        self.lives[index] += 1;
    }
    pub fn show(&mut self, index: usize, references: &[(usize, u8)], deletion: u8) -> Obj {
        let mut shown = self.base(index);
        for &(target, shape) in references {
            let plain = self.base(target).reference();
            shown = shown.with(match shape {
                0 | 1 => plain,
                2 => OwnerReference { name: "else".into(), ..plain },
                3 => OwnerReference { kind: "Nobody".into(), ..plain },
                4 => OwnerReference { kind: plain.kind.to_lowercase().into(), ..plain },
                5 => OwnerReference { kind: "Pod".into(), api_version: "v1".into(), ..plain },
                _ => OwnerReference { block_owner_deletion: true, ..plain },
            });
        }
        let shown = match deletion {
            0 | 1 => shown.foreground(),
            2 => shown.orphaning(),
            3 => shown.terminating(),
            _ => shown,
        };
        shown.at(self.tick())
    }
}

/// The events of these steps, in order.
pub fn script(steps: &[Step]) -> Vec<(usize, Obj, WatchEvent)> {
    let mut universe = Universe::default();
    let mut script = Vec::new();
    for step in steps {
        match &step.op {
            Op::See { references, deletion } => {
                let shown = universe.show(step.object, references, *deletion);
                script.push((step.object, shown.clone(), WatchEvent::Apply(shown.facts)));
            }
            Op::Delete | Op::Relist => {
                let version = universe.tick();
                let gone = universe.base(step.object).at(version);
                universe.retire(step.object);
                script.push((step.object, gone.clone(), WatchEvent::Delete(gone.facts)));
            }
        }
    }
    script
}

/// A world after these steps, with all links delivered.
pub fn played(steps: &[Step], namespaced: u16) -> World {
    let mut world = World::new(namespaced);
    run(&mut world, &script(steps), &[0]);
    world
}

/// Applies these events. `flushes` says after which of them messages are delivered.
pub fn run(world: &mut World, script: &[(usize, Obj, WatchEvent)], flushes: &[usize]) {
    for (index, (_, obj, change)) in script.iter().enumerate() {
        world.change(obj, change.clone());
        if flushes.get(index % flushes.len().max(1)).is_some_and(|&pick| pick % 3 == 0) {
            world.flush();
        }
    }
    world.flush();
    world.deliver();
}
