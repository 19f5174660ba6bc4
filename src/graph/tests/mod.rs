//! The rules one by one, each as a sentence; then all of them at once, against
//! random histories and a naive model.

mod attaching;
mod updates;
mod world;
