//! Metrics of what leads outside of the node: requests to API servers, certificates, credential providers.
//! upstream: component-base metrics/prometheus/restclient, kubelet/certificate, credentialprovider/plugin/metrics.go (v1.36)

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use rubelet_core::certs::Purpose;
use rubelet_engine::metrics::{
    Counter, Histogram, Scale, USUAL, counted, counter, distribution, label, number, observed,
};

/// Upper bounds of how long a request takes: 5 ms to a minute.
static REQUEST: Scale = Scale::seconds(&[
    5_000, 25_000, 100_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000, 15_000_000, 30_000_000,
    60_000_000,
]);
/// Upper bounds of sizes: 64 bytes to 16 MiB.
static SIZE: Scale = Scale::plain(&[64, 256, 512, 1024, 4096, 16384, 65536, 262_144, 1_048_576, 4_194_304, 16_777_216])
    .written(&[
        "64",
        "256",
        "512",
        "1024",
        "4096",
        "16384",
        "65536",
        "262144",
        "1.048576e+06",
        "4.194304e+06",
        "1.6777216e+07",
    ]);
/// Upper bounds of how long a certificate is used, in seconds: a minute to four years.
static ROTATION: Scale =
    Scale::plain(&[60, 3600, 14_400, 86_400, 604_800, 2_592_000, 7_776_000, 15_552_000, 31_104_000, 124_416_000])
        .written(&[
            "60",
            "3600",
            "14400",
            "86400",
            "604800",
            "2.592e+06",
            "7.776e+06",
            "1.5552e+07",
            "3.1104e+07",
            "1.24416e+08",
        ]);
const METHODS: [&str; 5] = ["DELETE", "GET", "PATCH", "POST", "PUT"];
/// API servers with series of their own: a node has one, and another during a bootstrap.
const MOST_HOSTS: usize = 8;
/// Where the others are counted.
const OTHER_HOSTS: &str = "other";
/// The status of a request that got no answer.
const NO_ANSWER: &str = "<error>";

/// The counts since the start.
#[derive(Debug, Default)]
pub struct ClusterMetrics {
    requests: Mutex<BTreeMap<String, OfHost>>,
    client_errors: Counter,
    serving_errors: Counter,
    rotations: Rotations,
    providers: Mutex<BTreeMap<String, OfProvider>>,
}

#[derive(Debug)]
struct Rotations(Histogram);

impl Default for Rotations {
    fn default() -> Self {
        Self(Histogram::new(&ROTATION))
    }
}

/// Requests to one API server.
#[derive(Debug)]
struct OfHost {
    methods: [OfMethod; METHODS.len()],
    /// By method and status; zero is no answer. HTTP bounds both.
    codes: BTreeMap<(usize, u16), u64>,
}

#[derive(Debug)]
struct OfMethod {
    took: Histogram,
    sent: Histogram,
    received: Histogram,
    limited: Histogram,
}

impl Default for OfHost {
    fn default() -> Self {
        let method = |_| OfMethod {
            took: Histogram::new(&REQUEST),
            sent: Histogram::new(&SIZE),
            received: Histogram::new(&SIZE),
            limited: Histogram::new(&REQUEST),
        };
        Self { methods: std::array::from_fn(method), codes: BTreeMap::new() }
    }
}

/// Questions to one credential provider.
#[derive(Debug)]
struct OfProvider {
    took: Histogram,
    errors: Counter,
}

impl ClusterMetrics {
    /// The API server answered with this status, or not at all.
    pub(crate) fn answered(&self, host: &str, method: &Method, status: Option<u16>) {
        self.at(host, method, |of, at| *of.codes.entry((at, status.unwrap_or_default())).or_default() += 1);
    }

    /// A request is over. Watches are not counted here: they last for minutes.
    pub(crate) fn requested(&self, host: &str, method: &Method, took: Duration, sent: usize, received: Option<usize>) {
        let bytes = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
        self.at(host, method, |of, at| {
            let Some(of) = of.methods.get(at) else { return };
            of.took.took(took);
            of.sent.observe(bytes(sent));
            if let Some(received) = received {
                of.received.observe(bytes(received));
            }
        });
    }

    /// A request waited for the rate limit of this node.
    pub(crate) fn limited(&self, host: &str, method: &Method, waited: Duration) {
        self.at(host, method, |of, at| {
            if let Some(of) = of.methods.get(at) {
                of.limited.took(waited);
            }
        });
    }

