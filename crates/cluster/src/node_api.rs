//! Ports for the Node object and its lease in the API server.

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use rubelet_core::node::LEASE_NAMESPACE;
use rubelet_engine::ports::{ApiError, LeaseApi, NodeApi};

use crate::api::{Client, PatchKind};

const NODES: &str = "/api/v1/nodes";

/// Node and lease requests over one client. The lease needs a client of its own: make two of these.
#[derive(Clone)]
pub struct ApiNode {
    client: Client,
}

impl ApiNode {
    /// Uses this client. Its deadline should not exceed the period of status reports or lease renewals (NODE-31).
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

fn node_path(name: &str) -> String {
    format!("{NODES}/{name}")
}

fn leases_path() -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases")
}

#[async_trait]
impl NodeApi for ApiNode {
    async fn get(&self, name: &str, fresh: bool) -> Result<Node, ApiError> {
        // Resource version 0 allows the server to answer from its cache.
        let query = if fresh { "" } else { "?resourceVersion=0" };
        self.client.get(&format!("{}{query}", node_path(name))).await
    }

    async fn create(&self, node: &Node) -> Result<Node, ApiError> {
        self.client.create(NODES, node).await
    }

    async fn patch(&self, name: &str, patch: &str) -> Result<Node, ApiError> {
        self.client.patch(&node_path(name), PatchKind::Strategic, patch).await
    }

    async fn patch_status(&self, name: &str, patch: &str) -> Result<Node, ApiError> {
        self.client.patch(&format!("{}/status", node_path(name)), PatchKind::Strategic, patch).await
    }
}

#[async_trait]
impl LeaseApi for ApiNode {
    async fn get(&self, name: &str) -> Result<Lease, ApiError> {
        self.client.get(&format!("{}/{name}", leases_path())).await
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.client.create(&leases_path(), lease).await
    }

    async fn update(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let name = lease.metadata.name.as_deref().unwrap_or_default();
        self.client.replace(&format!("{}/{name}", leases_path()), lease).await
    }
}
