//! Writes the results: with colours and pauses on a terminal, as plain text elsewhere, or as
//! one JSON object per line, whose `event` names its type.

use std::fmt::{self, Display, Write as _};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use serde::Serialize;
use serde_json::json;

use super::cluster::Endpoints;
use super::recorder::{Owner, Request, Step};
use kube_gc_core::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use kube_gc_observe::telemetry::Escaped;

/// A pause in which a person reads a few lines.
pub const READING_PAUSE: Duration = Duration::from_millis(2500);

/// The format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Standard output.
pub struct Output {
    format: Format,
    /// Whether a person reads along.
    interactive: bool,
}

impl Output {
    pub fn new(format: Format) -> Self {
        Self { format, interactive: format == Format::Text && std::io::stdout().is_terminal() }
    }

    /// Writes a text for people.
    pub fn text(&self, text: &str) {
        if self.format == Format::Text {
            write(text);
        }
    }

    /// Writes a line of JSON.
    pub fn event(&self, event: &str, content: &impl Serialize) {
        if self.format == Format::Json {
            let mut line = serde_json::to_value(content).unwrap_or_default();
            line["event"] = event.into();
            write(&format!("{line}\n"));
        }
    }

    /// Reports how the demo has ended. In text, an error is on standard error.
    pub fn end(&self, result: Result<&(), String>) {
        match result {
            Ok(()) => self.event("end", &json!({})),
            Err(message) => self.event("fail", &json!({ "message": message })),
        }
    }

    /// Gives a person time to read.
    pub async fn pause(&self, time: Duration) {
        if self.interactive {
            tokio::time::sleep(time).await;
        }
    }

    /// A progress bar, which is visible on a terminal only.
    pub fn bar(&self, what: &'static str, of: u32) -> ProgressBar {
        if !self.interactive {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{msg:>12} {wide_bar} {pos}/{len} {per_sec}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(of.into()).with_style(style);
        bar.with_message(what).with_finish(ProgressFinish::AndClear)
    }
}

fn write(text: &str) {
    // Removes colours unless this is a terminal and NO_COLOR is not set.
    let mut out = anstream::stdout();
    // A reader that has closed the pipe does not want the rest.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The style of headings.
pub const TITLE: Style = AnsiColor::Cyan.on_default().bold();
pub const OBJECT: Style = Style::new().bold();
pub const GONE: Style = AnsiColor::Red.on_default();
pub const STAYS: Style = AnsiColor::Green.on_default();
pub const BAD: Style = AnsiColor::Yellow.on_default();
pub const QUIET: Style = Style::new().dimmed();

/// A text in a style.
pub struct Styled<T>(pub Style, pub T);

impl<T: Display> Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(style, text) = self;
        // Any client of the server can create objects, with any names.
        write!(f, "{style}{}{style:#}", Escaped(text))
    }
}

pub fn begin(endpoints: &Endpoints) -> String {
    format!(
        "{}\n\
         A Kubernetes API server and a garbage collector, both in this process.\n\
         Watch them in the browser: {}/\n\n",
        Styled(TITLE, "kube-gc demo"),
        endpoints.debug
    )
}

/// A line of the tree of owners and dependents, with a remark such as a second owner.
pub fn tree_line(prefix: &str, object: impl Display, note: &str) -> String {
    let note = if note.is_empty() {
        String::new()
    } else {
        format!("  {}", Styled(QUIET, format_args!("({note})")))
    };
    format!("{prefix}{}{note}\n", Styled(OBJECT, object))
}

/// The heading of a scenario, and what it is about.
pub fn heading(number: usize, of: usize, title: &str, about: &str) -> String {
    let title = Styled(TITLE, format_args!("{number}/{of}  {title}"));
    let about: String = wrapped(about, 92).iter().map(|line| format!("     {line}\n")).collect();
    format!("\n{title}\n{about}")
}

pub fn operation(operation: &str, command: Option<&str>) -> String {
    let command = command.map(|command| format!("  {}\n", Styled(QUIET, format_args!("$ {command}"))));
    format!("\n  {}\n{}", Styled(OBJECT, operation), command.unwrap_or_default())
}

