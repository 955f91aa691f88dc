//! The ports that a run listens on.

use std::io;
use std::net::{SocketAddr, TcpListener};

use super::Finding;

/// Two settings on one port, and ports that other processes have.
pub(super) fn findings(listen: &[(String, SocketAddr)]) -> Vec<Finding> {
    let mut found = shared(listen);
    found.extend(listen.iter().map(|(field, address)| port(field, *address)));
    found
}

/// Settings that ask for one port on addresses that overlap: only one of them gets it.
fn shared(listen: &[(String, SocketAddr)]) -> Vec<Finding> {
    let overlap = |one: &SocketAddr, other: &SocketAddr| {
        let (a, b) = (one.ip(), other.ip());
        one.port() == other.port() && (a == b || a.is_unspecified() || b.is_unspecified())
    };
    let mut found = Vec::new();
    for (index, (field, address)) in listen.iter().enumerate() {
        for (other, there) in listen.iter().skip(index + 1).filter(|(_, there)| overlap(address, there)) {
            let what = format!("{field} ({address}) and {other} ({there}) are the same port");
            let name = format!("port-{}", address.port());
            found.push(Finding::fail(&name, what, format!("set {field} or {other} to another port, or to 0 for none")));
        }
    }
    found
}

fn port(field: &str, address: SocketAddr) -> Finding {
    let name = format!("port-{}", address.port());
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok(&name, format!("{address} is free for {field}")),
        Err(err) if err.kind() == io::ErrorKind::AddrInUse => Finding::fail(
            &name,
            format!("{address} ({field}) is in use"),
            format!(
                "stop the process that listens there, perhaps another kubelet (`ss -ltnp 'sport = :{}'`), or change {field}",
                address.port()
            ),
        ),
        Err(err) => Finding::fail(
            &name,
            format!("{address} ({field}) cannot be listened on: {err}"),
            format!("change {field} or its address"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::Grade;
    use super::super::tests::{check, lines};
    use super::*;

    #[test]
    fn a_taken_port_names_the_field_that_asks_for_it() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        check(&port("healthzPort", address), Grade::Fail, "(healthzPort) is in use");
        drop(taken);
        check(&port("healthzPort", address), Grade::Ok, "is free for healthzPort");
    }

    #[test]
    fn two_settings_on_one_port_are_named_if_their_addresses_overlap() {
        let listen = |list: &[(&str, &str)]| {
            let of = |(field, address): &(&str, &str)| ((*field).to_owned(), address.parse().unwrap());
            lines(&shared(&list.iter().map(of).collect::<Vec<_>>()))
        };
        expect![[r#"
            Fail port-10250: healthzPort (127.0.0.1:10250) and port (0.0.0.0:10250) are the same port
              fix: set healthzPort or port to another port, or to 0 for none
        "#]]
        .assert_eq(&listen(&[("healthzPort", "127.0.0.1:10250"), ("port", "0.0.0.0:10250"), ("x", "0.0.0.0:1")]));
        assert_eq!(listen(&[("healthzPort", "127.0.0.1:10250"), ("port", "192.0.2.1:10250")]), "");
        assert_eq!(listen(&[("healthzPort", "127.0.0.1:10250"), ("port", "127.0.0.1:10251")]), "");
    }
}
