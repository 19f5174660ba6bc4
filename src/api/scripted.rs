//! A scripted API server for tests.
