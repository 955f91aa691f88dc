//! The node's own API, and the host.

use rubelet_core::config::{AuthorizationMode, Choice};

use super::{Flag, Group, Kind};

/// An address, or nothing to leave it as it is.
fn address(target: &mut String, word: &str) -> Result<(), String> {
    if !word.is_empty() && word.parse::<std::net::IpAddr>().is_err() {
        return Err("must be an IP address".into());
    }
    if !word.is_empty() {
        word.clone_into(target);
    }
    Ok(())
}

pub(super) static FLAGS: &[Flag] = &[
    Flag::new("enable-server", Group::Server, Kind::Bool(|s| &mut s.config.enable_server), "Serve the node's own API.")
        .field("enableServer"),
    Flag::new(
        "address",
        Group::Server,
        Kind::Word {
            value_name: "IP",
            set: |s, word| address(&mut s.config.address, word),
            show: |s| s.config.address.clone(),
        },
        "Address to serve on; 0.0.0.0 or :: for all.",
    )
    .field("address"),
    Flag::new("port", Group::Server, Kind::Int32(|s| &mut s.config.port), "Port to serve on.").field("port"),
    Flag::new(
        "read-only-port",
        Group::Server,
        Kind::Int32(|s| &mut s.config.read_only_port),
        "Port to serve on without authentication; 0 for none.",
    )
    .field("readOnlyPort"),
    Flag::new(
        "healthz-bind-address",
        Group::Server,
        Kind::Word {
            value_name: "IP",
            set: |s, word| address(&mut s.config.healthz_bind_address, word),
            show: |s| s.config.healthz_bind_address.clone(),
        },
        "Address of the health endpoint.",
    )
    .field("healthzBindAddress"),
    Flag::new(
        "healthz-port",
        Group::Server,
        Kind::Int32(|s| &mut s.config.healthz_port),
        "Port of the health endpoint; 0 for none.",
    )
    .field("healthzPort"),
    Flag::new(
        "anonymous-auth",
        Group::Server,
        Kind::Bool(|s| &mut s.config.authentication.anonymous.enabled),
        "Allow anonymous requests, as system:anonymous.",
    )
    .field("authentication.anonymous.enabled"),
    Flag::new(
        "authentication-token-webhook",
        Group::Server,
        Kind::Bool(|s| &mut s.config.authentication.webhook.enabled),
        "Have bearer tokens reviewed by the API server.",
    )
    .field("authentication.webhook.enabled"),
    Flag::new(
        "authentication-token-webhook-cache-ttl",
        Group::Server,
        Kind::Duration(|s| &mut s.config.authentication.webhook.cache_ttl),
        "How long a token review is remembered.",
    )
    .field("authentication.webhook.cacheTTL"),
    Flag::new(
        "client-ca-file",
        Group::Server,
        Kind::Path(|s| &mut s.config.authentication.x509.client_ca_file),
        "CAs whose client certificates are trusted.",
    )
    .field("authentication.x509.clientCAFile"),
    Flag::new(
        "authorization-mode",
        Group::Server,
        Kind::Word {
            value_name: "MODE",
            set: |s, word| {
                s.config.authorization.mode = word.parse::<AuthorizationMode>().map_err(|e| e.to_string())?;
                Ok(())
            },
            show: |s| s.config.authorization.mode.word().to_owned(),
        },
        "AlwaysAllow, or Webhook to ask the API server.",
    )
    .field("authorization.mode"),
    Flag::new(
        "authorization-webhook-cache-authorized-ttl",
        Group::Server,
        Kind::Duration(|s| &mut s.config.authorization.webhook.cache_authorized_ttl),
        "How long \"allowed\" is remembered.",
    )
    .field("authorization.webhook.cacheAuthorizedTTL"),
    Flag::new(
        "authorization-webhook-cache-unauthorized-ttl",
        Group::Server,
        Kind::Duration(|s| &mut s.config.authorization.webhook.cache_unauthorized_ttl),
        "How long \"not allowed\" is remembered.",
    )
    .field("authorization.webhook.cacheUnauthorizedTTL"),
    Flag::new(
        "tls-cert-file",
        Group::Server,
        Kind::Path(|s| &mut s.config.tls_cert_file),
        "Serving certificate and its chain; without one it is self-signed into --cert-dir.",
    )
    .field("tlsCertFile"),
    Flag::new(
        "tls-private-key-file",
        Group::Server,
        Kind::Path(|s| &mut s.config.tls_private_key_file),
        "Key of --tls-cert-file.",
    )
    .field("tlsPrivateKeyFile"),
    Flag::new(
        "tls-cipher-suites",
        Group::Server,
        Kind::List(|s| &mut s.config.tls_cipher_suites),
        "Cipher suites offered, by IANA name.",
    )
    .field("tlsCipherSuites"),
    Flag::new(
        "tls-min-version",
        Group::Server,
        Kind::Text(|s| &mut s.config.tls_min_version),
        "Oldest TLS version: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13.",
    )
    .field("tlsMinVersion"),
    Flag::new(
        "rotate-certificates",
        Group::Server,
        Kind::Bool(|s| &mut s.config.rotate_certificates),
        "Renew the client certificate before it expires.",
    )
    .field("rotateCertificates"),
    Flag::new(
        "rotate-server-certificates",
        Group::Server,
        Kind::Bool(|s| &mut s.config.server_tls_bootstrap),
        "Request the serving certificate from the cluster and renew it.",
    )
    .field("serverTLSBootstrap"),
    Flag::new(
        "streaming-connection-idle-timeout",
        Group::Server,
        Kind::Duration(|s| &mut s.config.streaming_connection_idle_timeout),
        "How long exec, attach and port-forward may be silent; 0 for ever.",
    )
    .field("streamingConnectionIdleTimeout"),
    Flag::new(
        "enable-debugging-handlers",
        Group::Server,
        Kind::Bool(|s| &mut s.config.enable_debugging_handlers),
        "Serve logs, exec, attach, port-forward and debugging.",
    )
    .field("enableDebuggingHandlers"),
    Flag::new(
        "contention-profiling",
        Group::Server,
        Kind::Bool(|s| &mut s.config.enable_contention_profiling),
        "Profile lock contention.",
    )
    .field("enableContentionProfiling"),
    Flag::new(
        "fail-swap-on",
        Group::Host,
        Kind::Bool(|s| &mut s.config.fail_swap_on),
        "Refuse to start on a host with swap.",
    )
    .field("failSwapOn"),
    Flag::new(
        "fail-cgroupv1",
        Group::Host,
        Kind::Bool(|s| &mut s.config.fail_cgroup_v1),
        "Refuse to start on cgroup v1.",
    )
    .also("failCgroupV1"),
    Flag::new(
        "protect-kernel-defaults",
        Group::Host,
        Kind::Bool(|s| &mut s.config.protect_kernel_defaults),
        "Refuse to start rather than set kernel tunables.",
    )
    .field("protectKernelDefaults"),
    Flag::new(
        "make-iptables-util-chains",
        Group::Host,
        Kind::Bool(|s| &mut s.config.make_iptables_util_chains),
        "Keep rubelet's iptables chains in place.",
    )
    .field("makeIPTablesUtilChains"),
    Flag::new(
        "oom-score-adj",
        Group::Host,
        Kind::Int32(|s| &mut s.config.oom_score_adj),
        "rubelet's own oom_score_adj, -1000 to 1000.",
    )
    .field("oomScoreAdj"),
    Flag::new(
        "max-open-files",
        Group::Host,
        Kind::Int64(|s| &mut s.config.max_open_files),
        "Files that rubelet may open.",
    )
    .field("maxOpenFiles"),
    Flag::new(
        "housekeeping-interval",
        Group::Host,
        Kind::Duration(|s| &mut s.flags.housekeeping_interval),
        "How often container statistics are refreshed.",
    ),
];
