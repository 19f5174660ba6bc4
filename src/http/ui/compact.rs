//! Leaves out of the static files what only people read, when the binary is compiled: indentation,
//! empty lines, and lines that are comments, most of which are types.

/// Writes the compact form of a file as far as there is room, and returns its length. No file has
/// a line within a text that begins like a comment.
pub(super) const fn compact(source: &[u8], out: &mut [u8]) -> usize {
    let (mut at, mut length) = (0, 0);
    while at < source.len() {
        let mut end = at;
        while end < source.len() && source[end] != b'\n' {
            end += 1;
        }
        let mut start = at;
        while start < end && source[start] == b' ' {
            start += 1;
        }
        at = end + 1;
        if start == end || is_comment(source, start, end) {
            continue;
        }
        while start < at {
            if length < out.len() {
                out[length] = if start < end { source[start] } else { b'\n' };
            }
            length += 1;
            start += 1;
        }
    }
    length
}

/// Whether a line is nothing but a comment, or a part of one.
const fn is_comment(source: &[u8], start: usize, end: usize) -> bool {
    let first = source[start];
    let second = if start + 1 < end { source[start + 1] } else { b' ' };
    match (first, second) {
        (b'/', b'/') | (b'*', b' ' | b'/') => true,
        // Code follows after the type of an expression.
        (b'/', b'*') => !has_end(source, start, end) || (source[end - 2] == b'*' && source[end - 1] == b'/'),
        _ => false,
    }
}

const fn has_end(source: &[u8], start: usize, end: usize) -> bool {
    let mut at = start + 2;
    while at + 1 < end {
        if source[at] == b'*' && source[at + 1] == b'/' {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::compact;

    #[test]
    fn only_comments_and_indentation_are_left_out() {
        let source = b"// a\n\nconst a = 1; // b\n  /** c */\n  /** @type {D} */ (e).f();\n/**\n * g\n */\n*, ::h {\n  i: \"j  // k\";\n}";
        let expected = b"const a = 1; // b\n/** @type {D} */ (e).f();\n*, ::h {\ni: \"j  // k\";\n}\n";
        let mut out = vec![0; source.len() + 1];
        let length = compact(source, &mut out);
        assert_eq!(String::from_utf8_lossy(&out[..length]), String::from_utf8_lossy(expected));
        assert_eq!(compact(source, &mut []), length, "the length does not depend on the room");
        assert_eq!(compact(b"", &mut []), 0);
    }
}
