//! A cluster that needs no memory: each object is computed from its number.

mod content;
mod json;
mod names;
pub mod protobuf;
mod shape;

pub use self::json::object;
use self::names::mix;
pub use self::names::{name, namespace};
pub use self::shape::BLOCK;
use self::shape::{APPS, BUILT_IN, DEPLOYMENTS, FAMILIES, OFFSETS, PODS, REPLICA_SETS};

/// The number of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(pub u64);

/// The number of a resource type: first those of [`BUILT_IN`], then custom types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Type(pub usize);

/// Pods.
pub const POD: Type = Type(PODS);

/// The place of the first Deployment of a block.
pub const DEPLOYMENT: u64 = OFFSETS[DEPLOYMENTS];

/// The size of a cluster. Blocks come first, then custom objects, then Pods that are created
/// later.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cluster {
    /// Blocks of [`BLOCK`] objects, each with a namespace and a node.
    pub blocks: u64,
    pub custom: Custom,
}

/// Objects of custom types. The first Deployment of a block owns each of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Custom {
    pub types: usize,
    pub objects: u64,
}

/// The place of an object.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// In a block.
    Block {
        block: u64,
        family: usize,
        index: u64,
    },
    Custom {
        block: u64,
        resource: Type,
        index: u64,
    },
    /// A Pod that is created while the cluster is running.
    Later {
        block: u64,
        index: u64,
    },
}

impl Cluster {
    /// A cluster with this many objects, in the usual shape.
    pub const fn of(objects: u64) -> Self {
        Self { blocks: objects / BLOCK, custom: Custom { types: 0, objects: 0 } }
    }

    /// All served types.
    pub fn types(&self) -> impl Iterator<Item = Type> {
        (0..BUILT_IN.len() + self.custom.types).map(Type)
    }

    const fn in_blocks(&self) -> u64 {
        self.blocks * BLOCK
    }

    /// The number after the last object that exists at the beginning.
    pub const fn end(&self) -> Number {
        Number(self.in_blocks() + self.custom.objects)
    }

    /// The number of objects at the beginning.
    pub const fn objects(&self) -> u64 {
        self.end().0
    }

    /// The place of the object with this number.
    pub fn place(&self, Number(number): Number) -> Place {
        if number < self.in_blocks() {
            let (block, position) = (number / BLOCK, number % BLOCK);
            let family = OFFSETS.partition_point(|&offset| offset <= position) - 1;
            return Place::Block { block, family, index: position - OFFSETS[family] };
        }
        let index = number - self.in_blocks();
        if index < self.custom.objects {
            let types = self.custom.types as u64;
            // There are as many numbers as types, which are few.
            let resource = Type(BUILT_IN.len() + (index % types) as usize);
            return Place::Custom { block: index / types % self.blocks, resource, index: index / types };
        }
        let index = index - self.custom.objects;
        Place::Later { block: mix(index) % self.blocks, index }
    }

    /// The type of an object.
    pub fn resource(&self, number: Number) -> Type {
        match self.place(number) {
            Place::Block { family, .. } => Type(FAMILIES[family].resource),
            Place::Custom { resource, .. } => resource,
            Place::Later { .. } => POD,
        }
    }

    const fn number(block: u64, family: usize, index: u64) -> Number {
        Number(block * BLOCK + OFFSETS[family] + index)
    }

    /// The owner of an object.
    pub fn owner(&self, number: Number) -> Option<Number> {
        match self.place(number) {
            Place::Block { block, family, index } => {
                let owner = FAMILIES[family].owner?;
                Some(Self::number(block, owner.family, (owner.index)(index)))
            }
            Place::Custom { block, .. } => Some(Self::number(block, DEPLOYMENTS, 0)),
            Place::Later { block, index } => Some(Self::number(block, REPLICA_SETS, index % APPS * 4 + 3)),
        }
    }

    /// The objects of a type from this number on, ascending. Objects that are created later are
    /// included up to `end`.
    pub fn list(&self, resource: Type, from: Number, end: Number) -> impl Iterator<Item = Number> + use<> {
        let positions: Vec<u64> = FAMILIES
            .iter()
            .zip(OFFSETS)
            .filter(|(family, _)| Type(family.resource) == resource)
            .flat_map(|(family, offset)| offset..offset + family.count)
            .collect();
        let blocks =
            if positions.is_empty() { 0..0 } else { from.0.min(self.in_blocks()) / BLOCK..self.blocks };
        let in_blocks = blocks.flat_map(move |block| {
            positions.clone().into_iter().map(move |position| Number(block * BLOCK + position))
        });
        let types = self.custom.types.max(1);
        let first = resource.0.checked_sub(BUILT_IN.len()).map_or(u64::MAX, |custom| custom as u64);
        let (start, customs) = (self.in_blocks(), self.custom.objects);
        let custom = (first..customs.max(first)).step_by(types).map(move |index| Number(start + index));
        let later = if resource == POD { self.end().0..end.0 } else { 0..0 };
        in_blocks.chain(custom).chain(later.map(Number)).filter(move |&number| number >= from)
    }

    /// A pseudorandom object, which is the same for the same turn.
    pub const fn any(&self, turn: u64) -> Number {
        Number(mix(turn) % self.end().0)
    }
}
