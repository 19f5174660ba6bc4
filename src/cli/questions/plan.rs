//! `kube-gc plan`: what happens to every object if one is deleted.

use std::path::PathBuf;

use clap::Args;

use super::arguments::{Auto, CommonArgs, SourceArgs};
use super::{Failed, Format, ask, complete, footer, show, usage};
use crate::cli::exit::Exit;
use crate::cli::shared::Cascade;
use crate::cli::text::{Cell, Colour, Look, first, kubectl_names, line, plural};
use crate::insight::{PlanArgument, Source};
use kube_gc_config::Loader;
use kube_gc_core::brake::Limits;
use kube_gc_core::text::Thousands;
use kube_gc_core::text::escape::Escaped;
use kube_gc_insight::{Effect, Forecast, ObjectName, Plan, PlannedObject, TypeEffects};

/// The end of `kube-gc plan --help`.
const EXAMPLES: &str = "\
Examples:
  What happens if a deployment is deleted?
    kube-gc plan deploy/web -n shop --cascade foreground

  Each object that a definition takes along
    kube-gc plan crd/widgets.example.com -o wide

  Fail in a pipeline if more than 100 objects go
    kube-gc plan ns/old --fail-above 100

Nothing is deleted. The collector's own code decides what would happen.
docs/plan.md explains each part of the answer.";

/// The arguments of `kube-gc plan`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = crate::cli::exit::after(EXAMPLES, "plan"))]
pub struct PlanArgs {
    #[command(flatten)]
    common: CommonArgs,

    #[command(flatten)]
    source: SourceArgs,

    /// How the object would be deleted, as in kubectl delete
    #[arg(long, value_name = "POLICY", value_enum, default_value_t)]
    cascade: Cascade,

    /// Exit with 1 if more than this many objects are deleted, the object itself included
    #[arg(long, value_name = "COUNT")]
    fail_above: Option<usize>,

    /// Configuration file of the collector, to say whether its brake would engage
    ///
    /// A running collector knows its own limits, so this is for plans from lists.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Format of the plan
    ///
    /// docs/schemas/plan.json describes the JSON.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

impl PlanArgs {
    /// Plans a deletion.
    pub fn run(&self) -> Result<Exit, Failed> {
        let Self { common, cascade, output, .. } = self;
        // Before the file is read, which may be needless.
        let source = self.source()?;
        let asked = PlanArgument {
            object: common.object()?,
            policy: (*cascade).into(),
            filter: common.reach.filter(),
            listed: if *output == Format::Table { NAMED } else { usize::MAX },
            brake: self.brake()?,
        };
        let (answer, note) = ask(
            &common.connection(),
            &source,
            async |session, collector| session.plan_from(collector, &asked).await,
            async |session| session.plan(&asked).await,
        )?;
        show(
            *output,
            ("Plan", &answer),
            || names(&answer.report),
            || {
                text(&answer.report, &common.reach.look(*output))
                    + &footer(&answer.incomplete, answer.left_out, note.as_deref())
            },
        )?;
        Ok(self.judged(&answer.report))
    }

    /// A collector has all types in its graph, and its own limits.
    fn source(&self) -> Result<Source, Failed> {
        let of_lists = if !self.common.reach.filter().is_empty() {
            "--kinds and --exclude choose what is listed"
        } else if self.config.is_some() {
            "--config has the limits of the brake, and a running collector knows its own"
        } else {
            return self.source.source(Auto::Lists);
        };
        self.source.only_lists(&format!("{of_lists}, so the plan needs --from lists"))
    }

    /// The limits of the brake. Without a file they are not known: the collector has its own.
    fn brake(&self) -> Result<Option<Limits>, Failed> {
        let Some(file) = &self.config else { return Ok(None) };
        let settings = Loader::new().file(Some(file)).load().map_err(usage)?;
        Ok(Some(settings.brake.limits()))
    }

    /// What is certain comes first: too many is too many, whatever could not be looked at.
    fn judged(&self, plan: &Plan) -> Exit {
        match (plan.exists, self.fail_above) {
            (Some(false), _) => Exit::NoSuchObject,
            (_, Some(most)) if plan.deletes > most => Exit::Failure,
            _ => complete(!plan.depends_on_unseen),
        }
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
        let how = if look.wide { "" } else { "; -o wide lists them" };
        line(&mut text, format_args!("and {} more objects{how}", Thousands(rest)));
    }
    text.push('\n');
    match &plan.brake {
        Forecast::Unknown | Forecast::Off => {}
        Forecast::Passes => text.push_str("The brake of the collector does not engage.\n"),
        Forecast::Engages { why } => {
            let engages = format!("The brake of the collector engages: {}.", Escaped(why));
            text += &(look.paint(Colour::Red, &engages) + "\n");
        }
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
        let is_plain = object.effect == Effect::Deleted && object.after.is_none();
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

/// What there is to say about an object.
fn notes(object: &PlannedObject) -> Vec<String> {
    let mut notes: Vec<String> = object.why.iter().cloned().collect();
    match (&object.finalizers, object.effect) {
        (None, _) => notes.push("finalizers that were not read".to_owned()),
        (Some(finalizers), Effect::Held | Effect::Unknown) if !finalizers.is_empty() => {
            let names = finalizers.iter().map(|finalizer| {
                let remover = finalizer.remover.as_ref().zip(finalizer.when.as_ref());
                let remover =
                    remover.map(|(remover, when)| format!(" ({remover} removes it as soon as {when})"));
                format!("{}{}", finalizer.name, remover.unwrap_or_default())
            });
            let names: Vec<String> = names.collect();
            notes.push(format!("{} {}", plural("finalizer", names.len()), first(&names)));
        }
        (Some(_), _) => {}
    }
    for (how, names) in [
        ("after", object.after.as_slice()),
        ("kept by", &object.kept_by),
        ("loses", &object.loses),
        ("goes with", object.within.as_slice()),
    ] {
        let names: Vec<String> = names.iter().map(ObjectName::to_string).collect();
        if !names.is_empty() {
            notes.push(format!("{how} {}", first(&names)));
        }
    }
    notes
}

/// The names of the objects that are deleted.
fn names(plan: &Plan) -> String {
    let goes = |object: &&PlannedObject| matches!(object.effect, Effect::Deleted | Effect::Held);
    kubectl_names(plan.objects.iter().filter(goes).map(|object| &object.name))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
