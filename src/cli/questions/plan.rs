//! `kube-gc plan`: what happens to every object if some are deleted.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::arguments::{Auto, OBJECT, OUTPUT, ReachArgs, SOURCE, SourceArgs};
use super::{Failed, Format, ask, complete, framed, show, usage};
use crate::cli::exit::Exit;
use crate::cli::shared::Cascade;
use crate::cli::text::{Cell, Colour, Look, first, kubectl_names, line, plural};
use crate::insight::{ObjectArgument, PlanArgument, Source};
use kube_gc_config::{Loader, Settings};
use kube_gc_core::text::Thousands;
use kube_gc_core::text::escape::Escaped;
use kube_gc_insight::{Effect, Forecast, ObjectName, Plan, PlannedObject, TypeEffects, counted};

/// The end of `kube-gc plan --help`.
const EXAMPLES: &str = "\
Examples:
  What happens if a deployment is deleted?
    kube-gc plan deploy/web -n shop --cascade foreground

  What does kubectl delete -f take along?
    kube-gc plan -f release.yaml

  Each object that a definition takes along
    kube-gc plan crd/widgets.example.com -o wide

  Fail in a pipeline if more than 100 objects go
    kube-gc plan ns/old --fail-above 100

Nothing is deleted. The collector's own code decides what would happen.
docs/plan.md explains each part of the answer.";

/// The arguments of `kube-gc plan`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = crate::cli::exit::after(EXAMPLES, "plan"), next_help_heading = OBJECT)]
pub struct PlanArgs {
    /// The objects: TYPE/NAME, TYPE NAME or uid:UID, one or several; with -l, their types
    ///
    /// TYPE is a resource, a kind or a short name, and may have a version and a group:
    /// deploy, deployments.apps, deployments.v1.apps.
    #[arg(value_name = "OBJECT", required_unless_present = "filename")]
    objects: Vec<String>,

    /// Plan for the objects of TYPE with these labels, as in kubectl: app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "SELECTOR", requires = "objects", overrides_with = "selector")]
    selector: Option<String>,

    /// With -l, plan for the objects of all namespaces
    #[arg(short = 'A', long, requires = "selector", conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Plan for the objects that a manifest names, in YAML or JSON; - for standard input; repeatable
    ///
    /// Nothing but types, namespaces and names is read from it.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["objects", "selector"])]
    filename: Vec<PathBuf>,

    /// Namespace of the objects [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// How the objects would be deleted, as in kubectl delete
    ///
    /// Another deletion replaces the policy of one that has begun.
    #[arg(long, value_name = "POLICY", value_enum, default_value_t)]
    cascade: Cascade,

    /// Exit with 1 if more than this many objects are deleted, those named included
    #[arg(long, help_heading = OUTPUT, value_name = "COUNT")]
    fail_above: Option<usize>,

    /// Configuration file of the collector, to say whether its brake would engage
    ///
    /// A running collector knows its own limits, so this is for plans from lists.
    #[arg(long, help_heading = SOURCE, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Format of the plan
    ///
    /// docs/schemas/plan.json describes the JSON.
    #[arg(short, long, help_heading = OUTPUT, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    reach: ReachArgs,
}

impl PlanArgs {
    /// Plans a deletion.
    pub fn run(&self) -> Result<Exit, Failed> {
        let Self { reach, cascade, output, .. } = self;
        let objects = self.objects()?;
        // Before the file is read, which may be needless.
        let source = self.source(objects.len() == 1)?;
        let types = self.objects.iter().flat_map(|types| types.split(',')).map(str::to_owned).collect();
        let (settings, mut filter) = (self.settings()?, reach.filter());
        // The collector of this configuration deletes nothing that it ignores.
        let ignored = settings.iter().flat_map(|settings| &settings.discovery.ignored);
        filter.ignored.extend(ignored.map(ToString::to_string));
        let asked = PlanArgument {
            objects,
            is_manifest: !self.filename.is_empty(),
            selected: self.selector.clone().map(|selector| (types, selector)),
            everywhere: self.all_namespaces,
            policy: (*cascade).into(),
            filter,
            listed: if *output == Format::Table { NAMED } else { usize::MAX },
            brake: settings.map(|settings| settings.brake.limits()),
        };
        let (answer, note) = ask(
            &reach.connection(self.namespace.as_ref()),
            &source,
            async |session, collector| session.plan_from(collector, &asked).await,
            async |session| session.plan(&asked).await,
        )?;
        show(
            *output,
            ("Plan", &answer, (&answer.incomplete, answer.left_out)),
            || names(&answer.report),
            || {
                let look = reach.look(*output);
                let text = text(&answer.report, &look);
                framed(&text, (&answer.incomplete, answer.left_out), note.as_deref(), &look)
            },
        )?;
        Ok(self.judged(&answer.report))
    }

