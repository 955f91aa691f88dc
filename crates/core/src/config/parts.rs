//! The nested objects of a configuration file.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Deserializer, Serialize};

use super::choices::{AuthorizationMode, Choice, SwapBehavior};
use super::duration::GoDuration;

/// Authentication for the node's own API. Each method is tried; without a match the caller is anonymous, if allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[doc(alias = "KubeletAuthentication")]
pub struct Authentication {
    /// By client certificate.
    pub x509: X509Authentication,
    /// By bearer token, asked of the API server.
    pub webhook: WebhookAuthentication,
    /// Anonymous requests.
    pub anonymous: AnonymousAuthentication,
}

/// Authentication by client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct X509Authentication {
    /// File of the trusted client CAs; empty for none.
    #[serde(rename = "clientCAFile", skip_serializing_if = "String::is_empty")]
    pub client_ca_file: String,
}

/// Authentication by bearer token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WebhookAuthentication {
    /// Whether tokens are reviewed by the API server.
    pub enabled: bool,
    /// How long an answer about a token is remembered.
    #[serde(rename = "cacheTTL")]
    pub cache_ttl: GoDuration,
}

impl Default for WebhookAuthentication {
    fn default() -> Self {
        Self { enabled: true, cache_ttl: GoDuration::mins(2) }
    }
}

/// Anonymous requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AnonymousAuthentication {
    /// Whether anonymous requests are allowed, as the user `system:anonymous`.
    pub enabled: bool,
}

/// Authorization for the node's own API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[doc(alias = "KubeletAuthorization")]
pub struct Authorization {
    /// How requests are authorized.
    pub mode: AuthorizationMode,
    /// How long decisions of the API server are remembered.
    pub webhook: WebhookAuthorization,
}

/// How long authorization answers are remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WebhookAuthorization {
    /// How long the answer "allowed" is remembered.
    #[serde(rename = "cacheAuthorizedTTL")]
    pub cache_authorized_ttl: GoDuration,
    /// How long the answer "not allowed" is remembered.
    #[serde(rename = "cacheUnauthorizedTTL")]
    pub cache_unauthorized_ttl: GoDuration,
}

impl Default for WebhookAuthorization {
    fn default() -> Self {
        Self { cache_authorized_ttl: GoDuration::mins(5), cache_unauthorized_ttl: GoDuration::secs(30) }
    }
}

/// What pods may do with swap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[doc(alias = "MemorySwapConfiguration")]
pub struct MemorySwap {
    /// None means `NoSwap`, but stays distinct: `/configz` shows the file's value.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "empty_is_none")]
    pub swap_behavior: Option<SwapBehavior>,
}

/// How long a crashing container waits before it is started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[doc(alias = "CrashLoopBackOffConfig")]
pub struct CrashLoopBackOff {
    /// The longest wait of a crashing container; none while the gate `KubeletCrashLoopBackOffMax` is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_container_restart_period: Option<GoDuration>,
}

impl Default for CrashLoopBackOff {
    fn default() -> Self {
        Self { max_container_restart_period: Some(GoDuration::secs(300)) }
    }
}

/// Grace at node shutdown for pods of a priority and above.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ShutdownGracePeriodByPodPriority {
    /// The lowest priority that the grace applies to.
    pub priority: i32,
    /// The grace in seconds.
    pub shutdown_grace_period_seconds: i64,
}

/// Memory kept free on one NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MemoryReservation {
    /// The NUMA node.
    pub numa_node: i32,
    /// How much of `memory` and of each `hugepages-<size>`.
    pub limits: BTreeMap<String, Quantity>,
}

/// A taint that the node registers with. Our own type because the file is read strictly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Taint {
    /// Key of the taint, a qualified name.
    pub key: String,
    /// Value of the taint, a label value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// Must be left out: the control plane sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

impl From<&Taint> for k8s_openapi::api::core::v1::Taint {
    fn from(taint: &Taint) -> Self {
        Self {
            key: taint.key.clone(),
            value: (!taint.value.is_empty()).then(|| taint.value.clone()),
            effect: taint.effect.clone(),
            time_added: None,
        }
    }
}

/// Where traces are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[doc(alias = "TracingConfiguration")]
pub struct Tracing {
    /// Collector's gRPC endpoint; none for `localhost:4317`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Traces kept out of a million; none for those that callers ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_rate_per_million: Option<i32>,
}

/// How user namespaces of pods are laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UserNamespaces {
    /// Ids per pod, a multiple of 65536; none for 65536.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids_per_pod: Option<i64>,
}

/// In a file, an empty string is the same as none.
pub(super) fn empty_is_none<'de, C: Choice, D: Deserializer<'de>>(deserializer: D) -> Result<Option<C>, D::Error> {
    let word = String::deserialize(deserializer)?;
    if word.is_empty() { Ok(None) } else { word.parse().map(Some).map_err(serde::de::Error::custom) }
}
