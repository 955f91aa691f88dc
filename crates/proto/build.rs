//! Compiles the `.proto` files with protox, so that no `protoc` has to be installed.

use std::error::Error;

/// The two files that declare the services; protox follows their imports.
const CRI: [&str; 2] = ["cri/runtime.proto", "cri/images.proto"];
/// Health checks of gRPC probes.
const HEALTH: &str = "health/health.proto";
/// Traces over OTLP.
const OTLP: &str = "otlp/trace.proto";
/// Profiles.
const PPROF: &str = "pprof/profile.proto";

/// Messages with hand-written `Debug` implementations in `lib.rs` that hide secrets.
const SECRET: [&str; 2] = ["runtime.v1.AuthConfig", "runtime.v1.KeyValue"];

/// Large messages inside requests. The future of a call holds its request several times over, which took 40 KB for
/// `CreateContainer` before these were boxed.
const BOXED: [&str; 4] = [
    ".runtime.v1.RunPodSandboxRequest.config",
    ".runtime.v1.CreateContainerRequest.config",
    ".runtime.v1.CreateContainerRequest.sandbox_config",
    ".runtime.v1.PullImageRequest.sandbox_config",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(CRI.into_iter().chain([HEALTH, OTLP, PPROF]), ["proto"])?;
    let builder = BOXED.into_iter().fold(tonic_prost_build::configure(), |builder, field| builder.boxed(field));
    builder
        // The adapter connects: it knows sockets and deadlines.
        .build_transport(false)
        // An unset fake answers Unimplemented, as an old runtime does; a test then implements only the calls it needs.
        .generate_default_stubs(true)
        // Ordered maps: the same configuration must always have the same bytes.
        .btree_map(".")
        .skip_debug(SECRET)
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}
