//! Names of TLS suites, versions and groups. Upstream knows those of Go's library; the same names are taken here.
//!
//! upstream: component-base/cli/flag/ciphersuites_flag.go, curves_flag.go, Go 1.26 crypto/tls (v1.36).

use super::super::kubelet::KubeletConfiguration;
use super::super::nearest::nearest;
use super::Findings;

/// Every suite that upstream accepts, the insecure ones and two old names included.
const SUITES: [&str; 27] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

const VERSIONS: [&str; 4] = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];

/// P-256, P-384, P-521, X25519 and the three hybrids with ML-KEM.
const GROUPS: [i32; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

pub(super) fn check(config: &KubeletConfiguration, found: &mut Findings) {
    for suite in config.tls_cipher_suites.iter().filter(|suite| !SUITES.contains(&suite.as_str())) {
        let guess = nearest(suite, SUITES).map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        found.value("tlsCipherSuites (--tls-cipher-suites)", suite, format_args!("is not a known cipher suite{guess}"));
    }
    let version = config.tls_min_version.as_str();
    if !version.is_empty() && !VERSIONS.contains(&version) {
        let rule = format!("must be one of {}", VERSIONS.join(", "));
        found.value("tlsMinVersion (--tls-min-version)", format_args!("{version:?}"), rule);
    }
    for (at, group) in config.tls_curve_preferences.iter().enumerate() {
        if !GROUPS.contains(group) {
            let known = GROUPS.map(|group| group.to_string()).join(", ");
            found.value("tlsCurvePreferences", group, format_args!("must be one of {known}"));
        } else if config.tls_curve_preferences.iter().take(at).any(|earlier| earlier == group) {
            found.value("tlsCurvePreferences", group, "is listed twice");
        }
    }
}
