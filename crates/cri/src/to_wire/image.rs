//! Image names and registry credentials.

use rubelet_core::launch::ImageSpec;
use rubelet_engine::ports::RegistryAuth;
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

pub(crate) fn auth_config(auth: &RegistryAuth) -> cri::AuthConfig {
    cri::AuthConfig {
        username: auth.username.clone(),
        password: auth.password.clone(),
        // User and password are sent separately.
        auth: String::new(),
        server_address: auth.server_address.clone(),
        identity_token: auth.identity_token.clone(),
        registry_token: auth.registry_token.clone(),
    }
}
