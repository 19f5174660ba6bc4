//! The text output, with colours. The writer removes the colours where they do not belong.

use std::fmt::{self, Display, Write as _};

use anstyle::{AnsiColor, Style};

use crate::demo::report::{Endpoints, Load, Owner, Phase, Request, Step, TreeLine};
use crate::telemetry::Escaped;
use kube_gc_core::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};

/// The style of headings.
pub const TITLE: Style = AnsiColor::Cyan.on_default().bold();
const OBJECT: Style = Style::new().bold();
const GONE: Style = AnsiColor::Red.on_default();
const STAYS: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Yellow.on_default();
const QUIET: Style = Style::new().dimmed();

/// A text in a style.
pub struct Styled<T>(pub Style, pub T);

impl<T: Display> Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(style, text) = self;
        // Any client of the server can create objects, with any names.
        write!(f, "{style}{}{style:#}", Escaped(text))
    }
}

/// Builds a text. Writing to a string cannot fail.
pub fn text(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut text = String::new();
    let _ = write(&mut text);
    text
}

pub fn begin(endpoints: &Endpoints) -> String {
    text(|out| {
        writeln!(out, "{}", Styled(TITLE, "kube-gc demo"))?;
        writeln!(out, "A Kubernetes API server and a garbage collector, both in this process.")?;
        writeln!(out, "Watch them in the browser: {}/\n", endpoints.debug)
    })
}

