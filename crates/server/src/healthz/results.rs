//! How often each check of `/healthz` succeeded and failed, and its last result: the content of `/metrics/slis`.
//! upstream: component-base metrics/prometheus/slis/metrics.go (v1.36)

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The results of all checks, by name. The checks are few and their names are constants.
#[derive(Debug, Default)]
pub(crate) struct Results {
    checks: Mutex<BTreeMap<&'static str, Count>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    good: bool,
    successes: u64,
    errors: u64,
}

impl Results {
    pub(super) fn count(&self, check: &'static str, good: bool) {
        let mut checks = self.checks();
        let count = checks.entry(check).or_default();
        count.good = good;
        *if good { &mut count.successes } else { &mut count.errors } += 1;
    }

    fn checks(&self) -> MutexGuard<'_, BTreeMap<&'static str, Count>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all results.
    pub(crate) fn reset(&self) {
        self.checks().clear();
    }

    /// Writes both families. Writing to a string cannot fail.
    pub(crate) fn write(&self, out: &mut String) {
        let checks = self.checks().clone();
        if checks.is_empty() {
            return;
        }
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(out, "# HELP {name} [STABLE] {help}\n# TYPE {name} {kind}");
        };
        head(out, "kubernetes_healthcheck", "gauge", "1 if the check last succeeded, 0 if it failed.");
        for (name, count) in &checks {
            let good = u8::from(count.good);
            let _ = writeln!(out, "kubernetes_healthcheck{{name=\"{name}\",type=\"healthz\"}} {good}");
        }
        head(out, "kubernetes_healthchecks_total", "counter", "Checks, by result.");
        for (name, count) in &checks {
            for (status, number) in [("error", count.errors), ("success", count.successes)] {
                if number > 0 {
                    let labels = format!("name=\"{name}\",status=\"{status}\",type=\"healthz\"");
                    let _ = writeln!(out, "kubernetes_healthchecks_total{{{labels}}} {number}");
                }
            }
        }
    }
}
