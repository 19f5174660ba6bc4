//! Outages of the API server.

/// Kinds of outages of the API server. In all of them, open connections break when the outage
/// begins and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Connections are refused.
    Refused,
    /// Connections are accepted, and requests are never answered.
    Hanging,
    /// Every request is answered with 503.
    Unavailable,
}
