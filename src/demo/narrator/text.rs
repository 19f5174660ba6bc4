//! The story for people: text with colours, which whoever writes it takes away
//! where they do not belong.

use std::fmt::{self, Display, Write as _};

use anstyle::{AnsiColor, Style};

use crate::demo::story::{Drawn, Load, Owner, Places, Request, Scene, Step};
use crate::telemetry::Escaped;
use kube_gc_core::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};

const TITLE: Style = AnsiColor::Cyan.on_default().bold();
const OBJECT: Style = Style::new().bold();
const GONE: Style = AnsiColor::Red.on_default();
const LIVES: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Yellow.on_default();
const QUIET: Style = Style::new().dimmed();

/// The same, in a style.
struct Styled<T>(Style, T);

impl<T: Display> Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(style, text) = self;
        // Objects of the demo are anybody's who talks to its server, and so are their names.
        write!(f, "{style}{}{style:#}", Escaped(text))
    }
}

/// Builds a text; writing to a string cannot fail.
fn text(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut text = String::new();
    let _ = write(&mut text);
    text
}

pub fn begins() -> String {
    text(|out| {
        writeln!(out, "{}", Styled(TITLE, "kube-gc demo"))?;
        writeln!(out, "A Kubernetes API server and its garbage collector, both in this process.\n")
    })
}

/// The shop, as a tree.
pub fn shop(drawn: &[Drawn]) -> String {
    text(|out| {
        writeln!(out, "The shop, each object below its owner:\n")?;
        for (at, Drawn { object, depth, note }) in drawn.iter().enumerate() {
            let later = &drawn[at + 1..];
            // A level goes on if something on it comes before anything above it.
            let goes_on = |level: usize| {
                later.iter().find(|next| next.depth <= level).is_some_and(|next| next.depth == level)
            };
            out.push_str("  ");
            for level in 1..=*depth {
                out.push_str(match (level == *depth, goes_on(level)) {
                    (true, true) => "├─ ",
                    (true, false) => "└─ ",
                    (false, true) => "│  ",
                    (false, false) => "   ",
                });
            }
            write!(out, "{}", Styled(OBJECT, object))?;
            if !note.is_empty() {
                write!(out, "  {}", Styled(QUIET, format_args!("({note})")))?;
            }
            out.push('\n');
        }
        Ok(())
    })
}

pub fn act(number: usize, of: usize, title: &str, about: &str) -> String {
    text(|out| {
        writeln!(out, "\n{}", Styled(TITLE, format_args!("{number}/{of}  {title}")))?;
        for line in wrapped(about, 92) {
            writeln!(out, "     {line}")?;
        }
        Ok(())
    })
}

pub fn deed(deed: &str, command: Option<&str>) -> String {
    text(|out| {
        writeln!(out, "\n  {}", Styled(OBJECT, deed))?;
        if let Some(command) = command {
            writeln!(out, "  {}", Styled(QUIET, format_args!("$ {command}")))?;
        }
        Ok(())
    })
}

/// What was done, why, and by which request.
pub fn step(step: &Step) -> String {
    let Step { milliseconds, object, action, outcome, finalizer, owners, request, error } = step;
    text(|out| {
        let (style, what) = match (*action, *outcome) {
            ("delete", "deleted") => (GONE, "is deleted".to_owned()),
            ("delete", "deletion_pending") => (GONE, "is deleted, and held by its finalizers".to_owned()),
            ("remove_references", "patched") => {
                (LIVES, "loses the owners that are gone, and lives on".to_owned())
            }
            ("orphan", "patched") => (LIVES, "loses its owner and lives on".to_owned()),
            ("remove_finalizer", "removed") => {
                (GONE, format!("may go: its finalizer {} is removed", finalizer.unwrap_or_default()))
            }
            _ => (BAD, format!("{action}: {outcome}")),
        };
        writeln!(out, "  {milliseconds:>7.1} ms  {} {}", Styled(OBJECT, object), Styled(style, what))?;
        for owner in owners {
            because(out, owner)?;
        }
        // That of a finalizer is no owner.
        match finalizer {
            Some(FOREGROUND_FINALIZER) => writeln!(out, "{INDENT}nothing blocks it any more")?,
            Some(ORPHAN_FINALIZER) => writeln!(out, "{INDENT}no dependent names it any more")?,
            _ => {}
        }
        if let Some(request) = request {
            requested(out, request)?;
        }
        match error {
            Some(error) => writeln!(out, "{INDENT}{}", Styled(BAD, error)),
            None => Ok(()),
        }
    })
}

/// Below the object of a step.
const INDENT: &str = "              ";