/// A step, its reason, and its request.
pub fn step(step: &Step) -> String {
    let Step { milliseconds, object, action, outcome, finalizer, owners, request, error } = step;
    let (style, what) = match (*action, *outcome) {
        ("delete", "deleted") => (GONE, "is deleted".to_owned()),
        ("delete", "deletion_pending") => (GONE, "is being deleted and waits for its finalizers".to_owned()),
        ("remove_references", "patched") => {
            (STAYS, "loses the references to absent owners and stays".to_owned())
        }
        ("orphan", "patched") => (STAYS, "loses the reference to its owner and stays".to_owned()),
        ("remove_finalizer", "removed") => {
            (GONE, format!("loses the finalizer {}", finalizer.unwrap_or_default()))
        }
        _ => (BAD, format!("{action}: {outcome}")),
    };
    let mut text = format!("  {milliseconds:>7.1} ms  {} {}\n", Styled(OBJECT, object), Styled(style, what));
    text.extend(owners.iter().map(reason));
    // A finalizer is removed for other reasons than an owner.
    match finalizer {
        Some(FOREGROUND_FINALIZER) => text += &detail("no dependent blocks it any more"),
        Some(ORPHAN_FINALIZER) => text += &detail("no dependent refers to it any more"),
        _ => {}
    }
    text.extend(request.as_ref().map(sent));
    text.extend(error.as_ref().map(|error| detail(Styled(BAD, error))));
    text
}

/// A detail, below the object of a step.
fn detail(text: impl Display) -> String {
    format!("              {text}\n")
}

fn reason(Owner { object, class, evidence, asked }: &Owner) -> String {
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
    let mut text = detail(format_args!("its owner {} {known}", Escaped(object)));
    for Request { method, path, code, .. } in asked {
        text += &detail(Styled(QUIET, format_args!("{method} {path} -> {code}")));
    }
    text
}

fn sent(request: &Request) -> String {
    let Request { method, path, uid, resource_version, propagation_policy, code, milliseconds } = request;
    let mut text = detail(Styled(QUIET, format_args!("{method} {path} -> {code}, {milliseconds:.2} ms")));
    let uid = uid.as_ref().map(|uid| format!("uid {uid}"));
    let version = resource_version.as_ref().map(|version| format!("resourceVersion {version}"));
    let preconditions: Vec<String> = uid.into_iter().chain(version).collect();
    let mut options = Vec::new();
    if !preconditions.is_empty() {
        options.push(format!("preconditions: {}", preconditions.join(", ")));
    }
    options.extend(propagation_policy.as_ref().map(|policy| format!("propagationPolicy {policy}")));
    if !options.is_empty() {
        text += &detail(Styled(QUIET, options.join("; ")));
    }
    text
}

/// The result of a phase.
pub fn verified(steps: usize, milliseconds: f64, verified: &[String]) -> String {
    let steps = if steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") };
    format!("  {} in {milliseconds:.1} ms. On the server:\n{}", Styled(STAYS, steps), checked(verified))
}

/// What was verified, with marks.
pub fn checked(verified: &[String]) -> String {
    let mut text = String::new();
    for verified in verified {
        for (at, line) in wrapped(verified, 90).iter().enumerate() {
            let mark = if at == 0 { "✓" } else { " " };
            text.push_str(&format!("    {} {line}\n", Styled(STAYS, mark)));
        }
    }
    text
}

/// The cost of a load.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    pub objects: u32,
    pub policy: &'static str,
    /// The time to create all objects.
    pub seed_seconds: f64,
    /// The time from the DELETE of the owner until the last object is done.
    pub collect_seconds: f64,
    pub objects_per_second: f64,
    /// The collector's requests since the DELETE of the owner, without lists and watches.
    pub requests: u64,
    pub requests_per_object: f64,
    /// The memory of this process, in bytes, including the server.
    pub memory: Memory,
}

/// Resident memory at three times, in bytes; `None` where it cannot be read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    pub start: Option<u64>,
    pub full: Option<u64>,
    pub end: Option<u64>,
}

impl Load {
    pub fn text(&self) -> String {
        let Self { objects, policy, seed_seconds, collect_seconds, .. } = self;
        let Self { objects_per_second, requests, requests_per_object, memory, .. } = self;
        let title = format_args!("{objects} dependents of one owner, deleted with the policy {policy}");
        let bytes =
            |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        let [start, full, end] = [memory.start, memory.full, memory.end].map(bytes);
        format!(
            "{}\n  \
               created in             {seed_seconds:.2} s\n  \
               collected in           {collect_seconds:.2} s\n  \
               objects per second     {objects_per_second:.0}\n  \
               requests               {requests}, {requests_per_object:.3} per object\n  \
               memory of the process  {start} at the start, {full} with all objects, {end} at the end\n",
            Styled(TITLE, title)
        )
    }
}

