//! Compiles the `.proto` files with protox, so that no `protoc` has to be installed.

use std::error::Error;

/// The two files that declare the services; protox follows their imports.
const CRI: [&str; 2] = ["cri/runtime.proto", "cri/images.proto"];
/// Health checks of gRPC probes.
const HEALTH: &str = "health/health.proto";

/// These print through `Debug` implementations in `lib.rs` that hide what may be secret.
const SECRET: [&str; 2] = ["runtime.v1.AuthConfig", "runtime.v1.KeyValue"];

/// Large messages inside requests. A request is held several times over in the future of the call that carries it, which
/// took 40 KB for `CreateContainer` before these went behind pointers.
const BOXED: [&str; 4] = [
    ".runtime.v1.RunPodSandboxRequest.config",
    ".runtime.v1.CreateContainerRequest.config",
    ".runtime.v1.CreateContainerRequest.sandbox_config",
    ".runtime.v1.PullImageRequest.sandbox_config",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(CRI.into_iter().chain([HEALTH]), ["proto"])?;
    let builder = BOXED.into_iter().fold(tonic_prost_build::configure(), |builder, field| builder.boxed(field));
    builder
        // Connecting is the adapter's business: it knows sockets and deadlines.
        .build_transport(false)
        // An unset fake answers Unimplemented, as an old runtime does; a test then writes only the calls it is about.
        .generate_default_stubs(true)
        // Order is behaviour: the same configuration must always be the same bytes.
        .btree_map(".")
        .skip_debug(SECRET)
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}