    fn at(&self, host: &str, method: &Method, note: impl FnOnce(&mut OfHost, usize)) {
        let Some(at) = METHODS.iter().position(|known| method == known) else { return };
        let mut hosts = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let full = hosts.len() >= MOST_HOSTS && !hosts.contains_key(host);
        let host = if full { OTHER_HOSTS } else { host };
        match hosts.get_mut(host) {
            Some(of) => note(of, at),
            None => note(hosts.entry(host.to_owned()).or_default(), at),
        }
    }

    /// A certificate was not issued.
    pub(crate) fn renewal_failed(&self, purpose: Purpose) {
        match purpose {
            Purpose::Client => self.client_errors.add(),
            Purpose::Serving => self.serving_errors.add(),
        }
    }

    /// A certificate took the place of one that was issued so long ago.
    pub(crate) fn rotated(&self, purpose: Purpose, age: Duration) {
        if purpose == Purpose::Serving {
            self.rotations.0.observe(age.as_secs());
        }
    }

    /// A credential provider was asked. The configuration bounds their number.
    pub(crate) fn asked_provider(&self, name: &str, took: Duration, failed: bool) {
        let mut providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || OfProvider { took: Histogram::new(&USUAL), errors: Counter::default() };
        let of = providers.entry(name.to_owned()).or_insert_with(new);
        of.took.took(took);
        if failed {
            of.errors.add();
        }
    }

    /// Writes requests and credential providers in Prometheus' text format. A series appears with its first count.
    pub fn write(&self, out: &mut String) {
        self.write_requests(out);
        let providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        let providers = || providers.iter().map(|(name, of)| (label("plugin_name", name), of));
        let name = "kubelet_credential_provider_plugin_duration";
        let took = providers().map(|(labels, of)| (labels, &of.took));
        observed(out, name, "How long credential providers took, in seconds.", took);
        let name = "kubelet_credential_provider_plugin_errors_total";
        let errors = providers().map(|(labels, of)| (labels, of.errors.get()));
        counted(out, name, "Failures of credential providers.", errors);
    }

    fn write_requests(&self, out: &mut String) {
        let hosts = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let series = |of: fn(&OfMethod) -> &Histogram| {
            hosts.iter().flat_map(move |(host, requests)| {
                let labels = |method| format!("{},verb=\"{method}\"", label("host", host));
                METHODS.iter().zip(&requests.methods).map(move |(method, counts)| (labels(method), of(counts)))
            })
        };
        for (name, help, of) in [
            (
                "rest_client_rate_limiter_duration_seconds",
                "How long requests waited for the rate limit of this node, in seconds.",
                (|of| &of.limited) as fn(&OfMethod) -> &Histogram,
            ),
            ("rest_client_request_duration_seconds", "How long requests took, in seconds.", |of| &of.took),
            ("rest_client_request_size_bytes", "Sizes of requests.", |of| &of.sent),
            ("rest_client_response_size_bytes", "Sizes of responses.", |of| &of.received),
        ] {
            observed(out, name, help, series(of));
        }
        let codes = hosts.iter().flat_map(|(host, requests)| {
            requests.codes.iter().filter_map(move |((method, code), count)| {
                let code = if *code == 0 { NO_ANSWER.to_owned() } else { code.to_string() };
                let (host, method) = (label("host", host), METHODS.get(*method)?);
                Some((format!("code=\"{code}\",{host},method=\"{method}\""), *count))
            })
        });
        counted(out, "rest_client_requests_total", "Requests, by the status of the answer.", codes);
    }