    /// The objects that are meant.
    fn objects(&self) -> Result<Vec<ObjectArgument>, Failed> {
        match self.selector.as_deref().map(str::trim) {
            Some(_) if self.objects.iter().any(|types| types.split(',').any(|of| of == "all")) => {
                return Err(usage(
                    "`all` stands for several types, which kubectl knows; use: kubectl get all -n NAMESPACE -l LABELS \
                     -o name | xargs kube-gc plan -n NAMESPACE",
                ));
            }
            Some("") => return Err(usage("-l names no labels; an example: -l app=web")),
            Some(_) => return Ok(Vec::new()),
            None => {}
        }
        let mut objects = ObjectArgument::read_all(&self.objects).map_err(usage)?;
        for path in &self.filename {
            let read = manifest(path).and_then(|text| ObjectArgument::read_manifest(&text));
            let read = read.and_then(|objects| objects.into_iter().map(|one| self.is_here(one)).collect());
            let read: Result<Vec<ObjectArgument>, String> = read;
            objects.extend(read.map_err(|why| usage(format!("{}: {why}", path.display())))?);
        }
        Ok(objects)
    }

    /// An object of a manifest, unless it is in another namespace than that of the command line.
    fn is_here(&self, object: ObjectArgument) -> Result<ObjectArgument, String> {
        let ObjectArgument::Named { namespace: Some(own), .. } = &object else { return Ok(object) };
        match &self.namespace {
            Some(asked) if *asked != *own.as_str() => Err(format!(
                "the namespace from the provided object \"{own}\" does not match the namespace \"{asked}\". You must \
                 pass '--namespace={own}' to perform this operation."
            )),
            _ => Ok(object),
        }
    }

    /// A collector has all types in its graph, and its own limits.
    fn source(&self, is_one: bool) -> Result<Source, Failed> {
        let of_lists = if !self.reach.filter().is_empty() {
            "--kinds and --exclude choose what is listed"
        } else if !is_one {
            "a collector plans for one object at a time"
        } else if self.config.is_some() {
            "--config has the limits of the brake, and a running collector knows its own"
        } else {
            return self.source.source(Auto::Lists);
        };
        self.source.only_lists(&format!("{of_lists}, so the plan needs --from lists"))
    }

    /// The settings of the collector, such as the limits of its brake. Without a file they are not known.
    fn settings(&self) -> Result<Option<Settings>, Failed> {
        let Some(file) = &self.config else { return Ok(None) };
        Loader::new().file(Some(file)).load().map(Some).map_err(usage)
    }

    /// What is certain comes first: too many is too many, whatever could not be looked at.
    #[expect(clippy::print_stderr, reason = "standard output is the plan")]
    fn judged(&self, plan: &Plan) -> Exit {
        if self.output == Format::Name && (plan.depends_on_unseen || !plan.refused.is_empty()) {
            eprintln!("{}", Escaped(&plan.verdict));
        }
        match (plan.exists, self.fail_above) {
            (Some(false), _) => Exit::NoSuchObject,
            (_, Some(most)) if plan.deletes > most => {
                eprintln!(
                    "{} would be deleted, more than --fail-above {most}.",
                    counted(plan.deletes, "object")
                );
                Exit::Failure
            }
            _ => complete(!plan.depends_on_unseen),
        }
    }
}

/// The most bytes of a manifest.
const LONGEST: u64 = 16 << 20;

fn manifest(path: &Path) -> Result<String, String> {
    if path.is_dir() {
        return Err("a directory is not read: name each file in it with -f".to_owned());
    }
    if path.to_str().is_some_and(|path| path.starts_with("http://") || path.starts_with("https://")) {
        return Err("a URL is not read: use curl, and -f - for standard input".to_owned());
    }
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text));
    match read.map_err(|error| error.to_string())? as u64 {
        0..=LONGEST => Ok(text),
        _ => Err(format!("a manifest has at most {LONGEST} bytes")),
    }
}

/// The most objects of a plan that is not wide, besides claims, namespaces and definitions.
const NAMED: usize = 20;

/// A plan for people: the verdict, the counts, the objects to look at, and what it cannot know.
fn text(plan: &Plan, look: &Look) -> String {
    let mut text = look.paint(Colour::Bold, &Escaped(&plan.verdict).to_string()) + "\n";
    let counts = ["TYPE", "DELETED", "HELD", "BLOCKS", "ORPHANED", "KEPT", "UNKNOWN"];
    look.section(&mut text, &counts.map(Some), plan.by_type.iter().map(count));
    let shown = shown(plan, look);
    let names = [Some("EFFECT"), Some("OBJECT"), look.wide.then_some("NAMESPACE"), Some("NOTE")];
    look.section(&mut text, &names, shown.iter().map(|object| row(object)));
    let rest = plan.objects.len() - shown.len() + plan.not_listed;
    if rest > 0 {
        let (go, them) = if rest == 1 { ("goes", "it") } else { ("go", "them") };
        let how = if look.wide { String::new() } else { format!(" (-o wide lists {them})") };
        // What is to be looked at comes first, so without it, everything simply goes, unless the brake holds it.
        text += &match (shown.is_empty(), &plan.brake) {
            (true, Forecast::Engaged { .. }) => format!("\n{}{how}.\n", counted(rest, "object")),
            (true, _) => format!("\n{} {go}{how}.\n", counted(rest, "object")),
            (false, _) => format!("And {}{how}.\n", counted(rest, "more object")),
        };
    }
    text.push('\n');
    let of_brake = |what: &str, why: &str| {
        look.paint(Colour::Red, &format!("The brake of the collector {what}: {}.", Escaped(why))) + "\n"
    };
    match &plan.brake {
        Forecast::Unknown | Forecast::Off => {}
        Forecast::Engaged { why } => text += &of_brake("is engaged", why),
        Forecast::Passes => text.push_str("The brake of the collector does not engage.\n"),
        Forecast::Engages { why } => text += &of_brake("engages", why),
    }
    for note in &plan.notes {
        line(&mut text, note);
    }
    text
}

