//! `PullImage`.

use rubelet_core::keyring::Login;
use rubelet_core::launch::{ImageSpec, SandboxConfig};
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::garbage;
use crate::metrics::Operation;
use crate::to_wire::{auth_config, image_spec, sandbox_config};

/// Has no deadline: an image may be large and the network slow (CRI-02). Dropping the future cancels the pull.
pub(crate) async fn pull_image(
    connection: &Connection,
    image: &ImageSpec,
    login: Option<&Login>,
    sandbox: Option<&SandboxConfig>,
) -> Result<String, RpcError> {
    let operation = Operation::PullImage;
    let request = cri::PullImageRequest {
        image: Some(image_spec(image)),
        auth: login.map(auth_config),
        sandbox_config: sandbox.map(|config| Box::new(sandbox_config(config))),
    };
    let mut client = connection.images(operation);
    let answer =
        connection.call(operation, None, request, |request| async move { client.pull_image(request).await }).await?;
    if answer.image_ref.is_empty() {
        return Err(garbage(operation, format!("no reference of image {:?} in the answer", image.image)));
    }
    Ok(answer.image_ref)
}