    /// Writes the metrics of a certificate that this node has the cluster sign. `left` is how long it is valid, in seconds;
    /// `None` if there is none.
    pub fn write_certificate(&self, purpose: Purpose, left: Option<i64>, out: &mut String) {
        let left = left.map_or_else(|| "+Inf".to_owned(), |left| left.to_string());
        match purpose {
            Purpose::Client => {
                let name = "kubelet_certificate_manager_client_expiration_renew_errors";
                counter(out, name, "Failed attempts to renew the client certificate.", &self.client_errors);
                let name = "kubelet_certificate_manager_client_ttl_seconds";
                number(out, (name, "gauge"), "How long the client certificate is still valid, in seconds.", left);
            }
            Purpose::Serving => {
                let name = "kubelet_certificate_manager_server_rotation_seconds";
                distribution(out, name, "How long serving certificates were in use, in seconds.", &self.rotations.0);
                let name = "kubelet_certificate_manager_server_ttl_seconds";
                number(out, (name, "gauge"), "How long the serving certificate is still valid, in seconds.", left);
                let name = "kubelet_server_expiration_renew_errors";
                counter(out, name, "Failed attempts to renew the serving certificate.", &self.serving_errors);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn short(page: &str) -> String {
        let lines = page.lines().filter(|line| !line.starts_with("# HELP") && !line.contains("_bucket{"));
        lines.map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn requests_are_counted_under_upstreams_names() {
        let metrics = ClusterMetrics::default();
        metrics.limited("a:6443", &Method::GET, Duration::ZERO);
        metrics.answered("a:6443", &Method::GET, Some(200));
        metrics.answered("a:6443", &Method::GET, None);
        metrics.requested("a:6443", &Method::GET, Duration::from_millis(30), 0, Some(700));
        metrics.answered("a:6443", &Method::TRACE, Some(200));
        metrics.asked_provider("ecr", Duration::from_secs(1), true);
        let mut page = String::new();
        metrics.write(&mut page);
        expect![[r#"
            # TYPE rest_client_rate_limiter_duration_seconds histogram
            rest_client_rate_limiter_duration_seconds_sum{host="a:6443",verb="GET"} 0
            rest_client_rate_limiter_duration_seconds_count{host="a:6443",verb="GET"} 1
            # TYPE rest_client_request_duration_seconds histogram
            rest_client_request_duration_seconds_sum{host="a:6443",verb="GET"} 0.03
            rest_client_request_duration_seconds_count{host="a:6443",verb="GET"} 1
            # TYPE rest_client_request_size_bytes histogram
            rest_client_request_size_bytes_sum{host="a:6443",verb="GET"} 0
            rest_client_request_size_bytes_count{host="a:6443",verb="GET"} 1
            # TYPE rest_client_response_size_bytes histogram
            rest_client_response_size_bytes_sum{host="a:6443",verb="GET"} 700
            rest_client_response_size_bytes_count{host="a:6443",verb="GET"} 1
            # TYPE rest_client_requests_total counter
            rest_client_requests_total{code="<error>",host="a:6443",method="GET"} 1
            rest_client_requests_total{code="200",host="a:6443",method="GET"} 1
            # TYPE kubelet_credential_provider_plugin_duration histogram
            kubelet_credential_provider_plugin_duration_sum{plugin_name="ecr"} 1
            kubelet_credential_provider_plugin_duration_count{plugin_name="ecr"} 1
            # TYPE kubelet_credential_provider_plugin_errors_total counter
            kubelet_credential_provider_plugin_errors_total{plugin_name="ecr"} 1
        "#]]
        .assert_eq(&short(&page));
    }

    #[test]
    fn hosts_are_bounded() {
        let metrics = ClusterMetrics::default();
        for n in 0..3 * MOST_HOSTS {
            metrics.answered(&format!("h{n}"), &Method::GET, Some(200));
        }
        let mut page = String::new();
        metrics.write(&mut page);
        let series = page.lines().filter(|line| line.starts_with("rest_client_requests_total{")).count();
        assert_eq!(series, MOST_HOSTS + 1, "{page}");
    }

    #[test]
    fn a_certificate_that_is_not_there_is_valid_for_ever() {
        let metrics = ClusterMetrics::default();
        metrics.renewal_failed(Purpose::Client);
        metrics.rotated(Purpose::Serving, Duration::from_secs(7200));
        let mut page = String::new();
        metrics.write_certificate(Purpose::Client, None, &mut page);
        metrics.write_certificate(Purpose::Serving, Some(-5), &mut page);
        expect![[r#"
            # TYPE kubelet_certificate_manager_client_expiration_renew_errors counter
            kubelet_certificate_manager_client_expiration_renew_errors 1
            # TYPE kubelet_certificate_manager_client_ttl_seconds gauge
            kubelet_certificate_manager_client_ttl_seconds +Inf
            # TYPE kubelet_certificate_manager_server_rotation_seconds histogram
            kubelet_certificate_manager_server_rotation_seconds_sum 7200
            kubelet_certificate_manager_server_rotation_seconds_count 1
            # TYPE kubelet_certificate_manager_server_ttl_seconds gauge
            kubelet_certificate_manager_server_ttl_seconds -5
            # TYPE kubelet_server_expiration_renew_errors counter
            kubelet_server_expiration_renew_errors 0
        "#]]
        .assert_eq(&short(&page));
    }
}
