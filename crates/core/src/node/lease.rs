//! The node's lease: its heartbeat for the control plane (24.4).

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};

/// Where the leases of nodes are.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// A lease to create. It belongs to the node, so that it goes with it.
/// upstream: component-helpers/apimachinery/lease/controller.go newLease (v1.36)
pub fn node_lease(node: &Node, seconds: i32, now: Timestamp) -> Lease {
    let name = node.metadata.name.clone().unwrap_or_default();
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(LEASE_NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec { holder_identity: Some(name), ..LeaseSpec::default() }),
    };
    renewed_lease(lease, Some(node), seconds, now)
}

/// The lease, renewed. One without an owner gets the node as its owner, if that is known.
/// upstream: util/nodelease.go SetNodeOwnerFunc (v1.36)
///
/// The time of renewal never goes back: the control plane counts only a later one as a sign of life, and a clock that
/// was set back must not look like a dead node (upstream's does).
#[doc(alias = "SetNodeOwnerFunc")]
pub fn renewed_lease(mut lease: Lease, node: Option<&Node>, seconds: i32, now: Timestamp) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.lease_duration_seconds = Some(seconds);
    let next =
        spec.renew_time.take().and_then(|before| before.0.checked_add(jiff::SignedDuration::from_millis(1)).ok());
    spec.renew_time = Some(MicroTime(next.map_or(now, |next| next.max(now))));
    let owned = lease.metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
    if let Some(node) = node.filter(|_| !owned) {
        lease.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: node.metadata.name.clone().unwrap_or_default(),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        }]);
    }
    lease
}
