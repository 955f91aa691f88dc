//! `ListImages`.

use rubelet_engine::ports::{Image, RpcError};
use rubelet_proto::cri;

use crate::connection::{Connection, collect};
use crate::from_wire::image;
use crate::metrics::Operation;

pub(crate) async fn list_images(connection: &Connection) -> Result<Vec<Image>, RpcError> {
    let (mut streaming, mut plain) =
        (connection.images(Operation::ListImages), connection.images(Operation::ListImages));
    let images = connection
        .list(
            Operation::ListImages,
            || async move {
                let stream = streaming.stream_images(cri::StreamImagesRequest { filter: None }).await?.into_inner();
                collect(stream, |message| message.images).await
            },
            || async move { Ok(plain.list_images(cri::ListImagesRequest { filter: None }).await?.into_inner().images) },
        )
        .await?;
    Ok(images.into_iter().map(image).collect())
}
