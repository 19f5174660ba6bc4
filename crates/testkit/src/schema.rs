//! Checks JSON against a schema.

use serde_json::Value;

/// Fails unless a value fits a schema, or if the schema is none.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    jsonschema::meta::validate(schema).map_err(|error| format!("not a schema: {error}"))?;
    let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
    let errors = validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path()));
    let errors: Vec<String> = errors.collect();
    if errors.is_empty() { Ok(()) } else { Err(format!("{}\n{value}", errors.join("\n"))) }
}
