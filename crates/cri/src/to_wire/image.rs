//! Image names and registry credentials.

use rubelet_core::keyring::Login;
use rubelet_core::launch::ImageSpec;
use rubelet_proto::cri;

pub(crate) fn image_spec(image: &ImageSpec) -> cri::ImageSpec {
    cri::ImageSpec {
        image: image.image.clone(),
        annotations: image.annotations.clone(),
        user_specified_image: image.user_specified_image.clone(),
        runtime_handler: image.runtime_handler.clone(),
        image_ref: String::new(),
    }
}

pub(crate) fn auth_config(login: &Login) -> cri::AuthConfig {
    cri::AuthConfig { username: login.username.clone(), password: login.password.clone(), ..Default::default() }
}
