//! Why a command did not begin, or did not end well.

use super::Exit;

/// The exit code, and the reason for people.
#[derive(Debug)]
pub struct Failure {
    /// How the process is to end.
    pub exit: Exit,
    /// Why.
    pub message: String,
}

impl Failure {
    /// A failure with this reason.
    pub fn new(exit: Exit, message: impl std::fmt::Display) -> Self {
        Self { exit, message: message.to_string() }
    }

    /// Says it on standard error, where there is no log.
    #[expect(clippy::print_stderr, reason = "a person is waiting for the reason")]
    pub fn say(&self) -> Exit {
        eprintln!("kube-gc: {}", self.message);
        self.exit
    }
}
