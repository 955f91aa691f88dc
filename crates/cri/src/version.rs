//! `Version`: the runtime's name and version, and whether its API version is supported.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rubelet_core::time::Instant;
use rubelet_engine::ports::{RpcError, RpcErrorKind, RuntimeVersion};
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::error::{garbage, rpc_error};
use crate::metrics::Operation;

/// The kubelet's own runtime API version, which a runtime must repeat (CRI-01).
#[doc(alias = "kubeRuntimeAPIVersion")]
const API_VERSION: &str = "0.1.0";
/// How long an answer is cached: a version changes only with a restart of the runtime (CRI-04).
#[doc(alias = "versionCacheTTL")]
const KEPT: Duration = Duration::from_secs(60);

/// The last answer and its time.
#[derive(Default)]
pub(crate) struct VersionCache {
    last: Mutex<Option<(Instant, RuntimeVersion)>>,
}

impl VersionCache {
    pub(crate) async fn get(&self, connection: &Connection) -> Result<RuntimeVersion, RpcError> {
        let now = connection.now();
        if let Some((at, version)) = self.last.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
            && now.since(*at) < KEPT
        {
            return Ok(version.clone());
        }
        let version = version(connection).await?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, version.clone()));
        Ok(version)
    }
}

async fn version(connection: &Connection) -> Result<RuntimeVersion, RpcError> {
    let operation = Operation::Version;
    let request = cri::VersionRequest { version: API_VERSION.to_owned() };
    let mut client = connection.runtime(operation);
    let answer = connection
        .call(operation, Some(connection.timeout()), request, |request| async move { client.version(request).await })
        .await
        .map_err(explain_unimplemented)?;
    let fields = [
        (&answer.version, "version"),
        (&answer.runtime_name, "runtime name"),
        (&answer.runtime_version, "runtime version"),
        (&answer.runtime_api_version, "runtime API version"),
    ];
    if let Some((_, missing)) = fields.into_iter().find(|(value, _)| value.is_empty()) {
        return Err(garbage(operation, format!("the runtime's answer has no {missing}")));
    }
    if answer.version != API_VERSION {
        let detail =
            format!("the runtime wants kubelet API version {}, only {API_VERSION} is supported", answer.version);
        return Err(rpc_error(operation, RpcErrorKind::Failed, detail));
    }
    Ok(RuntimeVersion {
        name: answer.runtime_name,
        version: answer.runtime_version,
        api_version: answer.runtime_api_version,
    })
}

/// A containerd whose CRI plugin is disabled answers "unknown service"; the error names the likely cause.
fn explain_unimplemented(err: RpcError) -> RpcError {
    if err.kind != RpcErrorKind::Unimplemented {
        return err;
    }
    let detail = format!("the runtime does not serve CRI v1 (is its CRI plugin disabled?): {}", err.detail);
    RpcError { detail, ..err }
}
