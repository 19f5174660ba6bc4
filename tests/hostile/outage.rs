//! The API server is away for a while.
