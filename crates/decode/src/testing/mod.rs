//! What only tests, fuzz targets and benchmarks call.

#[cfg(feature = "test-util")]
pub mod benching;
#[cfg(any(test, feature = "test-util"))]
pub mod encoder;
#[cfg(any(test, feature = "test-util"))]
pub mod fuzzing;
#[cfg(any(test, feature = "test-util"))]
pub mod naive;
#[cfg(test)]
pub mod objects;
