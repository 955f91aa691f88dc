//! `Status` with details: the image of sandboxes, where the runtime says which one it is.

use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;
use serde_json::Value;

use crate::connection::Connection;
use crate::metrics::Operation;

/// containerd shows its configuration as JSON. Its versions from 1.7 on, and CRI-O, report the image as pinned instead.
pub(crate) async fn sandbox_image(connection: &Connection) -> Result<Option<String>, RpcError> {
    let mut client = connection.runtime(Operation::Status);
    let request = cri::StatusRequest { verbose: true };
    let answer =
        connection
            .call(Operation::Status, Some(connection.timeout()), request, |request| async move {
                client.status(request).await
            })
            .await?;
    Ok(answer.info.get("config").and_then(|config| named_in(config)))
}

fn named_in(config: &str) -> Option<String> {
    let config: Value = serde_json::from_str(config).ok()?;
    let image = config.get("sandboxImage")?.as_str()?;
    (!image.is_empty()).then(|| image.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_named_in_the_configuration_or_not_at_all() {
        for (config, expected) in [
            (r#"{"containerd": {}, "sandboxImage": "registry.k8s.io/pause:3.6"}"#, Some("registry.k8s.io/pause:3.6")),
            (r#"{"sandboxImage": ""}"#, None),
            (r#"{"sandboxImage": 7}"#, None),
            ("{}", None),
            ("no JSON", None),
        ] {
            assert_eq!(named_in(config).as_deref(), expected, "{config}");
        }
    }
}
