//! `rubelet version`: what this program is, and how it was built.

use serde::Serialize;

use super::{Document, Report, json, yaml};
use crate::flags::{Format, KUBERNETES_VERSION, REPORTED_VERSION};

/// What `-o json` prints.
#[derive(Serialize)]
struct VersionDocument {
    rubelet: &'static str,
    /// The release of Kubernetes whose kubelet this replaces.
    kubernetes: &'static str,
    /// What the node object reports.
    kubelet_version: &'static str,
    /// The commit that it was built from, if the build named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    git_commit: Option<&'static str>,
    rust_version: &'static str,
    platform: String,
}

pub(super) fn run(format: Format) -> Result<Report, String> {
    let document = VersionDocument {
        rubelet: env!("CARGO_PKG_VERSION"),
        kubernetes: KUBERNETES_VERSION,
        kubelet_version: REPORTED_VERSION,
        git_commit: option_env!("RUBELET_COMMIT").filter(|commit| !commit.is_empty()),
        rust_version: env!("RUBELET_RUSTC"),
        platform: format!("{}/{}", std::env::consts::OS, go_architecture()),
    };
    let text = match format {
        Format::Table => table(&document),
        Format::Json => json(&Document::new("Version", &document))?,
        Format::Yaml => yaml(&Document::new("Version", &document))?,
    };
    Ok(Report { text, ..Report::default() })
}

fn table(document: &VersionDocument) -> String {
    let mut rows = vec![("rubelet", document.rubelet), ("Kubernetes", document.kubernetes)];
    rows.extend(document.git_commit.map(|commit| ("commit", commit)));
    rows.extend([("Rust", document.rust_version), ("platform", document.platform.as_str())]);
    rows.into_iter().map(|(name, value)| format!("{name:12}{value}\n")).collect()
}

/// The architecture as Kubernetes spells it.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_names_the_release() {
        let printed = |format| run(format).expect("it is printed").text;
        let json: serde_json::Value = serde_json::from_str(&printed(Format::Json)).expect("JSON");
        assert_eq!((&json["apiVersion"], &json["kind"]), (&"rubelet/v1".into(), &"Version".into()));
        assert_eq!(
            (&json["kubernetes"], &json["rubelet"]),
            (&KUBERNETES_VERSION.into(), &env!("CARGO_PKG_VERSION").into())
        );
        assert!(json["rust_version"].as_str().is_some_and(|version| version.starts_with("1.")), "{json}");
        assert!(json["platform"].as_str().is_some_and(|platform| platform.starts_with("linux/")), "{json}");
        assert!(printed(Format::Yaml).contains("kubernetes: v1.36.4\n"));
        assert!(printed(Format::Table).contains("\nKubernetes  v1.36.4\n"));
    }
}
