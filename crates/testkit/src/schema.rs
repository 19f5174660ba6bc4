//! Checks JSON against a schema, by the keywords that the schemas of this repository use.

use serde_json::Value;

/// Fails unless a value fits a schema. An unknown keyword is a failure, too.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    fits(schema, value, schema, "$")
}

fn fits(schema: &Value, value: &Value, root: &Value, path: &str) -> Result<(), String> {
    let fail = |why: &str| Err(format!("{path}: {why}: {value}"));
    let list = |rule: &Value| rule.as_array().cloned().ok_or_else(|| format!("{path}: not a list"));
    for (keyword, rule) in schema.as_object().ok_or("a schema is an object")? {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let pointer =
                    rule.as_str().and_then(|text| text.strip_prefix('#')).ok_or("not a reference")?;
                fits(root.pointer(pointer).ok_or("a dangling reference")?, value, root, path)?;
            }
            "anyOf" if !list(rule)?.iter().any(|one| fits(one, value, root, path).is_ok()) => {
                return fail("fits none");
            }
            "anyOf" => {}
            "type" if !is_of_type(rule, value) => return fail("has another type"),
            "type" => {}
            "const" if rule != value => return fail("has another value"),
            "const" => {}
            "enum" if !list(rule)?.contains(value) => return fail("is not listed"),
            "enum" => {}
            "minimum" if value.as_f64() < rule.as_f64() => return fail("is too small"),
            "minimum" => {}
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    fits(rule, item, root, &format!("{path}[{index}]"))?;
                }
            }
            "required" => {
                let missing =
                    list(rule)?.into_iter().find(|name| value.get(name.as_str().unwrap_or("")).is_none());
                if let Some(name) = missing {
                    return fail(&format!("has no {name}"));
                }
            }
            "additionalProperties" => {
                let unknown = value.as_object().into_iter().flatten();
                if let Some((name, _)) =
                    unknown.into_iter().find(|(name, _)| schema["properties"].get(name).is_none())
                {
                    return fail(&format!("{name} is not in the schema"));
                }
            }
            "properties" => {
                for (name, schema) in rule.as_object().into_iter().flatten() {
                    if let Some(value) = value.get(name) {
                        fits(schema, value, root, &format!("{path}.{name}"))?;
                    }
                }
            }
            other => return Err(format!("the keyword {other} is not known")),
        }
    }
    Ok(())
}

fn is_of_type(rule: &Value, value: &Value) -> bool {
    match rule.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_found() {
        let schema = json!({
            "type": "object",
            "required": ["a"],
            "additionalProperties": false,
            "properties": { "a": { "enum": [1] }, "b": { "anyOf": [{ "type": "null" }, { "minimum": 3, "type": "integer" }] } },
        });
        for fits in [json!({ "a": 1 }), json!({ "a": 1, "b": null }), json!({ "a": 1, "b": 3 })] {
            check(&schema, &fits).unwrap();
        }
        for wrong in
            [json!([]), json!({}), json!({ "a": 2 }), json!({ "a": 1, "c": 0 }), json!({ "a": 1, "b": 2 })]
        {
            assert!(check(&schema, &wrong).is_err(), "{wrong}");
        }
        assert!(check(&json!({ "odd": 1 }), &json!(1)).is_err());
    }
}
