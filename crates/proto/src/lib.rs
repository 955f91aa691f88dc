//! Generated gRPC code. The `.proto` files under `proto/` are the source; the code written by hand names the modules
//! and keeps secrets out of `Debug`.

use std::fmt;

/// The container runtime interface, `runtime.v1`, as of Kubernetes 1.36: messages, clients and servers.
///
/// The servers are for tests; link-time optimisation drops them from the binary.
#[doc(alias = "cri-api")]
pub mod cri {
    tonic::include_proto!("runtime.v1");
}

/// Health checks, `grpc.health.v1`: the protocol of gRPC probes.
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}

/// Traces over OTLP, `opentelemetry.proto.collector.trace.v1`.
#[doc(alias = "otlptracegrpc")]
pub mod otlp {
    tonic::include_proto!("opentelemetry.proto.collector.trace.v1");
}

/// Profiles as pprof reads them, `perftools.profiles`.
pub mod pprof {
    tonic::include_proto!("perftools.profiles");
}

impl fmt::Debug for cri::AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthConfig")
            .field("username", &self.username)
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for cri::KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyValue").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::cri;

    #[test]
    fn debug_output_holds_no_secret() {
        let auth = cri::AuthConfig {
            username: "ann".to_owned(),
            password: "hush".to_owned(),
            auth: "hush".to_owned(),
            server_address: "example.com".to_owned(),
            identity_token: "hush".to_owned(),
            registry_token: "hush".to_owned(),
        };
        let pull = cri::PullImageRequest { auth: Some(auth), ..Default::default() };
        let env = cri::KeyValue { key: "TOKEN".to_owned(), value: b"hush".to_vec() };
        let container = cri::ContainerConfig { envs: vec![env], ..Default::default() };
        for text in [format!("{pull:?}"), format!("{container:?}")] {
            assert!(!text.contains("hush") && !text.contains("104, 117"), "{text}");
        }
    }
}
