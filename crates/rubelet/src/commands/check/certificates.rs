//! Checks certificates: the client certificate for the API server, the serving certificate of the node's API, and the
//! authorities whose clients it accepts. Each finding says how many days are left.

use std::io;
use std::path::Path;

use jiff::Timestamp;
use rubelet_cluster::api::{Kubeconfig, Pem};
use rubelet_cluster::certs::validities;
use rubelet_core::certs::{Phase, Purpose, Validity};
use rubelet_core::config::KubeletConfiguration;
use rubelet_engine::chain::Chain;
use rubelet_linux::preflight::Finding;

const DAY: i64 = 24 * 60 * 60;
/// A certificate with less time left than this gets a warning; one with a short life with less than this part of it.
const SOON_DAYS: i64 = 30;
const SOON_PART: i64 = 5;

const RENEW_CLIENT: &str = "set rotateCertificates: true; once it has expired, make a token with `kubeadm token create`, write it \
                            into the bootstrap kubeconfig and restart rubelet";
const RENEW_SERVING: &str = "approve its request (`kubectl get csr`), or put a new certificate there";
const RENEW_CA: &str = "put the cluster's current CA certificate into the file that clientCAFile names";

/// A file or text with certificates.
#[derive(Clone, Debug)]
struct Source<'a> {
    name: &'static str,
    origin: String,
    renew: &'static str,
    /// What is so if the file does not exist; `None` if it must exist.
    absent: Option<&'a str>,
}

/// All certificates that a run would use.
pub(super) fn findings(
    config: &KubeletConfiguration,
    kubeconfig: Option<&Kubeconfig>,
    cert_dir: &Path,
    now: Timestamp,
) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some((pem, _)) = kubeconfig.and_then(|kubeconfig| kubeconfig.user.certificate.as_ref()) {
        found.push(client(pem, now));
    }
    if config.enable_server {
        found.push(serving(config, kubeconfig.is_some(), cert_dir, now));
        let ca = &config.authentication.x509.client_ca_file;
        if !ca.is_empty() {
            let source = Source { name: "client-ca", origin: ca.clone(), renew: RENEW_CA, absent: None };
            found.push(judge(&source, read(Path::new(ca)), now));
        }
    }
    found
}

fn client(pem: &Pem, now: Timestamp) -> Finding {
    let name = "client-cert";
    let (origin, text) = match pem {
        Pem::Text(text) => ("the kubeconfig".to_owned(), Ok(Some(text.clone()))),
        Pem::File(path) => (path.display().to_string(), read(path)),
    };
    let absent = Some("it will be requested with the bootstrap kubeconfig");
    judge(&Source { name, origin, renew: RENEW_CLIENT, absent }, text, now)
}

/// As `cluster::serving` chooses it (TLS-02).
fn serving(config: &KubeletConfiguration, joined: bool, cert_dir: &Path, now: Timestamp) -> Finding {
    let named = !config.tls_cert_file.is_empty() && !config.tls_private_key_file.is_empty();
    let (path, absent) = if config.server_tls_bootstrap && joined {
        (
            cert_dir.join(format!("{}-current.pem", Purpose::Serving.file_prefix())),
            Some("it will be requested from the cluster"),
        )
    } else if named {
        (config.tls_cert_file.clone().into(), None)
    } else {
        (cert_dir.join("kubelet.crt"), Some("a self-signed one will be made"))
    };
    let origin = path.display().to_string();
    judge(&Source { name: "serving-cert", origin, renew: RENEW_SERVING, absent }, read(&path), now)
}

/// `None` if the file does not exist.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

fn judge(source: &Source<'_>, text: io::Result<Option<Vec<u8>>>, now: Timestamp) -> Finding {
    let (name, at) = (source.name, &source.origin);
    let text = match (text, source.absent) {
        (Ok(Some(text)), _) => text,
        (Ok(None), Some(absent)) => return Finding::ok(name, format!("{at} does not exist yet: {absent}")),
        (Ok(None), None) => return Finding::fail(name, format!("{at} does not exist"), source.renew),
        (Err(err), _) => return Finding::fail(name, format!("{at} cannot be read: {err}"), source.renew),
    };
    match validities(&text) {
        Ok(all) => life(source, &all, now),
        Err(err) => Finding::fail(name, format!("{at}: {}", Chain(&err)), source.renew),
    }
}

