//! Parsing image names: `[registry/]path[:tag][@digest]` (IMG-01).

/// A parsed image name. Nothing is added to the text but a missing tag.
#[doc(alias = "ParseImageName")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    /// The name as written.
    text: String,
    /// Registry and path, with the parts that names of Docker Hub omit. Credentials are looked up by it.
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Text that is not an image name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("couldn't parse image name {image:?}: {why}")]
pub struct ImageNameError {
    /// The text.
    pub image: String,
    why: String,
}

impl ImageName {
    /// Parses a name.
    ///
    /// upstream: pkg/util/parsers/parsers.go ParseImageName (v1.36)
    pub fn parse(text: &str) -> Result<Self, ImageNameError> {
        read(text).map_err(|why| ImageNameError { image: text.to_owned(), why })
    }

    /// The name in calls of the runtime: as written, with `:latest` if it has neither tag nor digest.
    #[doc(alias = "applyDefaultImageTag")]
    pub fn with_tag(&self) -> String {
        match (&self.tag, &self.digest) {
            (None, None) => format!("{}:latest", self.text),
            (Some(_), _) | (_, Some(_)) => self.text.clone(),
        }
    }

    /// Registry and path in full, such as `docker.io/library/busybox`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if the name has one.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if the name has one.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// The name has the tag `latest`, or neither tag nor digest.
    pub fn is_latest(&self) -> bool {
        match &self.tag {
            Some(tag) => tag == "latest",
            None => self.digest.is_none(),
        }
    }
}

const INVALID: &str = "invalid reference format";

fn read(text: &str) -> Result<ImageName, String> {
    if text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(format!("invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"));
    }
    let (domain, rest) = split_domain(text);
    let remote = rest.split(':').next().unwrap_or_default();
    if remote.to_lowercase() != remote {
        return Err(format!("{INVALID}: repository name ({remote}) must be lowercase"));
    }
    let (name_and_tag, digest) = match rest.split_once('@') {
        Some((before, digest)) => (before, Some(digest)),
        None => (rest.as_str(), None),
    };
    let (path, tag) = match name_and_tag.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (name_and_tag, None),
    };
    let valid = is_domain(&domain)
        && path.split('/').all(is_path_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    if !valid {
        return Err(INVALID.to_owned());
    }
    if path.len() > 255 {
        return Err("repository name must not be more than 255 characters".to_owned());
    }
    if let Some(digest) = digest {
        check_digest(digest)?;
    }
    Ok(ImageName {
        text: text.to_owned(),
        repository: format!("{domain}/{path}"),
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

/// The registry and the rest. The first part is a registry if it looks like a host; else the registry is Docker Hub's,
/// whose names of one part are in `library`.
fn split_domain(text: &str) -> (String, String) {
    const HUB: &str = "docker.io";
    let Some((first, rest)) = text.split_once('/') else {
        return (HUB.to_owned(), format!("library/{text}"));
    };
    let is_host = first == "localhost" || first.contains(['.', ':']) || first.to_lowercase() != first;
    let (domain, rest) = match first {
        "index.docker.io" => (HUB, rest),
        host if is_host => (host, rest),
        _ => (HUB, text),
    };
    if domain == HUB && !rest.contains('/') {
        return (HUB.to_owned(), format!("library/{rest}"));
    }
    (domain.to_owned(), rest.to_owned())
}

fn is_domain(text: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    if let Some(after) = text.strip_prefix('[') {
        let Some((address, rest)) = after.split_once(']') else { return false };
        let hex = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
        return hex && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port));
    }
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let is_part = |part: &str| {
        let inner = part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        inner && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
    };
    host.split('.').all(is_part) && port.is_none_or(is_port)
}

/// Lower-case letters and digits, in runs separated by one dot, one or two underscores, or any number of dashes.
fn is_path_component(text: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let edges = text.bytes().next().is_some_and(is_word) && text.bytes().next_back().is_some_and(is_word);
    let mut separators = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).filter(|s| !s.is_empty());
    edges && separators.all(|s| matches!(s, "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let is_part = |part: &str| {
        part.bytes().next().is_some_and(|b| b.is_ascii_alphabetic()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(is_part) && hex.len() >= 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

fn check_digest(text: &str) -> Result<(), String> {
    let (algorithm, hex) = text.split_once(':').unwrap_or((text, ""));
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err("unsupported digest algorithm".to_owned()),
    };
    if hex.len() != length {
        return Err("invalid checksum digest length".to_owned());
    }
    if hex.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err("invalid checksum digest format".to_owned());
    }
    Ok(())
}
