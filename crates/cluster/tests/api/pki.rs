//! A certificate authority for tests.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rubelet_cluster::api::Identity;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: CertificateDer<'static>,
}

pub(crate) struct Signed {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: Vec<u8>,
}

/// Validity of a certificate.
#[derive(Clone, Copy)]
pub(crate) enum Valid {
    Now,
    LongAgo,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    pub(crate) fn server(&self, name: &str, valid: Valid) -> Signed {
        self.sign(vec![name.to_owned()], "server", ExtendedKeyUsagePurpose::ServerAuth, valid)
    }

    pub(crate) fn client(&self, name: &str, valid: Valid) -> Signed {
        self.sign(Vec::new(), name, ExtendedKeyUsagePurpose::ClientAuth, valid)
    }

    fn sign(&self, names: Vec<String>, name: &str, usage: ExtendedKeyUsagePurpose, valid: Valid) -> Signed {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages.push(usage);
        if let Valid::LongAgo = valid {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        Signed { certificate, key: key.serialize_der() }
    }

    pub(crate) fn pem(&self) -> Vec<u8> {
        pem("CERTIFICATE", &self.certificate).into_bytes()
    }
}

impl Signed {
    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::new(vec![self.certificate.clone()], self.key())
    }

    /// Certificate and key in one text, as in `kubelet-client-current.pem`.
    pub(crate) fn pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate) + &pem("PRIVATE KEY", &self.key)
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let quoted = serde_json::to_string(&k8s_openapi::ByteString(der.to_vec())).unwrap();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", quoted.trim_matches('"'))
}