fn count(of: &TypeEffects) -> [Cell; 7] {
    let number =
        |count: usize| Cell::new(if count == 0 { "-".to_owned() } else { Thousands(count).to_string() });
    let [deleted, held, blocks, orphaned, kept, unknown] =
        [of.deleted, of.held, of.blocks, of.orphaned, of.kept, of.unknown].map(number);
    [Cell::new(&of.resource), deleted, held, blocks, orphaned, kept, unknown]
}

/// The objects of a plan that people should look at; in a wide one, all.
fn shown<'a>(plan: &'a Plan, look: &Look) -> Vec<&'a PlannedObject> {
    if look.wide {
        return plan.objects.iter().collect();
    }
    let mut left = NAMED;
    let mut is_shown = |object: &&PlannedObject| {
        if object.is_precious() {
            return true;
        }
        let waits = !(object.after.is_empty() && object.perhaps_after.is_empty());
        let is_plain = object.effect == Effect::Deleted && !waits;
        if is_plain || left == 0 {
            return false;
        }
        left -= 1;
        true
    };
    plan.objects.iter().filter(|object| is_shown(object)).collect()
}

fn row(object: &PlannedObject) -> [Cell; 4] {
    let colour = match object.effect {
        Effect::Deleted => Colour::Yellow,
        Effect::Held | Effect::Blocks | Effect::Unknown => Colour::Red,
        Effect::Orphaned | Effect::Kept => Colour::Plain,
    };
    [
        Cell::new(object.effect.into_str()).coloured(colour),
        Cell::new(&object.name),
        Cell::new(object.name.namespace.as_deref().unwrap_or("-")),
        Cell::new(notes(object).join(", ")).coloured(Colour::Dim),
    ]
}

/// The most objects of one kind that a note names.
const NAMED_IN_A_NOTE: usize = 3;

/// What there is to say about an object.
fn notes(object: &PlannedObject) -> Vec<String> {
    let mut notes: Vec<String> = object.why.iter().cloned().collect();
    match (&object.finalizers, object.effect) {
        (None, _) => notes.push("finalizers that were not read".to_owned()),
        (Some(finalizers), Effect::Held | Effect::Unknown) if !finalizers.is_empty() => {
            let names = finalizers.iter().map(|finalizer| {
                let removal = finalizer.removal(" removes it").map(|removal| format!(" ({removal})"));
                finalizer.name.clone() + &removal.unwrap_or_default()
            });
            let names: Vec<String> = names.collect();
            notes.push(format!("{} {}", plural("finalizer", names.len()), first(&names)));
        }
        (Some(_), _) => {}
    }
    for (how, names) in [
        ("after", if object.effect == Effect::Kept { &[][..] } else { &object.after }),
        ("perhaps after", &object.perhaps_after),
        ("kept by", &object.kept_by),
        ("loses", &object.loses),
        ("goes with", object.within.as_slice()),
    ] {
        let name = |of: &ObjectName| match (&of.resource, &object.name.namespace) {
            (None, Some(_)) => format!("a reference to {of} ({} is not served)", of.api_version),
            _ if how == "loses" && object.after.contains(of) => format!("{of} when it is gone"),
            _ => of.to_string(),
        };
        // An answer has the first of each, so how many there are is not known.
        let rest = if names.len() > NAMED_IN_A_NOTE { ", and others" } else { "" };
        let names: Vec<_> = names.iter().take(NAMED_IN_A_NOTE).map(name).collect();
        if !names.is_empty() {
            notes.push(format!("{how} {}{rest}", names.join(", ")));
        }
    }
    notes
}

/// The names of the objects that are deleted.
fn names(plan: &Plan) -> String {
    let goes = |object: &&PlannedObject| match object.effect {
        Effect::Deleted | Effect::Held => true,
        // Only finalizers hold one without an owner that may go and take it along.
        Effect::Unknown => object.may_lose.is_empty(),
        Effect::Blocks | Effect::Orphaned | Effect::Kept => false,
    };
    kubectl_names(plan.objects.iter().filter(goes).map(|object| &object.name))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
