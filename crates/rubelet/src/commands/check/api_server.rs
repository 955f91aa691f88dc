//! Checks the way to the API server: kubeconfig, bootstrap kubeconfig, and whether the server's address can be reached.

use std::path::{Path, PathBuf};

use rubelet_cluster::api::{Endpoint, Kubeconfig, KubeconfigError, ProxyEnvironment};
use rubelet_engine::chain::Chain;
use rubelet_linux::preflight::Finding;

use super::runtime::ANSWER_WITHIN;

const BY_KUBEADM: &str = "`kubeadm join` writes both; or copy a kubeconfig for this node there; or leave out --kubeconfig for a \
                          standalone node";

/// What was read of a kubeconfig.
#[derive(Debug)]
pub(super) enum Seen {
    /// Its flag is not set.
    NotSet,
    Absent(PathBuf),
    Bad(PathBuf, String),
    Good(Box<Good>),
}

/// A kubeconfig that can be parsed.
#[derive(Debug)]
pub(super) struct Good {
    path: PathBuf,
    pub(super) kubeconfig: Kubeconfig,
    /// Files that it refers to and that do not exist, with their fields.
    missing: Vec<(&'static str, PathBuf)>,
}

impl Seen {
    pub(super) fn read(path: &str) -> Self {
        if path.is_empty() {
            return Self::NotSet;
        }
        let path = PathBuf::from(path);
        match Kubeconfig::load(&path) {
            Ok(kubeconfig) => {
                let absent = |(_, path): &(&str, &Path)| !path.exists();
                let missing =
                    kubeconfig.files().into_iter().filter(absent).map(|(field, path)| (field, path.to_owned()));
                let missing = missing.collect();
                Self::Good(Box::new(Good { path, kubeconfig, missing }))
            }
            Err(KubeconfigError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Self::Absent(path)
            }
            Err(err) => Self::Bad(path, Chain(&err).to_string()),
        }
    }

