//! Why an API server cannot be connected to.

/// Why no connection to an API server can be set up.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no configuration, or it cannot be used.
    #[error("{0}")]
    Config(String),
    /// The configuration cannot be turned into a client.
    #[error("cannot set up the connection to {server}: {cause}")]
    Client {
        /// The server's URL.
        server: String,
        /// The cause.
        cause: String,
    },
}

/// Why there are no credentials. The message contains no part of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CredentialsError(String);

impl CredentialsError {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// The same with what it is about.
    pub fn of(self, what: &str) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}
