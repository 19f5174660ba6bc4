//! What this command line and that of the model in `crates/core`, which has this file, too, have in common.

use kube_gc_core::mutation::Mutation;

// What `cargo test` passes to every test binary. A doc comment would be printed as the description of the
// program.
#[derive(Clone, Debug, clap::Args)]
pub struct Cargo {
    #[arg(hide = true)]
    filter: Option<String>,
    #[arg(long, hide = true)]
    nocapture: bool,
    #[arg(long, hide = true)]
    list: bool,
    #[arg(long, hide = true)]
    exact: bool,
    #[arg(long, hide = true)]
    test_threads: Option<String>,
    #[arg(long, hide = true)]
    format: Option<String>,
    #[arg(long, hide = true)]
    ignored: bool,
}

impl Cargo {
    /// Whether it asks for tests other than this one, or only for their names.
    pub fn is_for_others(&self, name: &str) -> bool {
        self.list || self.ignored || self.filter.as_ref().is_some_and(|filter| !name.contains(&**filter))
    }
}

/// The deliberate mistake of this name.
pub fn mutation(text: &str) -> Result<Mutation, String> {
    let found = Mutation::ALL.iter().find(|mutation| format!("{mutation:?}") == text);
    found.copied().ok_or_else(|| format!("the mistakes are {:?}", Mutation::ALL))
}
