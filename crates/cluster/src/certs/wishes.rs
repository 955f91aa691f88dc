//! The required content of a certificate.

use k8s_openapi::api::core::v1::NodeAddress;
use rubelet_core::certs::{DnsOnly, Wish};
use tokio::sync::watch;

/// The required content of the certificate.
pub(super) enum Wishes {
    /// A constant.
    Fixed(Wish),
    /// The node's addresses, which may change.
    Addresses { node: String, addresses: watch::Receiver<Vec<NodeAddress>>, dns_only: DnsOnly },
}

impl Wishes {
    pub(super) fn now(&mut self) -> Option<Wish> {
        match self {
            Self::Fixed(wish) => Some(wish.clone()),
            Self::Addresses { node, addresses, dns_only } => {
                Wish::serving(node, &addresses.borrow_and_update(), *dns_only)
            }
        }
    }

    /// Waits until the content may have changed.
    pub(super) async fn changed(&mut self) {
        let over = match self {
            Self::Fixed(_) => true,
            Self::Addresses { addresses, .. } => addresses.changed().await.is_err(),
        };
        if over {
            std::future::pending().await
        }
    }
}

/// Waits until the required content differs from `wish`.
pub(super) async fn changed_wish(wishes: &mut Wishes, wish: &Wish) {
    loop {
        wishes.changed().await;
        if wishes.now().as_ref() != Some(wish) {
            return;
        }
    }
}
