//! What only tests and fuzz targets call.

#[cfg(any(test, feature = "test-util"))]
pub mod encoder;
#[cfg(any(test, feature = "test-util"))]
pub mod fuzzing;
#[cfg(test)]
pub mod objects;