    /// If it can be used.
    pub(super) fn good(&self) -> Option<&Good> {
        match self {
            Self::Good(good) => Some(good),
            Self::NotSet | Self::Absent(_) | Self::Bad(..) => None,
        }
    }
}

/// Both files. A run starts if one of them can be used (TLS-01).
pub(super) fn files(kubeconfig: &Seen, bootstrap: &Seen) -> Vec<Finding> {
    let mut found = vec![one(kubeconfig, bootstrap)];
    found.extend(boot(kubeconfig, bootstrap));
    found
}

fn one(kubeconfig: &Seen, bootstrap: &Seen) -> Finding {
    let (name, replaced) = ("kubeconfig", bootstrap.good().is_some());
    match kubeconfig {
        Seen::NotSet => Finding::ok(name, "--kubeconfig is not set: a standalone node"),
        Seen::Absent(path) if replaced => Finding::ok(
            name,
            format!("{} does not exist yet: it will be written from the bootstrap kubeconfig", path.display()),
        ),
        Seen::Absent(path) => {
            let what =
                format!("{} does not exist, and there is no bootstrap kubeconfig that could be used", path.display());
            Finding::fail(name, what, BY_KUBEADM)
        }
        Seen::Bad(path, why) if replaced => {
            let what = format!("{why}; it will be written again from the bootstrap kubeconfig");
            Finding::warn(name, what, format!("correct or remove {}", path.display()))
        }
        Seen::Bad(path, why) => Finding::fail(name, why.clone(), format!("correct {}: {BY_KUBEADM}", path.display())),
        Seen::Good(good) => {
            let (path, url) = (good.path.display(), good.kubeconfig.endpoint.url());
            let own = |field: &str| field.starts_with("client-");
            let lost: Vec<_> = good.missing.iter().filter(|(field, _)| !(replaced && own(field))).collect();
            if lost.is_empty() {
                return match good.missing.first() {
                    None => Finding::ok(name, format!("{path}: {url}")),
                    Some(_) => Finding::ok(name, format!("{path}: {url}; its certificate will be requested")),
                };
            }
            absent_files(name, &path.to_string(), &lost)
        }
    }
}

fn boot(kubeconfig: &Seen, bootstrap: &Seen) -> Option<Finding> {
    let name = "bootstrap";
    let needed = kubeconfig.good().is_none();
    Some(match bootstrap {
        Seen::NotSet => return None,
        _ if matches!(kubeconfig, Seen::NotSet) => {
            let mend = "set --kubeconfig to the file that shall be written from it";
            Finding::warn(name, "--bootstrap-kubeconfig has no effect without --kubeconfig", mend)
        }
        // The finding about the kubeconfig says so.
        Seen::Absent(_) if needed => return None,
        Seen::Absent(path) => Finding::ok(name, format!("{} does not exist, and is not needed now", path.display())),
        Seen::Bad(path, why) if needed => {
            Finding::fail(name, why.clone(), format!("correct {}: {BY_KUBEADM}", path.display()))
        }
        Seen::Bad(path, why) => {
            let what = format!("{why}; it is needed once the client certificate has expired");
            Finding::warn(name, what, format!("correct or remove {}", path.display()))
        }
        Seen::Good(good) => {
            let (path, url) = (good.path.display(), good.kubeconfig.endpoint.url());
            if good.missing.is_empty() {
                return Some(Finding::ok(name, format!("{path}: {url}")));
            }
            absent_files(name, &path.to_string(), &good.missing.iter().collect::<Vec<_>>())
        }
    })
}

fn absent_files(name: &str, path: &str, lost: &[&(&'static str, PathBuf)]) -> Finding {
    let list = lost.iter().map(|(field, path)| format!("{field} {}", path.display())).collect::<Vec<_>>().join(", ");
    let what = format!("{path} names files that do not exist: {list}");
    Finding::fail(name, what, format!("put the files there, or correct {path}"))
}

/// Whether a connection to the server of the kubeconfig that is used can be opened.
pub(super) async fn reach(kubeconfig: &Seen, bootstrap: &Seen) -> Option<Finding> {
    if matches!(kubeconfig, Seen::NotSet) {
        return None;
    }
    let used = kubeconfig.good().or(bootstrap.good())?;
    let proxy = ProxyEnvironment::read(|name| std::env::var(name).ok());
    let endpoint = match used.kubeconfig.endpoint.clone().with_environment(&proxy) {
        Ok(endpoint) => endpoint,
        Err(err) => {
            let mend = "correct HTTPS_PROXY in the environment of rubelet";
            return Some(Finding::fail("api-server", Chain(&err).to_string(), mend));
        }
    };
    Some(judge_connection(&endpoint, connect(&endpoint).await))
}

/// Opens a connection to the server or its proxy, and closes it.
async fn connect(endpoint: &Endpoint) -> Result<(), String> {
    let connected = tokio::time::timeout(ANSWER_WITHIN, tokio::net::TcpStream::connect(endpoint.dial_target())).await;
    match connected {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(err)) => Err(err.to_string()),
        Err(_) => Err(format!("no answer within {ANSWER_WITHIN:?}")),
    }
}

fn judge_connection(endpoint: &Endpoint, connected: Result<(), String>) -> Finding {
    let url = endpoint.url();
    match connected {
        Ok(()) => Finding::ok("api-server", format!("{url} can be reached")),
        Err(why) => {
            let (host, port) = endpoint.dial_target();
            let what = format!("{url} cannot be reached: connect to {host} port {port}: {why}");
            let mend = "see that the API server runs and that routes, firewalls and DNS lead to it, or correct `server` in the \
                        kubeconfig; until then the node runs its static pods";
            Finding::warn("api-server", what, mend)
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests::lines;
    use super::*;

    fn good(path: &str, missing: &[(&'static str, &str)]) -> Seen {
        let text = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://192.0.2.1:6443'}}]\n\
                    contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n";
        let kubeconfig = Kubeconfig::parse(text.as_bytes(), Path::new("/")).expect("it is usable");
        let missing = missing.iter().map(|(field, path)| (*field, PathBuf::from(path))).collect();
        Seen::Good(Box::new(Good { path: path.into(), kubeconfig, missing }))
    }

    fn absent(path: &str) -> Seen {
        Seen::Absent(path.into())
    }

    fn bad(path: &str) -> Seen {
        Seen::Bad(path.into(), format!("kubeconfig {path}: current-context is empty"))
    }

    #[test]
    fn a_node_starts_if_one_of_both_files_can_be_used() {
        let gone = [("client-certificate", "/pki/current.pem"), ("client-key", "/pki/current.pem")];
        let both = |kubeconfig: Seen, bootstrap: Seen| lines(&files(&kubeconfig, &bootstrap)) + "\n";
        let text = [
            both(Seen::NotSet, Seen::NotSet),
            both(good("/k", &[]), Seen::NotSet),
            both(good("/k", &[]), absent("/b")),
            both(absent("/k"), good("/b", &[])),
            both(good("/k", &gone), good("/b", &[])),
            both(bad("/k"), good("/b", &[])),
            both(good("/k", &[]), bad("/b")),
            both(Seen::NotSet, good("/b", &[])),
        ];
        expect![[r#"
            Ok kubeconfig: --kubeconfig is not set: a standalone node

            Ok kubeconfig: /k: https://192.0.2.1:6443

            Ok kubeconfig: /k: https://192.0.2.1:6443
            Ok bootstrap: /b does not exist, and is not needed now

            Ok kubeconfig: /k does not exist yet: it will be written from the bootstrap kubeconfig
            Ok bootstrap: /b: https://192.0.2.1:6443

            Ok kubeconfig: /k: https://192.0.2.1:6443; its certificate will be requested
            Ok bootstrap: /b: https://192.0.2.1:6443

            Warn kubeconfig: kubeconfig /k: current-context is empty; it will be written again from the bootstrap kubeconfig
              fix: correct or remove /k
            Ok bootstrap: /b: https://192.0.2.1:6443

            Ok kubeconfig: /k: https://192.0.2.1:6443
            Warn bootstrap: kubeconfig /b: current-context is empty; it is needed once the client certificate has expired
              fix: correct or remove /b

            Ok kubeconfig: --kubeconfig is not set: a standalone node
            Warn bootstrap: --bootstrap-kubeconfig has no effect without --kubeconfig
              fix: set --kubeconfig to the file that shall be written from it

        "#]]
        .assert_eq(&text.concat());
    }

    #[test]
    fn files_that_lead_nowhere_fail() {
        let gone = [("client-certificate", "/pki/current.pem"), ("certificate-authority", "/ca.crt")];
        let both = |kubeconfig: Seen, bootstrap: Seen| lines(&files(&kubeconfig, &bootstrap)) + "\n";
        let text = [
            both(absent("/k"), Seen::NotSet),
            both(absent("/k"), absent("/b")),
            both(bad("/k"), bad("/b")),
            both(good("/k", &gone), Seen::NotSet),
            both(good("/k", &gone), good("/b", &[])),
            both(absent("/k"), good("/b", &[("tokenFile", "/token")])),
        ];
        expect![[r#"
            Fail kubeconfig: /k does not exist, and there is no bootstrap kubeconfig that could be used
              fix: `kubeadm join` writes both; or copy a kubeconfig for this node there; or leave out --kubeconfig for a standalone node

            Fail kubeconfig: /k does not exist, and there is no bootstrap kubeconfig that could be used
              fix: `kubeadm join` writes both; or copy a kubeconfig for this node there; or leave out --kubeconfig for a standalone node

            Fail kubeconfig: kubeconfig /k: current-context is empty
              fix: correct /k: `kubeadm join` writes both; or copy a kubeconfig for this node there; or leave out --kubeconfig for a standalone node
            Fail bootstrap: kubeconfig /b: current-context is empty
              fix: correct /b: `kubeadm join` writes both; or copy a kubeconfig for this node there; or leave out --kubeconfig for a standalone node

            Fail kubeconfig: /k names files that do not exist: client-certificate /pki/current.pem, certificate-authority /ca.crt
              fix: put the files there, or correct /k

            Fail kubeconfig: /k names files that do not exist: certificate-authority /ca.crt
              fix: put the files there, or correct /k
            Ok bootstrap: /b: https://192.0.2.1:6443

            Ok kubeconfig: /k does not exist yet: it will be written from the bootstrap kubeconfig
            Fail bootstrap: /b names files that do not exist: tokenFile /token
              fix: put the files there, or correct /b

        "#]]
        .assert_eq(&text.concat());
    }

    #[test]
    fn a_kubeconfig_is_read_with_the_files_that_it_names() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("kubelet.conf");
        let read = || Seen::read(path.to_str().expect("a plain path"));
        assert!(matches!(read(), Seen::Absent(_)));
        std::fs::write(&path, "current-context: [").expect("written");
        assert!(matches!(read(), Seen::Bad(..)));
        let text = "clusters: [{name: c, cluster: {server: 'https://a', certificate-authority: ca.crt}}]\n\
                    contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n";
        std::fs::write(&path, text).expect("written");
        let missing = |seen: &Seen| seen.good().map(|good| good.missing.len());
        assert_eq!(missing(&read()), Some(1));
        std::fs::write(temp.path().join("ca.crt"), "").expect("written");
        assert_eq!(missing(&read()), Some(0));
    }

    #[tokio::test]
    async fn a_server_that_does_not_listen_is_a_warning() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let endpoint =
            Endpoint::new(&format!("https://{address}"), rubelet_cluster::api::Roots::System).expect("a server");
        let found = judge_connection(&endpoint, connect(&endpoint).await);
        assert_eq!(found.what, format!("https://{address} can be reached"));
        drop(listener);
        let found = judge_connection(&endpoint, connect(&endpoint).await);
        let expected = format!("https://{address} cannot be reached: connect to 127.0.0.1 port {}: ", address.port());
        assert!(found.what.starts_with(&expected), "{found:?}");
    }
}
