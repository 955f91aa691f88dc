//! Images.

use rubelet_core::launch::ImageSpec;

use super::Rig;

fn missing() -> ImageSpec {
    ImageSpec { image: "localhost/contract/no-such-image:none".into(), ..ImageSpec::default() }
}

/// An image is found by name and by id, and is in the list.
pub async fn a_present_image_is_found(rig: &Rig) {
    let by_name = ImageSpec { image: rig.image.clone(), ..ImageSpec::default() };
    let image = rig.images.image_status(&by_name).await.expect("the status can be had").expect("it is here");
    assert!(!image.id.is_empty() && image.size > 0);
    let by_id = ImageSpec { image: image.id.clone(), ..ImageSpec::default() };
    let same = rig.images.image_status(&by_id).await.expect("the status can be had").expect("it is here");
    assert_eq!(same.id, image.id);
    let all = rig.images.list_images().await.expect("images can be listed");
    assert!(all.iter().any(|other| other.id == image.id));
}

/// A missing image is not an error.
pub async fn a_missing_image_is_none(rig: &Rig) {
    assert_eq!(rig.images.image_status(&missing()).await, Ok(None));
}

/// Removing a missing image succeeds.
pub async fn removing_a_missing_image_succeeds(rig: &Rig) {
    rig.images.remove_image(&missing()).await.expect("removing a missing image succeeds");
}

/// The runtime does not pull an image for a container.
pub async fn a_container_needs_its_image(rig: &Rig) {
    let sandbox = rig.run_sandbox(0).await;
    let mut config = rig.container_config("app", 0, &["sleep", "3600"]);
    config.image = missing();
    let made = rig.runtime.create_container(&sandbox, &config, &rig.sandbox_config(0)).await;
    made.expect_err("the image is not here");
    assert!(rig.look().await.containers.is_empty());
}

/// Image file systems are reported with their usage.
pub async fn image_usage_is_reported(rig: &Rig) {
    let usage = rig.images.image_fs_info().await.expect("image usage can be had");
    assert!(usage.iter().any(|fs| !fs.mountpoint.is_empty()));
}