/// How to continue: with the remaining objects of the shop, or in the namespace of the load.
pub fn keeps_running(endpoints: &Endpoints, loaded: bool) -> String {
    let Endpoints { server, health, debug, kubeconfig } = endpoints;
    let commands: &[&str] = if loaded {
        &["-n load create configmap mine", "-n load get configmaps", "delete namespace load"]
    } else {
        &[
            "-n shop get configmaps,replicasets,pods",
            "-n shop create configmap mine",
            "-n shop delete replicaset api-7c9d5f --cascade=foreground",
            "-n back-office get events",
        ]
    };
    let title = Styled(TITLE, "The demo keeps running. Continue in another terminal:");
    let mut text = format!("\n{title}\n");
    for command in commands {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  kubectl --kubeconfig {} {command}", kubeconfig.display());
    }
    text + &format!(
        "\n  \
           in the browser   {debug}/\n  \
           Kubernetes API   {server}\n  \
           metrics          {health}/metrics\n  \
           owner graph      {debug}/debug/graph\n  \
           work queues      {debug}/debug/queues\n\n\
         Press Ctrl-C to stop.\n"
    )
}

/// Breaks a text at its spaces into lines of at most this width.
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
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    fn plain(text: &str) -> String {
        strip_str(text).to_string()
    }

    fn owner(evidence: &str, asked: Vec<Request>) -> Owner {
        Owner { object: "Cart alice".into(), class: "absent".into(), evidence: evidence.into(), asked }
    }

    #[test]
    fn a_step_has_its_reason_its_request_and_its_error() {
        let request = |method: &str, path: &str, code| Request {
            method: method.to_owned(),
            path: path.to_owned(),
            code,
            ..Request::default()
        };
        let mut done = Step {
            milliseconds: 3.24,
            object: "Pod web-1".to_owned(),
            action: "delete",
            outcome: "deleted",
            owners: vec![owner("live", vec![request("GET", "/alice", 404)])],
            request: Some(Request {
                uid: Some("u".to_owned()),
                resource_version: Some("7".to_owned()),
                propagation_policy: Some("Background".to_owned()),
                milliseconds: 0.31,
                ..request("DELETE", "/web-1", 200)
            }),
            ..Step::default()
        };
        let text = step(&done);
        let expected = "      3.2 ms  Pod web-1 is deleted
              its owner Cart alice is absent: confirmed by the API server
              GET /alice -> 404
              DELETE /web-1 -> 200, 0.31 ms
              preconditions: uid u, resourceVersion 7; propagationPolicy Background
";
        assert_eq!(plain(&text), expected);
        assert_ne!(plain(&text), text, "on a terminal it has colours");
        done.owners = vec![owner("graph", Vec::new())];
        (done.outcome, done.request, done.error) = ("conflict", None, Some("409 Conflict".to_owned()));
        let expected = "      3.2 ms  Pod web-1 delete: conflict
              its owner Cart alice is absent: a watch has shown its deletion
              409 Conflict
";
        assert_eq!(plain(&step(&done)), expected);
    }

    #[test]
    fn the_suggested_commands_are_about_existing_objects() {
        let endpoints = Endpoints {
            server: "http://127.0.0.1:1".to_owned(),
            health: "http://127.0.0.1:2".to_owned(),
            debug: "http://127.0.0.1:3".to_owned(),
            kubeconfig: "/tmp/config".into(),
        };
        let [shop, load] = [false, true].map(|loaded| plain(&keeps_running(&endpoints, loaded)));
        let command = "\n  kubectl --kubeconfig /tmp/config -n";
        assert!(shop.contains(&format!("{command} shop get")) && !shop.contains("-n load"), "{shop}");
        assert!(load.contains(&format!("{command} load get")) && !load.contains("shop"), "{load}");
    }

    #[test]
    fn a_name_cannot_control_the_terminal() {
        let hostile = Owner { object: "Cart a\u{1b}[2Jb\nc".to_owned(), ..owner("graph", Vec::new()) };
        let shown = "its owner Cart a\\u{1b}[2Jb\\nc is absent: a watch has shown its deletion\n";
        assert_eq!(reason(&hostile).trim_start(), shown);
        assert_eq!(plain(&tree_line("", "Cart \u{1b}[2J", "")), "Cart \\u{1b}[2J\n");
    }
}