/// Judges the certificate that ends first. Of several in one file, such as an old and a new authority, one that is valid is
/// enough to go on.
fn life(source: &Source<'_>, all: &[Validity], now: Timestamp) -> Finding {
    let (name, at, renew) = (source.name, &source.origin, source.renew);
    let Some(first) = all.iter().min_by_key(|validity| validity.not_after) else {
        return Finding::fail(name, format!("{at}: there is no certificate in it"), renew);
    };
    let some_valid = all.iter().any(|validity| validity.at(now) == Phase::Valid);
    let until = first.not_after;
    let days = (until.as_second() - now.as_second()) / DAY;
    match first.at(now) {
        Phase::Expired if some_valid && name == "client-ca" => {
            Finding::warn(name, format!("{at}: one of {} certificates expired at {until}", all.len()), renew)
        }
        Phase::Expired => Finding::fail(name, format!("{at}: expired at {until}, {} days ago", -days), renew),
        Phase::Early => {
            let what = format!("{at}: valid from {} on, and the clock of this machine says {now}", first.not_before);
            Finding::fail(name, what, "set the clock of this machine right, or of that which made the certificate")
        }
        Phase::Valid => {
            let what = format!("{at}: {days} days left, until {until}");
            let life = until.as_second() - first.not_before.as_second();
            let soon = (SOON_DAYS * DAY).min(life / SOON_PART);
            if until.as_second() - now.as_second() < soon {
                Finding::warn(name, what, renew)
            } else {
                Finding::ok(name, what)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests::lines;
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn from_to(not_before: &str, not_after: &str) -> Validity {
        Validity { not_before: at(not_before), not_after: at(not_after) }
    }

    #[test]
    fn days_left_are_judged_by_thirty_days_or_a_fifth_of_a_short_life() {
        let source = |name| Source { name, origin: "/c.pem".to_owned(), renew: "renew it", absent: None };
        let now = at("2026-06-01T00:00:00Z");
        let judge = |name, all: &[Validity]| life(&source(name), all, now);
        let year = from_to("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
        let soon = from_to("2025-06-20T00:00:00Z", "2026-06-20T00:00:00Z");
        let week = from_to("2026-05-29T00:00:00Z", "2026-06-05T00:00:00Z");
        let week_soon = from_to("2026-05-26T00:00:00Z", "2026-06-02T00:00:00Z");
        let expired = from_to("2025-05-01T00:00:00Z", "2026-05-01T00:00:00Z");
        let early = from_to("2026-07-01T00:00:00Z", "2027-07-01T00:00:00Z");
        expect![[r#"
            Ok client-cert: /c.pem: 214 days left, until 2027-01-01T00:00:00Z
            Warn client-cert: /c.pem: 19 days left, until 2026-06-20T00:00:00Z
              fix: renew it
            Ok client-cert: /c.pem: 4 days left, until 2026-06-05T00:00:00Z
            Warn client-cert: /c.pem: 1 days left, until 2026-06-02T00:00:00Z
              fix: renew it
            Fail client-cert: /c.pem: expired at 2026-05-01T00:00:00Z, 31 days ago
              fix: renew it
            Fail client-cert: /c.pem: valid from 2026-07-01T00:00:00Z on, and the clock of this machine says 2026-06-01T00:00:00Z
              fix: set the clock of this machine right, or of that which made the certificate
            Fail client-cert: /c.pem: there is no certificate in it
              fix: renew it
            Warn client-ca: /c.pem: one of 2 certificates expired at 2026-05-01T00:00:00Z
              fix: renew it
        "#]]
        .assert_eq(&lines(&[
            judge("client-cert", &[year]),
            judge("client-cert", &[year, soon]),
            judge("client-cert", &[week]),
            judge("client-cert", &[week_soon]),
            judge("client-cert", &[expired]),
            judge("client-cert", &[early]),
            judge("client-cert", &[]),
            judge("client-ca", &[expired, year]),
        ]));
    }

    #[test]
    fn the_certificates_of_a_node_are_those_that_a_run_would_use() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path();
        let now = at("2026-06-01T00:00:00Z");
        let mut config = KubeletConfiguration::legacy_defaults();
        let joined = Kubeconfig::parse(
            b"clusters: [{name: c, cluster: {server: 'https://a'}}]\nusers: [{name: u, user: {client-certificate: c.pem, \
              client-key: c.pem}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
            dir,
        )
        .expect("it is usable");
        let mut text = lines(&findings(&config, None, dir, now)) + "\n";
        config.server_tls_bootstrap = true;
        std::fs::write(dir.join("kubelet-server-current.pem"), "no PEM").expect("written");
        config.authentication.x509.client_ca_file = dir.join("ca.crt").display().to_string();
        text += &(lines(&findings(&config, Some(&joined), dir, now)) + "\n");
        config.server_tls_bootstrap = false;
        config.tls_cert_file = dir.join("own.crt").display().to_string();
        config.tls_private_key_file = dir.join("own.key").display().to_string();
        text += &(lines(&findings(&config, None, dir, now)) + "\n");
        config.enable_server = false;
        assert_eq!(findings(&config, None, dir, now), []);
        expect![[r#"
            Ok serving-cert: TEMP/kubelet.crt does not exist yet: a self-signed one will be made

            Ok client-cert: TEMP/c.pem does not exist yet: it will be requested with the bootstrap kubeconfig
            Fail serving-cert: TEMP/kubelet-server-current.pem: there is no certificate in it
              fix: approve its request (`kubectl get csr`), or put a new certificate there
            Fail client-ca: TEMP/ca.crt does not exist
              fix: put the cluster's current CA certificate into the file that clientCAFile names

            Fail serving-cert: TEMP/own.crt does not exist
              fix: approve its request (`kubectl get csr`), or put a new certificate there
            Fail client-ca: TEMP/ca.crt does not exist
              fix: put the cluster's current CA certificate into the file that clientCAFile names

        "#]]
        .assert_eq(&text.replace(dir.to_str().expect("a plain path"), "TEMP"));
    }
}
