//! The imports of each file, by a small parser of Rust's `use` declarations and paths that is
//! sufficient for this repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};

/// The prefix of the names of this repository's crates.
const CRATES: &str = "kube_gc_";

/// The segments of a path: `crate::graph::Epoch`.
type Segments = Vec<String>;

/// The sources of one crate.
pub struct Sources {
    /// By the module path below the crate's root; the root itself is the empty path.
    modules: BTreeMap<Segments, Module>,
}

/// A file, without its tests.
#[derive(Default)]
struct Module {
    file: String,
    /// The paths that it imports.
    imports: Vec<Segments>,
    /// The paths that it re-exports: `pub use`.
    exports: Vec<Segments>,
}

impl Sources {
    /// Reads every file below a directory that holds a crate's root.
    pub fn read(directory: &Path) -> Result<Self> {
        let mut modules = BTreeMap::new();
        for path in crate::files(directory, ".rs")? {
            let relative = path.strip_prefix(directory)?;
            let mut segments: Segments = relative
                .with_extension("")
                .iter()
                .map(|segment| segment.to_string_lossy().into_owned())
                .collect();
            if segments.iter().any(|segment| segment == "tests" || segment == "main") {
                continue;
            }
            if matches!(segments.last().map(String::as_str), Some("mod" | "lib")) {
                segments.pop();
            }
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            modules.insert(segments, Module::parse(relative.display().to_string(), &text));
        }
        Ok(Self { modules })
    }

    /// The other modules at the root, and the other crates of this repository, that a module at
    /// the root uses. Each with a file that does.
    pub fn used_by(&self, module: &str) -> BTreeMap<String, &str> {
        self.foreign(|path| path.first().is_some_and(|first| first == module))
            .filter(|(name, _)| name != module)
            .collect()
    }

    /// The crates of this repository that this one uses. Each with a file that does.
    pub fn crates_used(&self) -> BTreeMap<String, &str> {
        self.foreign(|_| true).filter(|(name, _)| name.starts_with(CRATES)).collect()
    }

    fn foreign(&self, inside: impl Fn(&Segments) -> bool) -> impl Iterator<Item = (String, &str)> {
        let modules = self.modules.iter().filter(move |(path, _)| inside(path));
        modules.flat_map(|(_, module)| {
            let imports = module.imports.iter().chain(&module.exports);
            imports.filter_map(|import| match import.first().map(String::as_str) {
                Some("crate") => Some((import.get(1)?.clone(), module.file.as_str())),
                Some(name) if name.starts_with(CRATES) => Some((name.to_owned(), module.file.as_str())),
                _ => None,
            })
        })
    }

    /// The import circles of more than two files. Each file of a circle imports every other one,
    /// directly or indirectly.
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let paths: Vec<&Segments> = self.modules.keys().collect();
        let index: BTreeMap<&Segments, usize> =
            paths.iter().enumerate().map(|(at, path)| (*path, at)).collect();
        let mut reaches: Vec<BTreeSet<usize>> =
            paths.iter().map(|path| self.imported(path, &index)).collect();
        loop {
            let mut grown = false;
            for at in 0..paths.len() {
                let further: BTreeSet<usize> =
                    reaches[at].iter().flat_map(|next| reaches[*next].iter().copied()).collect();
                let before = reaches[at].len();
                reaches[at].extend(further);
                grown |= reaches[at].len() > before;
            }
            if !grown {
                break;
            }
        }
        let circle = |at: usize| -> Vec<usize> {
            reaches[at].iter().copied().filter(|other| reaches[*other].contains(&at)).collect()
        };
        let circles: BTreeSet<Vec<usize>> =
            (0..paths.len()).map(circle).filter(|files| files.len() > 2).collect();
        let name = |at: &usize| self.modules[paths[*at]].file.as_str();
        circles.iter().map(|files| files.iter().map(name).collect()).collect()
    }

    fn imported(&self, path: &Segments, index: &BTreeMap<&Segments, usize>) -> BTreeSet<usize> {
        let targets = self.modules[path].imports.iter().filter_map(|import| self.target(path, import));
        targets.filter(|target| *target != path).filter_map(|target| index.get(target).copied()).collect()
    }

    /// The module that an import names. An import of a re-exported item counts as an import of the
    /// module that re-exports it.
    fn target(&self, from: &Segments, import: &Segments) -> Option<&Segments> {
        let absolute = self.absolute(from, import)?;
        let prefixes = (0..=absolute.len()).rev().map(|length| &absolute[..length]);
        prefixes.filter_map(|path| self.modules.get_key_value(path)).map(|(path, _)| path).next()
    }

    fn absolute(&self, from: &Segments, import: &Segments) -> Option<Segments> {
        let mut at = from.clone();
        let mut rest = import.as_slice();
        match import.first()?.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
            }
            child => {
                at.push(child.to_owned());
                self.modules.contains_key(&at).then_some(())?;
            }
        }
        rest = &rest[1..];
        while rest.first().is_some_and(|segment| segment == "super") {
            at.pop();
            rest = &rest[1..];
        }
        at.extend(rest.iter().cloned());
        Some(at)
    }
}