fn because(out: &mut String, Owner { object, class, evidence, asked }: &Owner) -> fmt::Result {
    let known = match (&**class, &**evidence) {
        ("absent", _) if !asked.is_empty() => "is absent: the server was asked",
        ("orphaning", _) => "is deleted without them",
        ("absent", "graph") => "is absent: the graph has seen it go",
        ("absent", "remembered") => "is absent: that was proved a moment ago",
        ("absent", _) => "is absent: the server was asked",
        ("waiting", _) => "waits for its dependents: the server was asked",
        ("solid", "graph") => "is there: a watch shows it",
        ("solid", _) => "is there: the server was asked",
        ("orphaned", _) => "was deleted without its dependents",
        ("unresolved", _) => "cannot be found out about",
        ("invalidScope", _) => "cannot be its owner",
        _ => "is of unknown worth",
    };
    writeln!(out, "{INDENT}its owner {} {known}", Escaped(object))?;
    for Request { method, path, code, .. } in asked {
        writeln!(out, "{INDENT}{}", Styled(QUIET, format_args!("{method} {path} -> {code}")))?;
    }
    Ok(())
}

fn requested(out: &mut String, request: &Request) -> fmt::Result {
    let Request { method, path, uid, resource_version, propagation_policy, code, milliseconds } = request;
    writeln!(
        out,
        "{INDENT}{}",
        Styled(QUIET, format_args!("{method} {path} -> {code}, {milliseconds:.2} ms"))
    )?;
    let mut conditions = Vec::new();
    conditions.extend(uid.as_ref().map(|uid| format!("uid {uid}")));
    conditions.extend(resource_version.as_ref().map(|version| format!("resourceVersion {version}")));
    let mut said = Vec::new();
    said.extend((!conditions.is_empty()).then(|| format!("only if {}", conditions.join(", "))));
    said.extend(propagation_policy.as_ref().map(|policy| format!("propagationPolicy {policy}")));
    if said.is_empty() {
        return Ok(());
    }
    writeln!(out, "{INDENT}{}", Styled(QUIET, said.join("; ")))
}

/// How a scene ended.
pub fn verified(scene: &Scene) -> String {
    text(|out| {
        let steps = scene.steps.len();
        let steps = if steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") };
        writeln!(out, "  {} in {:.1} ms. On the server:", Styled(LIVES, steps), scene.milliseconds)?;
        for verified in &scene.verified {
            let lines = wrapped(verified, 90);
            for (at, line) in lines.iter().enumerate() {
                let mark = if at == 0 { "✓" } else { " " };
                writeln!(out, "    {} {line}", Styled(LIVES, mark))?;
            }
        }
        Ok(())
    })
}

pub fn load(load: &Load) -> String {
    let Load { objects, policy, seed_seconds, collect_seconds, objects_per_second, requests, .. } = load;
    let bytes = |bytes: Option<u64>| match bytes {
        Some(bytes) => format!("{} MiB", bytes >> 20),
        None => "unknown".to_owned(),
    };
    text(|out| {
        writeln!(
            out,
            "{}",
            Styled(TITLE, format_args!("{objects} objects of one root, deleted with {policy}"))
        )?;
        writeln!(out, "  created in             {seed_seconds:.2} s")?;
        writeln!(out, "  collected in           {collect_seconds:.2} s")?;
        writeln!(out, "  objects per second     {objects_per_second:.0}")?;
        writeln!(out, "  requests               {requests}, {:.3} per object", load.requests_per_object)?;
        writeln!(
            out,
            "  memory, server and all {} at the start, {} with all objects, {} at the end",
            bytes(load.memory.start),
            bytes(load.memory.full),
            bytes(load.memory.end)
        )
    })
}

/// How to play on: with what the story has left in the shop, or where the load was.
pub fn stays(places: &Places, loaded: bool) -> String {
    let Places { server, health, debug, kubeconfig } = places;
    let kubectl = format!("kubectl --kubeconfig {}", kubeconfig.display());
    text(|out| {
        writeln!(out, "\n{}", Styled(TITLE, "It stays up. Play on, in another terminal:"))?;
        let commands: &[&str] = match loaded {
            true => &["-n load create configmap mine", "-n load get configmaps", "delete namespace load"],
            false => &[
                "-n shop get configmaps,replicasets,pods",
                "-n shop create configmap mine",
                "-n shop delete replicaset api-7c9d5f --cascade=foreground",
                "-n back-office get events",
            ],
        };
        for command in commands {
            writeln!(out, "  {kubectl} {command}")?;
        }
        out.push('\n');
        writeln!(out, "  the Kubernetes API   {server}")?;
        writeln!(out, "  metrics              {health}/metrics")?;
        writeln!(out, "  who owns whom        {debug}/debug/graph")?;
        writeln!(out, "  what waits           {debug}/debug/queues")?;
        writeln!(out, "\nCtrl-C ends it.")
    })
}

/// Cuts a text into lines of at most so many characters, at its blanks.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
