//! What a verbose status says beyond its fields.

use serde::Deserialize;

use crate::messages::StatusResponse;

/// The part of a runtime's configuration that is of use here.
#[derive(Deserialize)]
struct Config {
    #[serde(rename = "sandboxImage")]
    sandbox_image: Option<String>,
}

/// The image of sandboxes, as the runtime is configured with it. No container shows that this image is in
/// use, and older runtimes do not pin it.
///
/// containerd and CRI-O name it in their verbose status. The answer is `None` if a runtime does not.
#[must_use]
pub fn sandbox_image(status: &StatusResponse) -> Option<String> {
    let config: Config = serde_json::from_str(status.info.get("config")?).ok()?;
    config.sandbox_image.filter(|image| !image.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_read_if_it_is_there() {
        let image = |config: &str| {
            let info = [("config".to_owned(), config.to_owned())].into();
            sandbox_image(&StatusResponse { info, ..StatusResponse::default() })
        };
        assert_eq!(image(r#"{"containerd":{"x":[1]},"sandboxImage":"pause:3"}"#).as_deref(), Some("pause:3"));
        for nothing in
            ["", "{}", "[]", r#"{"sandboxImage":""}"#, r#"{"sandboxImage":7}"#, r#"{"sandboxImage":null}"#]
        {
            assert_eq!(image(nothing), None, "{nothing}");
        }
        assert_eq!(sandbox_image(&StatusResponse::default()), None);
    }
}