impl Module {
    fn parse(file: String, text: &str) -> Self {
        let mut module = Self { file, ..Self::default() };
        // A visibility is not an import.
        let code = without_tests(&without_comments(text)).replace("pub(in crate::", "pub(in ");
        let mut rest = code.as_str();
        // Declarations: from `use` at the beginning of a line to the semicolon.
        let mut bodies = String::new();
        while let Some(line) = rest.split_inclusive('\n').next() {
            let declared = line.trim_start();
            let visible = declared.strip_prefix("pub(crate) ").or(declared.strip_prefix("pub(super) "));
            let visible = visible.or(declared.strip_prefix("pub "));
            let Some(tree) = visible.unwrap_or(declared).strip_prefix("use ") else {
                bodies.push_str(line);
                rest = &rest[line.len()..];
                continue;
            };
            let start = line.len() - tree.len();
            let end = rest.find(';').unwrap_or(rest.len());
            let mut paths = Vec::new();
            flatten(&mut Vec::new(), &rest[start..end], &mut paths);
            if visible.is_some() {
                module.exports.extend(paths);
            } else {
                module.imports.extend(paths);
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        module.imports.extend(paths_in(&bodies));
        module
    }
}

/// All paths of a tree: `a::{b, c::d}` has two.
fn flatten(before: &mut Segments, tree: &str, paths: &mut Vec<Segments>) {
    let mut depth = 0;
    let mut start = 0;
    let ends = tree.char_indices().chain([(tree.len(), ',')]);
    for (at, c) in ends.collect::<Vec<_>>() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branch(before, tree[start..at].trim(), paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

fn branch(before: &mut Segments, path: &str, paths: &mut Vec<Segments>) {
    if path.is_empty() {
        return;
    }
    let length = before.len();
    match path.split_once('{') {
        Some((prefix, rest)) => {
            before.extend(
                prefix.split("::").map(str::trim).filter(|segment| !segment.is_empty()).map(str::to_owned),
            );
            flatten(before, rest.trim_end().trim_end_matches('}'), paths);
        }
        None => {
            let path = path.split(" as ").next().unwrap_or(path);
            let segments =
                path.split("::").map(str::trim).filter(|segment| *segment != "self" || before.is_empty());
            paths.push(before.iter().cloned().chain(segments.map(str::to_owned)).collect());
        }
    }
    before.truncate(length);
}

/// Paths that are written out where they are used.
fn paths_in(code: &str) -> Vec<Segments> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c| !is_part(c));
    let is_foreign = |word: &&str| {
        word.contains("::")
            && (word.starts_with("crate::") || word.starts_with("super::") || word.starts_with(CRATES))
    };
    words.filter(is_foreign).map(|word| word.split("::").map(str::to_owned).collect()).collect()
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| match line.find("//") {
        // `//` after a colon is part of a URL in a string.
        Some(at) if !line[..at].ends_with(':') => &line[..at],
        _ => line,
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The text without declarations that only tests compile.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push_str(line);
            continue;
        }
        let indent = lines.peek().map_or(0, |next| next.len() - next.trim_start().len());
        for skipped in lines.by_ref() {
            let is_at_indent = skipped.len() - skipped.trim_start().len() == indent;
            let code = skipped.trim_end();
            if is_at_indent && (code.ends_with(';') || code.ends_with('}')) {
                break;
            }
        }
    }
    kept
}
