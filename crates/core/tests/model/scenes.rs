//! Which worlds are explored: the objects that exist at first, and what may happen to them.

use kube_gc_core::object::PropagationPolicy::{self, Background, Foreground, Orphan};

use super::cast::{Life, NOBODY, Owner, SLOTS, Slot, kind_of, slot};

/// Something that users may do, or that may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Delete(PropagationPolicy),
    Create,
    Conceive,
    Drop,
    Refer,
    Block,
    Touch,
    Protect,
    Expire,
    Repeat,
    Break,
    Lose,
    Crash,
    Restore,
}

/// An object.
#[derive(Clone, Debug, Default)]
pub struct Part {
    pub exists: bool,
    pub refs: Vec<(Owner, bool)>,
    pub held: bool,
    pub protected: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The objects, as [`parse`] reads them, and what may happen.
    pub name: String,
    pub parts: [Part; SLOTS],
    /// The names that take part.
    pub slots: Vec<Slot>,
    pub users: u8,
    pub faults: u8,
    pub ops: Vec<Op>,
    pub standby: bool,
}

impl Scene {
    pub fn may(&self, op: Op) -> bool {
        self.ops.contains(&op)
    }
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().copied()
    }
    /// The types that take part.
    pub fn kinds(&self) -> usize {
        self.slots().map(kind_of).max().map_or(2, |kind| kind.max(1) + 1)
    }
}

/// What may happen, by a word.
const OPS: [(&str, &[Op]); 18] = [
    ("background", &[Op::Delete(Background)]),
    ("foreground", &[Op::Delete(Foreground)]),
    ("orphan", &[Op::Delete(Orphan)]),
    ("delete", &[Op::Delete(Background), Op::Delete(Foreground), Op::Delete(Orphan)]),
    ("create", &[Op::Create]),
    ("birth", &[Op::Conceive]),
    ("drop", &[Op::Drop]),
    ("refer", &[Op::Refer]),
    ("block", &[Op::Block]),
    ("touch", &[Op::Touch]),
    ("protect", &[Op::Protect]),
    ("relist", &[Op::Expire]),
    ("repeat", &[Op::Repeat]),
    ("break", &[Op::Break]),
    ("lose", &[Op::Lose]),
    ("crash", &[Op::Crash]),
    ("restore", &[Op::Restore]),
    ("standby", &[]),
];

/// Reads a scene: objects, what may happen, and how often users and faults may act. `b>a` is an owner
/// reference of b to a that blocks, `b~a` one that does not, and `b>a*` one that gives a wrong name. n is cluster-scoped. `+a` has
/// a finalizer of others, `^a` the finalizer `orphan`, and `-a` does not exist at first.
///
/// # Errors
/// What it does not know.
pub fn parse(text: &str) -> Result<Scene, String> {
    let mut scene = Scene { name: text.into(), ..Scene::default() };
    let slot = |name: &str| slot(name).ok_or(format!("no object is called {name}"));
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let [objects, ops, users, faults] = fields[..] else { return Err(format!("four fields, not {text}")) };
    for word in objects.split_whitespace() {
        let (name, owner) = word.trim_start_matches(['+', '^', '-']).split_at(1);
        let place = slot(name)?;
        if !scene.slots.contains(&place) {
            scene.slots.push(place);
        }
        let part = &mut scene.parts[usize::from(place)];
        part.held |= word.starts_with('+');
        part.protected |= word.starts_with('^');
        part.exists |= !word.starts_with('-');
        if let Some(owner) = owner.strip_prefix(['>', '~']) {
            let to = slot(owner.trim_end_matches('*'))?;
            let wrong = owner.ends_with('*');
            let owner = Owner { life: Life { slot: to, number: 0 }, name: if wrong { NOBODY } else { to } };
            part.refs.push((owner, word.contains('>')));
        }
    }
    for word in ops.split_whitespace() {
        let known = OPS.iter().find(|(name, _)| *name == word).ok_or(format!("nothing is called {word}"))?;
        scene.ops.extend(known.1);
        scene.standby |= word == "standby";
    }
    let number = |text: &str| text.parse().map_err(|_| format!("no number: {text}"));
    (scene.users, scene.faults) = (number(users)?, number(faults)?);
    Ok(scene)
}

/// What the gate explores, to the end.
pub const GATE: &[&str] = &[
    // Every operation on an owner and its dependent, and what can go wrong meanwhile.
    "a b>a, delete create drop refer block touch protect, 2, 0",
    "a b>a, delete create lose, 1, 1",
    "a b>a, delete relist repeat lose crash, 1, 1",
    "a b>a, delete standby, 1, 1",
    "a b>a, delete break restore, 1, 1",
    "a b>a, background touch restore, 2, 1",
    "a, foreground restore, 2, 1",
    "-a b, birth refer crash, 2, 1",
    // Chains, rings and diamonds.
    "a b>a c>b, delete, 1, 0",
    "a b>a c>a, delete, 1, 0",
    "a b c>a c>b, delete, 1, 0",
    "a b>a c>a c>b, delete, 1, 0",
    "a>b b>a, delete, 2, 0",
    "a>c b>a c>b, delete, 1, 0",
    "a b>a b>b, delete, 2, 0",
    // Two lives of one name, names, and finalizers.
    "a b>a, background create refer, 3, 0",
    "a b>a*, delete, 1, 0",
    "+a b>a, delete create, 2, 0",
    "a ^b>a c>b, delete, 1, 0",
    // A cluster-scoped owner, in a partition of its own.
    "n b>n, delete create drop refer, 2, 0",
    "n b>n c>n, delete, 1, 0",
    "n b>n c>b, delete, 1, 0",
    "n b>n, delete crash lose, 1, 1",
];

/// What `--deep` explores in addition.
pub const DEEP: &[&str] = &[
    "a b>a, delete create drop refer block, 3, 0",
    "a b>a, delete create relist repeat lose crash, 2, 1",
    "a b>a, delete create break restore, 2, 1",
    "a b>a, delete standby lose, 2, 1",
    "a b>a c>b, delete, 2, 0",
    "a b>a c>a, delete, 2, 0",
    "a b c>a c>b, delete, 2, 0",
    "a b>a c>a c>b, delete, 2, 0",
    "a>c b>a c>b, delete, 2, 0",
    "a b~a c>b, delete, 2, 0",
    "a ^b>a c>b, delete, 2, 0",
    "a b>a c>b, delete relist lose crash, 1, 1",
    "a b c>a c>b, delete relist lose crash, 1, 1",
    "a b>a c>a c>b, delete relist lose crash, 1, 1",
    "a b c>a c>b, delete drop refer, 2, 0",
    "a b>a c>b, delete create drop refer, 2, 0",
    "n b>n, delete break restore, 1, 1",
    "n b>n c>b, delete, 2, 0",
    "a n b>n b>a, delete, 2, 0",
];
