//! The imports of each file, by a small parser of Rust's `use` declarations and paths that is
//! sufficient for this repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The prefix of the names of this repository's crates.
const CRATES: &str = "kube_gc_";

/// The segments of a path: `crate::graph::Epoch`.
pub type Segments = Vec<String>;

/// The sources of one crate.
pub struct Sources {
    /// By the module path below the crate's root; the root itself is the empty path.
    pub modules: BTreeMap<Segments, Module>,
}

/// A file, without its tests.
#[derive(Default)]
pub struct Module {
    pub file: String,
    /// What its declarations of `use` bring into it. The last segment is `*` if one imports everything.
    pub names: Vec<Segments>,
    /// The paths that are written out where they are used.
    pub paths: BTreeSet<Segments>,
    /// The names of the items that it defines.
    pub defined: BTreeSet<String>,
    /// Every word of its code outside of declarations of `use`.
    pub words: BTreeSet<String>,
}

impl Sources {
    /// Reads every file below a directory that holds a crate's root.
    pub fn read(directory: &Path) -> Result<Self> {
        let mut texts = Vec::new();
        for path in crate::files(directory, ".rs")? {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            texts.push((path.strip_prefix(directory)?.to_owned(), text));
        }
        Ok(Self::parse(texts))
    }

    /// Parses files, each with its path below the directory of the crate's root.
    pub fn parse(files: impl IntoIterator<Item = (PathBuf, String)>) -> Self {
        let mut modules = BTreeMap::new();
        for (path, text) in files {
            let without_extension = path.with_extension("");
            let mut segments: Segments =
                without_extension.iter().map(|segment| segment.to_string_lossy().into_owned()).collect();
            if segments.iter().any(|segment| segment == "tests" || segment == "main") {
                continue;
            }
            if matches!(segments.last().map(String::as_str), Some("mod" | "lib")) {
                segments.pop();
            }
            modules.insert(segments, Module::parse(path.display().to_string(), &text));
        }
        Self { modules }
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
            let imports = module.names.iter().chain(&module.paths);
            imports.filter_map(|import| match import.first().map(String::as_str) {
                Some("crate") => Some((import.get(1)?.clone(), module.file.as_str())),
                Some(name) if name.starts_with(CRATES) => Some((name.to_owned(), module.file.as_str())),
                _ => None,
            })
        })
    }
}

impl Module {
    fn parse(file: String, text: &str) -> Self {
        let mut module = Self { file, ..Self::default() };
        // A visibility is not an import.
        let code = without_tests(&without_comments(text)).replace("pub(in crate::", "pub(in ");
        let code = flat(&code);
        let mut rest = code.as_str();
        // Declarations: from `use` at the beginning of a line to the semicolon.
        let mut bodies = String::new();
        while let Some(line) = rest.split_inclusive('\n').next() {
            let declared = line.trim_start();
            let visible = visible(declared);
            let Some(tree) = visible.unwrap_or(declared).strip_prefix("use ") else {
                bodies.push_str(line);
                rest = &rest[line.len()..];
                continue;
            };
            let start = line.len() - tree.len();
            let end = rest.find(';').unwrap_or(rest.len());
            flatten(&mut Vec::new(), &rest[start..end], &mut module.names);
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        module.paths = paths_in(&bodies);
        module.defined = bodies.lines().filter_map(|line| item(line.trim_start())).collect();
        let of_word = |c: char| !(c.is_alphanumeric() || c == '_');
        module.words = bodies.split(of_word).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        module
    }
}

/// The code with its inline modules as part of the file: what they call `super` is the file.
/// Declarations of other files (`mod a;`) are left out.
fn flat(code: &str) -> String {
    let mut flat = String::new();
    let mut end: Option<String> = None;
    for line in code.split_inclusive('\n') {
        let declared = line.trim_start();
        let is_module = visible(declared).unwrap_or(declared).starts_with("mod ");
        match &end {
            None if is_module && declared.trim_end().ends_with(';') => continue,
            None if is_module && declared.trim_end().ends_with('{') => {
                end = Some(format!("{}}}", &line[..line.len() - declared.len()]));
            }
            Some(brace) if line.trim_end() == brace => end = None,
            Some(_) => flat.push_str(&line.replace("super::", "self::")),
            None => flat.push_str(line),
        }
    }
    flat
}

/// A declaration without its visibility. `None` if it has none.
fn visible(declaration: &str) -> Option<&str> {
    let rest = declaration.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scoped) => scoped.split_once(')')?.1,
        None => rest,
    };
    rest.strip_prefix(' ')
}

/// The name of the item that a line defines.
fn item(line: &str) -> Option<String> {
    const KINDS: [&str; 9] =
        ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules!"];
    let declaration = visible(line).unwrap_or(line);
    let mut words = declaration.split([' ', '(', '<', '{', ':', ';', '=']).filter(|word| !word.is_empty());
    // `const fn`, `async fn`
    let mut kind = words.next()?;
    let mut name = words.next()?;
    while matches!((kind, name), ("async" | "const" | "unsafe", "fn" | "async" | "unsafe")) {
        kind = name;
        name = words.next()?;
    }
    KINDS.contains(&kind).then(|| name.to_owned())
}

/// All paths of a tree: `a::{b, c::d}` has two.
fn flatten(before: &mut Segments, tree: &str, names: &mut Vec<Segments>) {
    let mut depth = 0;
    let mut start = 0;
    let ends = tree.char_indices().chain([(tree.len(), ',')]);
    for (at, c) in ends.collect::<Vec<_>>() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branch(before, tree[start..at].trim(), names);
                start = at + 1;
            }
            _ => {}
        }
    }
}

fn branch(before: &mut Segments, path: &str, names: &mut Vec<Segments>) {
    if path.is_empty() {
        return;
    }
    let length = before.len();
    match path.split_once('{') {
        Some((prefix, rest)) => {
            before.extend(
                prefix.split("::").map(str::trim).filter(|segment| !segment.is_empty()).map(str::to_owned),
            );
            flatten(before, rest.trim_end().trim_end_matches('}'), names);
        }
        None => {
            let path = path.split_once(" as ").map_or(path, |(path, _)| path);
            let segments =
                path.split("::").map(str::trim).filter(|segment| *segment != "self" || before.is_empty());
            let path: Segments = before.iter().cloned().chain(segments.map(str::to_owned)).collect();
            if !path.is_empty() {
                names.push(path);
            }
        }
    }
    before.truncate(length);
}

/// Paths that are written out where they are used.
fn paths_in(code: &str) -> BTreeSet<Segments> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c| !is_part(c)).map(|word| word.trim_end_matches(':'));
    let is_path = |word: &&str| word.contains("::") && !word.starts_with("::");
    words.filter(is_path).map(|word| word.split("::").map(str::to_owned).collect()).collect()
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
