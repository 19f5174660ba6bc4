//! Parses HTTP requests.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, USER_AGENT};
use http_body_util::BodyExt as _;

use crate::call::Call;

/// Reads and parses a request.
pub(super) async fn read<B>(request: http::Request<B>) -> Result<Call, &'static str>
where
    B: http_body::Body<Data = Bytes>,
{
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "the body of the request could not be read")?.to_bytes();
    let content_type = header(&parts.headers, &CONTENT_TYPE);
    let media = content_type.split(';').next().unwrap_or_default();
    Ok(Call {
        path: decode(parts.uri.path(), false),
        query: parts.uri.query().map(pairs).unwrap_or_default(),
        accept: header(&parts.headers, &ACCEPT),
        content_type: media.trim().to_owned(),
        user_agent: header(&parts.headers, &USER_AGENT),
        token: token(&parts.headers),
        method: parts.method,
        body,
    })
}

fn token(headers: &HeaderMap) -> String {
    let credentials = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match credentials.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim().to_owned(),
        _ => String::new(),
    }
}

/// The values of a header that may be repeated, joined.
fn header(headers: &HeaderMap, name: &HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(", ")
}

fn pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name, true), decode(value, true))
        })
        .collect()
}

/// Decodes percent-encoding and, in queries, `+` as a space. Malformed sequences stay as they are.
fn decode(text: &str, plus: bool) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let digit =
        |byte: Option<&u8>| char::from(*byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high << 4 | low);
                at += 2;
            }
            (b'+', ..) if plus => decoded.push(b' '),
            _ => decoded.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_undone() {
        assert_eq!(decode("/api/v1/a%2Fb%20c+d", false), "/api/v1/a/b c+d");
        assert_eq!(decode("n+in+%281%2c2%29", true), "n in (1,2)");
        assert_eq!(decode("100%, %zz, %4", true), "100%, %zz, %4");
    }

    #[test]
    fn only_a_bearer_token_is_a_token() {
        let shown = |credentials: &str| {
            let value = credentials.parse().unwrap();
            token(&HeaderMap::from_iter([(AUTHORIZATION, value)]))
        };
        assert_eq!([shown("Bearer abc"), shown("bearer  abc")], ["abc", "abc"]);
        assert_eq!([shown("Basic abc"), shown("abc"), token(&HeaderMap::new())], ["", "", ""]);
    }

    #[test]
    fn a_query_is_pairs_in_order() {
        let expected = [("watch", ""), ("a", "b=c"), ("a", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(pairs("watch&a=b%3Dc&&a="), expected);
    }
}
