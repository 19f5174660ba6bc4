//! The two listeners of the real binary, with TLS, and with a real API server that says
//! who may read what.

mod access;
mod certificates;
mod client;
mod limits;
