//! The rules one by one, and all of them together against random histories and a naive model.

mod absence;
mod attaching;
mod catalogs;
mod dumps;
mod flooding;
mod foreground;
mod growth;
mod histories;
mod large;
mod listing;
mod members;
mod memory;
mod model;
mod restores;
mod shared_uids;
mod stuck;
mod updates;
mod views;
mod writes;
