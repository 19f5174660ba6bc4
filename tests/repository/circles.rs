//! Import circles: files of which each one leads to every other one by its imports.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Module, Segments, Sources};

/// What each module imports: the modules, each with a path that names one of its items.
type Imports<'sources> = BTreeMap<&'sources Segments, BTreeMap<&'sources Segments, String>>;

/// Files of which each one imports every other one, directly or indirectly.
pub struct Circle<'sources> {
    pub files: Vec<&'sources str>,
    /// The imports among them: `a.rs imports b.rs: crate::b::B`.
    pub imports: Vec<String>,
}

impl Sources {
    /// The import circles of more than two files. An import through a re-export counts for the
    /// file that defines the item: a facade does not hide a circle.
    pub fn circles(&self) -> Vec<Circle<'_>> {
        let imports: Imports<'_> = self.modules.keys().map(|path| (path, self.imported(path))).collect();
        let reaches: BTreeMap<&Segments, BTreeSet<&Segments>> =
            imports.keys().map(|path| (*path, reached(path, &imports))).collect();
        let circle = |path: &Segments| -> BTreeSet<&Segments> {
            reaches[path].iter().copied().filter(|other| reaches[other].contains(path)).collect()
        };
        let circles: BTreeSet<BTreeSet<&Segments>> =
            self.modules.keys().map(circle).filter(|files| files.len() > 2).collect();
        circles.iter().map(|paths| self.describe(paths, &imports)).collect()
    }

    fn describe<'sources>(
        &'sources self,
        paths: &BTreeSet<&Segments>,
        imports: &Imports<'_>,
    ) -> Circle<'sources> {
        let file = |path: &Segments| self.modules[path].file.as_str();
        let of_file = |path: &&Segments| -> Vec<String> {
            let inside = imports[*path].iter().filter(|(to, _)| paths.contains(*to));
            inside.map(|(to, name)| format!("{} imports {}: {name}", file(path), file(to))).collect()
        };
        Circle {
            files: paths.iter().map(|path| file(path)).collect(),
            imports: paths.iter().flat_map(of_file).collect(),
        }
    }

    /// The modules whose items a module uses.
    fn imported(&self, from: &Segments) -> BTreeMap<&Segments, String> {
        let module = &self.modules[from];
        // A re-export is a dependency only if the file uses the item itself.
        let names = module.names.iter().filter(|name| !name.public || module.words.contains(&name.name));
        let imported = names.flat_map(|name| match name.path.split_last() {
            Some((last, parent)) if last == "*" => self.globbed(from, parent, module),
            _ => self
                .target(from, &name.path)
                .into_iter()
                .map(|target| (target, name.path.join("::")))
                .collect(),
        });
        let written = module.paths.iter().filter(|path| !self.begins_below(from, path));
        let written = written.filter_map(|path| Some((self.target(from, path)?, path.join("::"))));
        imported.chain(written).filter(|(target, _)| *target != from).collect()
    }

    /// Whether a path begins with a module that the file declares. A file that calls into the
    /// modules below it reads as one thing with them.
    fn begins_below(&self, from: &Segments, path: &Segments) -> bool {
        self.modules.contains_key(&[from.as_slice(), &path[..1]].concat())
    }

    /// The modules of the names that a file uses and that a glob import brings into it.
    fn globbed(&self, from: &Segments, parent: &[String], module: &Module) -> Vec<(&Segments, String)> {
        let paths = module.words.iter().map(|word| [parent, std::slice::from_ref(word)].concat());
        let found = paths.filter_map(|path| {
            let module = self.defining(&self.absolute(from, &path)?, &mut BTreeSet::new())?;
            Some((module, path.join("::")))
        });
        found.collect()
    }

    /// The module that defines what a path names. If no module is seen to define it (a macro may),
    /// the one in the path. A module that is named as a whole is no target yet: what counts is
    /// which of its items are used.
    fn target(&self, from: &Segments, path: &Segments) -> Option<&Segments> {
        let absolute = self.absolute(from, path)?;
        if let Some(found) = self.defining(&absolute, &mut BTreeSet::new()) {
            return Some(found);
        }
        let (module, rest) = self.longest(&absolute)?;
        let first = rest.first()?;
        // A name from another crate is nobody's here.
        let known = self.modules[module].names.iter().any(|name| name.name == *first);
        (!known).then_some(module)
    }

    /// The module that defines the item of an absolute path, through any re-exports.
    fn defining(&self, path: &Segments, visited: &mut BTreeSet<Segments>) -> Option<&Segments> {
        if !visited.insert(path.clone()) {
            return None;
        }
        let (at, rest) = self.longest(path)?;
        let (first, further) = rest.split_first()?;
        let module = &self.modules[at];
        if module.defined.contains(first) {
            return Some(at);
        }
        let candidates = module.names.iter().filter_map(|name| match name.path.split_last() {
            Some((last, parent)) if last == "*" => Some([parent, rest].concat()),
            _ => (name.name == *first).then(|| [&name.path, further].concat()),
        });
        let mut absolute = candidates.filter_map(|path| self.absolute(at, &path));
        absolute.find_map(|path| self.defining(&path, visited))
    }

    /// The deepest module on an absolute path, and what of the path is left.
    fn longest<'path>(&self, path: &'path [String]) -> Option<(&Segments, &'path [String])> {
        (0..=path.len()).rev().find_map(|length| {
            let (module, _) = self.modules.get_key_value(&path[..length])?;
            Some((module, &path[length..]))
        })
    }

    /// A path from the root of the crate. `None` if it leads into another crate.
    fn absolute(&self, from: &Segments, path: &[String]) -> Option<Segments> {
        let (first, mut rest) = path.split_first()?;
        let mut at = from.clone();
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
            }
            name => {
                at.push(name.to_owned());
                if !self.modules.contains_key(&at) {
                    // A module that a declaration of this file names: `use crate::a;`, `a::f()`.
                    let named = self.modules[from].names.iter().find(|known| {
                        known.name == *name && known.path.as_slice() != path && known.path.len() > 1
                    })?;
                    at = self.absolute(from, &named.path)?;
                    self.modules.contains_key(&at).then_some(())?;
                }
            }
        }
        while let Some(("super", further)) = rest.split_first().map(|(first, rest)| (first.as_str(), rest)) {
            at.pop();
            rest = further;
        }
        at.extend(rest.iter().cloned());
        Some(at)
    }
}

