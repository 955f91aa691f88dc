//! The certificate of the node's own server.

/// A certificate and its key, as TLS needs them. Its `Debug` hides the key.
///
/// A server holds a `watch::Receiver<Option<Arc<ServingCert>>>`: `None` until there is one, and then handshakes fail
/// (TLS-02); each new handshake uses the newest.
#[derive(Clone, PartialEq, Eq)]
pub struct ServingCert {
    /// In DER: the certificate, then those that lead to its issuer.
    pub chain: Vec<Vec<u8>>,
    /// In DER: PKCS #8, PKCS #1 or SEC 1.
    pub key: Vec<u8>,
    /// When it will be rotated; `None` if others replace it, or nobody.
    pub renewal: Option<jiff::Timestamp>,
}

impl std::fmt::Debug for ServingCert {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServingCert").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}