/// The objects of the shop, as a tree.
pub fn tree(lines: &[TreeLine]) -> String {
    text(|out| {
        writeln!(out, "The objects of the shop, each below its owner:\n")?;
        for (at, TreeLine { object, depth, note }) in lines.iter().enumerate() {
            let later = &lines[at + 1..];
            // A level continues if its next object comes before the next one above it.
            let continues = |level: usize| {
                later.iter().find(|next| next.depth <= level).is_some_and(|next| next.depth == level)
            };
            out.push_str("  ");
            for level in 1..=*depth {
                out.push_str(match (level == *depth, continues(level)) {
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

/// The heading of a scenario, and what it is about.
pub fn scenario(number: usize, of: usize, title: &str, about: &str) -> String {
    text(|out| {
        writeln!(out, "\n{}", Styled(TITLE, format_args!("{number}/{of}  {title}")))?;
        for line in wrapped(about, 92) {
            writeln!(out, "     {line}")?;
        }
        Ok(())
    })
}

pub fn operation(operation: &str, command: Option<&str>) -> String {
    text(|out| {
        writeln!(out, "\n  {}", Styled(OBJECT, operation))?;
        if let Some(command) = command {
            writeln!(out, "  {}", Styled(QUIET, format_args!("$ {command}")))?;
        }
        Ok(())
    })
}

/// A step, its reason, and its request.
pub fn step(step: &Step) -> String {
    let Step { milliseconds, object, action, outcome, finalizer, owners, request, error } = step;
    text(|out| {
        let (style, what) = match (*action, *outcome) {
            ("delete", "deleted") => (GONE, "is deleted".to_owned()),
            ("delete", "deletion_pending") => {
                (GONE, "is being deleted and waits for its finalizers".to_owned())
            }
            ("remove_references", "patched") => {
                (STAYS, "loses the references to absent owners and stays".to_owned())
            }
            ("orphan", "patched") => (STAYS, "loses the reference to its owner and stays".to_owned()),
            ("remove_finalizer", "removed") => {
                (GONE, format!("loses the finalizer {}", finalizer.unwrap_or_default()))
            }
            _ => (BAD, format!("{action}: {outcome}")),
        };
        writeln!(out, "  {milliseconds:>7.1} ms  {} {}", Styled(OBJECT, object), Styled(style, what))?;
        for owner in owners {
            reason(out, owner)?;
        }
        // A finalizer is removed for other reasons than an owner.
        match finalizer {
            Some(FOREGROUND_FINALIZER) => writeln!(out, "{INDENT}no dependent blocks it any more")?,
            Some(ORPHAN_FINALIZER) => writeln!(out, "{INDENT}no dependent refers to it any more")?,
            _ => {}
        }
        if let Some(request) = request {
            describe_request(out, request)?;
        }
        match error {
            Some(error) => writeln!(out, "{INDENT}{}", Styled(BAD, error)),
            None => Ok(()),
        }
    })
}

/// The indentation of details, below the object of a step.
const INDENT: &str = "              ";

fn reason(out: &mut String, Owner { object, class, evidence, asked }: &Owner) -> fmt::Result {
    let known = match (&**class, &**evidence) {
        ("absent", _) if !asked.is_empty() => "is absent: confirmed by the API server",
        ("orphaning", _) => "is being deleted with the policy Orphan",
        ("absent", "graph") => "is absent: a watch has shown its deletion",
        ("absent", "remembered") => "is absent: confirmed a moment ago",
        ("absent", _) => "is absent: confirmed by the API server",
        ("waiting", _) => "waits for its dependents: confirmed by the API server",
        ("solid", "graph") => "exists: a watch shows it",
        ("solid", _) => "exists: confirmed by the API server",
        ("orphaned", _) => "was deleted with the policy Orphan",
        ("unresolved", _) => "cannot be resolved",
        ("invalidScope", _) => "cannot own an object of this scope",
        _ => "is of an unknown class",
    };
    writeln!(out, "{INDENT}its owner {} {known}", Escaped(object))?;
    for Request { method, path, code, .. } in asked {
        writeln!(out, "{INDENT}{}", Styled(QUIET, format_args!("{method} {path} -> {code}")))?;
    }
    Ok(())
}

fn describe_request(out: &mut String, request: &Request) -> fmt::Result {
    let Request { method, path, uid, resource_version, propagation_policy, code, milliseconds } = request;
    writeln!(
        out,
        "{INDENT}{}",
        Styled(QUIET, format_args!("{method} {path} -> {code}, {milliseconds:.2} ms"))
    )?;
    let mut preconditions = Vec::new();
    preconditions.extend(uid.as_ref().map(|uid| format!("uid {uid}")));
    preconditions.extend(resource_version.as_ref().map(|version| format!("resourceVersion {version}")));
    let mut options = Vec::new();
    options
        .extend((!preconditions.is_empty()).then(|| format!("preconditions: {}", preconditions.join(", "))));
    options.extend(propagation_policy.as_ref().map(|policy| format!("propagationPolicy {policy}")));
    if options.is_empty() {
        return Ok(());
    }
    writeln!(out, "{INDENT}{}", Styled(QUIET, options.join("; ")))
}

/// The result of a phase.
pub fn verified(phase: &Phase) -> String {
    text(|out| {
        let steps = phase.steps.len();
        let steps = if steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") };
        writeln!(out, "  {} in {:.1} ms. On the server:", Styled(STAYS, steps), phase.milliseconds)?;
        for verified in &phase.verified {
            let lines = wrapped(verified, 90);
            for (at, line) in lines.iter().enumerate() {
                let mark = if at == 0 { "✓" } else { " " };
                writeln!(out, "    {} {line}", Styled(STAYS, mark))?;
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
            Styled(
                TITLE,
                format_args!("{objects} dependents of one owner, deleted with the policy {policy}")
            )
        )?;
        writeln!(out, "  created in             {seed_seconds:.2} s")?;
        writeln!(out, "  collected in           {collect_seconds:.2} s")?;
        writeln!(out, "  objects per second     {objects_per_second:.0}")?;
        writeln!(out, "  requests               {requests}, {:.3} per object", load.requests_per_object)?;
        writeln!(
            out,
            "  memory of the process  {} at the start, {} with all objects, {} at the end",
            bytes(load.memory.start),
            bytes(load.memory.full),
            bytes(load.memory.end)
        )
    })
}

/// How to continue: with the remaining objects of the shop, or in the namespace of the load.
pub fn keeps_running(endpoints: &Endpoints, loaded: bool) -> String {
    let Endpoints { server, health, debug, kubeconfig } = endpoints;
    let kubectl = format!("kubectl --kubeconfig {}", kubeconfig.display());
    text(|out| {
        writeln!(out, "\n{}", Styled(TITLE, "The demo keeps running. Continue in another terminal:"))?;
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
        writeln!(out, "  in the browser   {debug}/")?;
        writeln!(out, "  Kubernetes API   {server}")?;
        writeln!(out, "  metrics          {health}/metrics")?;
        writeln!(out, "  owner graph      {debug}/debug/graph")?;
        writeln!(out, "  work queues      {debug}/debug/queues")?;
        writeln!(out, "\nPress Ctrl-C to stop.")
    })
}

/// Breaks a text at its spaces into lines of at most this width.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
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