/// What a module imports, directly or indirectly.
fn reached<'sources>(from: &'sources Segments, imports: &Imports<'sources>) -> BTreeSet<&'sources Segments> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        next.extend(imports[at].keys().copied().filter(|path| reached.insert(*path)));
    }
    reached
}

/// Reads a tree of files that is written here, and says which of them form a circle.
fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let sources = Sources::parse(files.iter().map(|(path, text)| (path.into(), (*text).to_owned())));
    sources
        .circles()
        .iter()
        .map(|circle| circle.files.iter().map(|file| (*file).to_owned()).collect())
        .collect()
}

#[test]
fn two_files_that_import_each_other_are_no_circle() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "use crate::b::B;\npub struct A(B);\n"),
        ("b.rs", "use crate::a::A;\npub struct B(Box<A>);\n"),
    ];
    assert!(circles(&files).is_empty());
}

#[test]
fn a_circle_of_plain_imports_is_found() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("a.rs", "use crate::b::B;\npub struct A(B);\n"),
        ("b.rs", "use crate::c::{C};\npub struct B(C);\n"),
        ("c.rs", "pub struct C(Box<crate::a::A>);\n"),
    ];
    assert_eq!(circles(&files), [["a.rs", "b.rs", "c.rs"]]);
}

#[test]
fn a_circle_through_re_exports_is_found() {
    let files = [
        ("lib.rs", "mod shop;\npub use shop::Cart;\n"),
        (
            "shop/mod.rs",
            "mod cart;\nmod item;\nmod price;\npub use cart::*;\npub(crate) use item::Item as Thing;\nuse price::Price;\n",
        ),
        ("shop/cart.rs", "use super::Thing;\npub struct Cart(Vec<Thing>);\n"),
        ("shop/item.rs", "use super::Price;\npub struct Item(Price);\n"),
        ("shop/price.rs", "use crate::Cart;\npub struct Price(fn(Cart));\n"),
    ];
    assert_eq!(circles(&files), [["shop/cart.rs", "shop/item.rs", "shop/price.rs"]]);
}

#[test]
fn a_circle_through_an_imported_module_is_found() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("a.rs", "use crate::b;\npub fn a() { b::b() }\n"),
        ("b.rs", "pub fn b() { super::c::d() }\n"),
        ("c/mod.rs", "mod inner;\npub use inner::d;\n"),
        ("c/inner.rs", "pub fn d() { crate::a::a() }\n"),
    ];
    assert_eq!(circles(&files), [["a.rs", "b.rs", "c/inner.rs"]]);
}

#[test]
fn what_an_inline_module_calls_super_is_its_file() {
    let files = [
        ("a/mod.rs", "mod b;\nmod c;\npub struct A(b::B, c::C);\n"),
        ("a/b.rs", "pub struct B;\nmod inner {\n    use super::B;\n    pub fn b(_: B) {}\n}\n"),
        ("a/c.rs", "pub struct C;\nmod inner {\n    use super::C;\n    pub fn c(_: C) {}\n}\n"),
    ];
    assert!(circles(&files).is_empty());
}

#[test]
fn a_facade_that_only_re_exports_is_in_no_circle() {
    let files = [
        ("lib.rs", "mod a;\n"),
        ("a/mod.rs", "mod b;\nmod c;\nmod d;\npub use b::B;\npub use c::C;\npub use d::D;\n"),
        ("a/b.rs", "use super::C;\npub struct B(C);\n"),
        ("a/c.rs", "use super::D;\npub struct C(D);\n"),
        ("a/d.rs", "pub struct D;\n"),
    ];
    assert!(circles(&files).is_empty());
}
