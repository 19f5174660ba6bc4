//! The command line.

/// How many worlds there are if nobody says: half a minute on two cores.
const DEFAULT: u64 = 1000;
/// The variable that says how many.
const VARIABLE: &str = "KUBE_GC_KUBELET_WORLDS";

/// What to do.
pub enum Options {
    /// Nothing: somebody lists tests, or looks for others.
    Nothing,
    /// The world of this seed, with everything that is in it.
    One(u64),
    /// So many worlds.
    Many(u64),
}

impl Options {
    /// Reads arguments and environment. What the harness of other tests takes is ignored.
    pub fn parse() -> Result<Self, String> {
        let mut worlds = match std::env::var(VARIABLE) {
            Ok(text) => number(VARIABLE, &text)?,
            Err(_) => DEFAULT,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a number"));
            match argument.as_str() {
                "--worlds" => worlds = number(&argument, &value()?)?,
                "--seed" => return Ok(Self::One(number(&argument, &value()?)?)),
                "--list" => return Ok(Self::Nothing),
                // A filter: these tests have one name.
                name if !name.starts_with('-') && !"kubelet".contains(name) => return Ok(Self::Nothing),
                _ => {}
            }
        }
        Ok(Self::Many(worlds))
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("{name}: {text:?} is not a whole number"))
}
