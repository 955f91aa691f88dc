//! `RemoveImage`.

use rubelet_core::launch::ImageSpec;
use rubelet_engine::ports::RpcError;
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::not_found_is_ok;
use crate::metrics::Operation;
use crate::to_wire::image_spec;

pub(crate) async fn remove_image(connection: &Connection, image: &ImageSpec) -> Result<(), RpcError> {
    let request = cri::RemoveImageRequest { image: Some(image_spec(image)) };
    let mut client = connection.images(Operation::RemoveImage);
    let answer = connection
        .call(Operation::RemoveImage, Some(connection.timeout()), request, |request| async move {
            client.remove_image(request).await
        })
        .await;
    not_found_is_ok(answer.map(|_| ()))
}
