//! Image names, as far as the default pull policy depends on them.
//!
//! upstream: util/parsers/parsers.go ParseImageName, distribution/reference ParseNormalizedNamed (v1.36)

const NAME_LENGTH: usize = 255;
const TAG_LENGTH: usize = 128;

/// `Always` for the tag `latest`, said or implied; a name that cannot be parsed has no tag and so is not pulled always.
/// upstream: v1/defaults.go SetDefaults_Container (v1.36)
pub(super) fn default_pull_policy(image: &str) -> &'static str {
    match tag(image) {
        Some("latest") => "Always",
        Some(_) | None => "IfNotPresent",
    }
}

/// The tag, `latest` if there is neither tag nor digest, nothing for a bare digest or a name that is none.
fn tag(image: &str) -> Option<&str> {
    let is_id = image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_id {
        return None;
    }
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let slash = named.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match named.get(slash..).and_then(|last| last.find(':')) {
        Some(colon) => (named.get(..slash + colon)?, Some(named.get(slash + colon + 1..)?)),
        None => (named, None),
    };
    let sound = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    match (sound, tag, digest) {
        (false, _, _) | (true, None, Some(_)) => None,
        (true, Some(tag), _) => Some(tag),
        (true, None, None) => Some("latest"),
    }
}

fn is_name(name: &str) -> bool {
    let (domain, path) = match name.split_once('/') {
        // The first part is a host only if it looks like one; else it is a user of the default registry.
        Some((first, rest))
            if first.contains(['.', ':']) || first == "localhost" || first.chars().any(char::is_uppercase) =>
        {
            (Some(first), rest)
        }
        Some(_) | None => (None, name),
    };
    let full_length = domain.map_or("docker.io/library/".len(), |domain| domain.len() + 1) + path.len();
    domain.is_none_or(is_domain) && path.split('/').all(is_path_component) && full_length <= NAME_LENGTH
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (domain, None),
    };
    let is_v6 = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|address| {
        !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
    });
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (is_v6 || host.split('.').all(is_label)) && port.is_none_or(is_port)
}

/// Lower-case words joined by one dot, one or two underscores, or any number of dashes.
fn is_path_component(component: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators = component.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let ends = component.bytes().next().is_some_and(word) && component.bytes().last().is_some_and(word);
    ends && separators
        .filter(|separator| !separator.is_empty())
        .all(|separator| matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_LENGTH
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

/// Only the algorithms that upstream registers count, each with its own length.
fn is_digest(digest: &str) -> bool {
    let length = match digest.split_once(':') {
        Some(("sha256", _)) => 64,
        Some(("sha384", _)) => 96,
        Some(("sha512", _)) => 128,
        Some(_) | None => return false,
    };
    digest.split_once(':').is_some_and(|(_, hex)| {
        hex.len() == length && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn the_tag_is_found_where_the_reference_grammar_puts_it() {
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        let tagged = format!("nginx:1.2@sha256:{}", "a".repeat(64));
        for (image, expected) in [
            ("nginx", Some("latest")),
            ("nginx:latest", Some("latest")),
            ("nginx:1.27", Some("1.27")),
            ("localhost:5000/nginx", Some("latest")),
            ("localhost:5000/a/b:v1", Some("v1")),
            ("registry.example:443/a/b__c.d--e:v1", Some("v1")),
            (digest.as_str(), None),
            (tagged.as_str(), Some("1.2")),
            ("Nginx", None),
            ("HOST/nginx", Some("latest")),
            ("a//b", None),
            ("a_/b", None),
            ("nginx:", None),
            ("nginx:-x", None),
            ("nginx@sha256:abc", None),
            ("", None),
            ("ab cd", None),
            (&"a".repeat(64), None),
        ] {
            assert_eq!(tag(image), expected, "{image:?}");
        }
    }
}
