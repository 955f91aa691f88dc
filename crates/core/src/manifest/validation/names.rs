//! What names, keys, addresses and paths may look like.
//!
//! upstream: apimachinery/pkg/util/validation, pkg/api/validate/content (v1.36)

use std::net::{IpAddr, Ipv4Addr};

type Verdict = Result<(), &'static str>;

const SUBDOMAIN_LENGTH: usize = 253;
const LABEL_LENGTH: usize = 63;
const PORT_NAME_LENGTH: usize = 15;

fn lower_alnum(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Begins and ends with `end`, and consists of `inner`.
fn is_word(text: &str, end: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    text.bytes().next().is_some_and(end) && text.bytes().last().is_some_and(end) && text.bytes().all(inner)
}

fn is_dns_label(text: &str) -> bool {
    is_word(text, lower_alnum, |byte| lower_alnum(byte) || byte == b'-')
}

pub(super) fn dns_label(text: &str) -> Verdict {
    if text.len() > LABEL_LENGTH {
        return Err("must be at most 63 characters");
    }
    if is_dns_label(text) {
        return Ok(());
    }
    Err("must be lower case letters, digits and '-', beginning and ending with a letter or digit")
}

pub(super) fn dns_subdomain(text: &str) -> Verdict {
    if text.len() > SUBDOMAIN_LENGTH {
        return Err("must be at most 253 characters");
    }
    if text.split('.').all(is_dns_label) {
        return Ok(());
    }
    Err("must be lower case letters, digits, '-' and '.', each part beginning and ending with a letter or digit")
}

/// The name of an object, or the beginning of one: upstream checks some names as if they were completed later.
pub(super) fn dns_subdomain_prefix(text: &str) -> Verdict {
    dns_subdomain(&masked(text))
}

/// A prefix may end in a dash; what it is completed to may not.
fn masked(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut chars = rest.chars();
            chars.next_back();
            format!("{}a", chars.as_str())
        }
        Some(_) | None => prefix.to_owned(),
    }
}

/// A DNS search path: `.` alone, or a subdomain whose labels may hold underscores.
pub(super) fn dns_search(text: &str) -> Verdict {
    if text == "." {
        return Ok(());
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > SUBDOMAIN_LENGTH {
        return Err("must be at most 253 characters");
    }
    let is_label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        is_word(label, lower_alnum, |byte| lower_alnum(byte) || matches!(byte, b'-' | b'_'))
    };
    if text.split('.').all(is_label) { Ok(()) } else { Err("must be a domain name in lower case") }
}

fn is_label_word(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    is_word(text, |byte| byte.is_ascii_alphanumeric(), inner)
}

/// A label key and whatever else has the form `[domain/]name`.
pub(super) fn qualified_name(text: &str) -> Verdict {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if prefix.is_some_and(|prefix| dns_subdomain(prefix).is_err()) {
        return Err("must have a domain name in lower case before the '/'");
    }
    if name.len() > LABEL_LENGTH {
        return Err("must have at most 63 characters in its name part");
    }
    if is_label_word(name) {
        return Ok(());
    }
    Err("must be letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, \
         with an optional domain and '/' before them")
}

pub(super) fn label_value(text: &str) -> Verdict {
    if text.len() > LABEL_LENGTH {
        return Err("must be at most 63 characters");
    }
    if text.is_empty() || is_label_word(text) {
        return Ok(());
    }
    Err("must be empty or letters, digits, '-', '_' and '.', beginning and ending with a letter or digit")
}

pub(super) fn port_name(text: &str) -> Verdict {
    if text.len() > PORT_NAME_LENGTH {
        return Err("must be at most 15 characters");
    }
    let sound = text.bytes().all(|byte| lower_alnum(byte) || byte == b'-')
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && !text.contains("--")
        && !text.starts_with('-')
        && !text.ends_with('-');
    if sound {
        Ok(())
    } else {
        Err("must be lower case letters, digits and single '-' inside, with at least one letter")
    }
}

pub(super) fn env_name(text: &str) -> Verdict {
    let sound = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=');
    if sound { Ok(()) } else { Err("must be printable ASCII characters other than '='") }
}

pub(super) fn config_key(text: &str) -> Verdict {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let sound = !text.is_empty() && text.len() <= SUBDOMAIN_LENGTH && text.bytes().all(allowed);
    if sound && text != "." && !text.starts_with("..") {
        return Ok(());
    }
    Err("must be at most 253 letters, digits, '-', '_' and '.', and not begin with '..'")
}

pub(super) fn header_name(text: &str) -> Verdict {
    let sound = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if sound { Ok(()) } else { Err("must be letters, digits and '-'") }
}

pub(super) fn sysctl_name(text: &str) -> Verdict {
    let inner = |byte: u8| lower_alnum(byte) || matches!(byte, b'-' | b'_');
    let sound = text.len() <= SUBDOMAIN_LENGTH && text.split(['.', '/']).all(|part| is_word(part, lower_alnum, inner));
    if sound { Ok(()) } else { Err("must be at most 253 characters, in words joined by '.' or '/'") }
}

/// An IP address; `strict` refuses forms that programs read differently.
pub(super) fn ip_address(text: &str, strict: bool) -> Verdict {
    let parsed = text.parse::<IpAddr>().ok();
    match (parsed, strict) {
        (Some(IpAddr::V6(address)), true) if address.to_ipv4_mapped().is_some() => {
            Err("must not be an IPv4 address in IPv6 form")
        }
        (Some(_), _) => Ok(()),
        (None, false) if without_leading_zeros(text).parse::<Ipv4Addr>().is_ok() => Ok(()),
        (None, _) => Err("must be an IP address, without leading zeros"),
    }
}

fn without_leading_zeros(text: &str) -> String {
    let short = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    text.split('.').map(short).collect::<Vec<_>>().join(".")
}

/// A path that stays where it is put.
pub(super) fn no_backsteps(path: &str) -> Verdict {
    if path.split('/').any(|part| part == "..") { Err("must not contain '..'") } else { Ok(()) }
}

pub(super) fn descending_path(path: &str) -> Verdict {
    if path.starts_with('/') { Err("must be a relative path") } else { no_backsteps(path) }
}

/// A file name below a volume, clear of the names that the volume's own bookkeeping uses.
pub(super) fn volume_file_path(path: &str) -> Verdict {
    descending_path(path)?;
    if path.starts_with("..") { Err("must not begin with '..'") } else { Ok(()) }
}
