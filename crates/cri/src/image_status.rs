//! `ImageStatus`.

use rubelet_core::launch::ImageSpec;
use rubelet_engine::ports::{Image, RpcError, RpcErrorKind};
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::garbage;
use crate::from_wire::image;
use crate::metrics::Operation;
use crate::to_wire::image_spec;

/// `None` if the image is not present: most runtimes answer without an image, some with "not found".
pub(crate) async fn image_status(connection: &Connection, spec: &ImageSpec) -> Result<Option<Image>, RpcError> {
    let operation = Operation::ImageStatus;
    let request = cri::ImageStatusRequest { image: Some(image_spec(spec)), verbose: false };
    let mut client = connection.images(operation);
    let answer =
        connection
            .call(operation, Some(connection.timeout()), request, |request| async move {
                client.image_status(request).await
            })
            .await;
    let found = match answer {
        Ok(answer) => answer.image,
        Err(err) if err.kind == RpcErrorKind::NotFound => None,
        Err(err) => return Err(err),
    };
    let Some(found) = found else { return Ok(None) };
    // upstream: cri-client remote_image.go ImageStatus (v1.36)
    if found.id.is_empty() || found.size == 0 {
        return Err(garbage(operation, format!("the status of image {:?} has no id or no size", spec.image)));
    }
    Ok(Some(image(found)))
}
