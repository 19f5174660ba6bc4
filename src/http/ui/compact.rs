//! Leaves out of the static files what only people read, when the binary is compiled: indentation,
//! empty lines, and lines that are comments, most of which are types.

/// The compact form of a file. No file has a line within a text that begins like a comment.
pub fn compact(source: &[u8]) -> Vec<u8> {
    let mut compact = Vec::with_capacity(source.len());
    for line in source.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii_start();
        if !line.is_empty() && !is_comment(line) {
            compact.extend_from_slice(line);
            compact.push(b'\n');
        }
    }
    compact
}

/// Whether a line is nothing but a comment, or a part of one.
fn is_comment(line: &[u8]) -> bool {
    match line {
        [b'/', b'/', ..] | [b'*', b' ' | b'/', ..] | b"*" => true,
        // Code follows after the type of an expression.
        [b'/', b'*', rest @ ..] => rest.ends_with(b"*/") || !rest.windows(2).any(|pair| pair == b"*/"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::compact;

    #[test]
    fn only_comments_and_indentation_are_left_out() {
        let source = b"// a\n\nconst a = 1; // b\n  /** c */\n  /** @type {D} */ (e).f();\n/**\n * g\n */\n*, ::h {\n  i: \"j  // k\";\n}";
        let expected = b"const a = 1; // b\n/** @type {D} */ (e).f();\n*, ::h {\ni: \"j  // k\";\n}\n";
        assert_eq!(String::from_utf8_lossy(&compact(source)), String::from_utf8_lossy(expected));
        assert!(compact(b"").is_empty());
    }
}
