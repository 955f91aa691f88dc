//! What must be reached, and whether it is.

use crate::data::{Data, FAKE, FLOOR, RUBELET, UPSTREAM, ratio};

/// What a bar looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Of {
    Half,
    Worst,
}

/// A condition on one figure. All of a bar's must hold.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// At most this share of upstream's, in the same run.
    Upstream(f64),
    /// At most this much.
    AtMost(f64),
    /// At most this much above the floor.
    AboveFloor(f64),
    /// At most this many times what it is with the fewest pods.
    Fewest(f64),
}

struct Bar {
    what: &'static str,
    bar: &'static str,
    figure: &'static str,
    case: &'static str,
    of: Of,
    rules: &'static [Rule],
}

const fn bar(
    what: &'static str,
    bar: &'static str,
    place: (&'static str, &'static str, Of),
    rules: &'static [Rule],
) -> Bar {
    Bar { what, bar, figure: place.0, case: place.1, of: place.2, rules }
}

const SIXTH: &[Rule] = &[Rule::Upstream(1.0 / 6.0)];
const NONE: &[Rule] = &[Rule::AtMost(0.0)];
/// How many pods the first figure of growth is of.
const FEWEST: &str = "100";

use Of::{Half, Worst};

#[rustfmt::skip]
const BARS: &[Bar] = &[
    bar("RSS, no pods", "≤ 1/6", ("rss", "0", Half), SIXTH),
    bar("RSS, 30 pods", "≤ 1/6", ("rss", "30", Half), SIXTH),
    bar("RSS, 100 pods", "≤ 1/6", ("rss", "100", Half), SIXTH),
    bar("idle CPU, 100 pods", "≤ 1/10", ("cpu", "100", Half), &[Rule::Upstream(0.1)]),
    bar("CPU, 100 pods, pages scraped every 15 s", "≤ 1/10", ("cpu", "100-scraped", Half), &[Rule::Upstream(0.1)]),
    bar("create → Ready, 1 pod, p50", "≤ floor + 25 ms, ≤ upstream", ("create-ready", "1", Half),
        &[Rule::AboveFloor(25.0), Rule::Upstream(1.0)]),
    bar("create → Ready, 100 at once, p50", "≤ 0.6", ("create-ready", "100", Half), &[Rule::Upstream(0.6)]),
    bar("create → Ready, 100 at once, all", "≤ 0.95", ("create-ready-all", "100", Half), &[Rule::Upstream(0.95)]),
    bar("delete → gone, 1 pod, grace 1 s, p50", "≤ 0.4", ("delete-gone", "1-grace1", Half), &[Rule::Upstream(0.4)]),
    bar("delete → gone, 1 pod, grace 30 s, p50", "≤ 0.4", ("delete-gone", "1-grace30", Half), &[Rule::Upstream(0.4)]),
    bar("exit → status at the watch, p50", "≤ 50 ms, ≤ 1/5", ("exit-status", "1", Half),
        &[Rule::AtMost(50.0), Rule::Upstream(0.2)]),
    bar("restart with 100 pods: status writes, worst round", "0", ("restart-writes", "100", Worst), NONE),
    bar("restart with 100 pods: readiness flips, worst round", "0", ("restart-flips", "100", Worst), NONE),
    bar("restart with 100 pods: containers restarted, worst round", "0", ("restart-restarts", "100", Worst), NONE),
    bar("restart with 100 pods: all synced, worst round", "≤ 1 s", ("restart-synced", "100", Worst),
        &[Rule::AtMost(1000.0)]),
    bar("CPU per pod, 2,500 fake pods against 100, caches cold", "≤ 1.1", ("growth-cold", "2500", Half),
        &[Rule::Fewest(1.1)]),
    bar("CPU per pod, 2,500 fake pods against 100, caches warm", "≤ 1.1", ("growth-cpu", "2500", Half),
        &[Rule::Fewest(1.1)]),
    bar("memory per pod, 2,500 fake pods against 100", "≤ 1.1", ("growth-memory", "2500", Half), &[Rule::Fewest(1.1)]),
];

/// What became of a bar.
#[derive(Debug)]
pub(crate) struct Judged<'a> {
    pub(crate) what: &'static str,
    pub(crate) bar: &'static str,
    pub(crate) unit: &'a str,
    pub(crate) rubelet: Option<f64>,
    pub(crate) upstream: Option<f64>,
    pub(crate) floor: Option<f64>,
    pub(crate) ratio: Option<f64>,
    /// Unknown if something it needs was not measured.
    pub(crate) met: Option<bool>,
}

pub(crate) fn judge(data: &Data) -> Vec<Judged<'_>> {
    BARS.iter().map(|bar| bar.judge(data)).collect()
}

impl Bar {
    fn judge<'a>(&self, data: &'a Data) -> Judged<'a> {
        let of = |agent: &str, case: &str| match self.of {
            Of::Half => data.p50(agent, self.figure, case),
            Of::Worst => data.worst(agent, self.figure, case),
        };
        let grows = self.rules.iter().any(|rule| matches!(rule, Rule::Fewest(_)));
        let rubelet = of(if grows { FAKE } else { RUBELET }, self.case);
        let (upstream, floor) = (of(UPSTREAM, self.case), of(FLOOR, self.case));
        let fewest = of(FAKE, FEWEST);
        let most = |rule: &Rule| match rule {
            Rule::Upstream(share) => upstream.map(|upstream| upstream * share),
            Rule::AtMost(most) => Some(*most),
            Rule::AboveFloor(more) => floor.map(|floor| floor + more),
            Rule::Fewest(times) => fewest.map(|fewest| fewest * times),
        };
        let verdicts: Vec<Option<bool>> =
            self.rules.iter().map(|rule| Some(rubelet? <= most(rule)? * (1.0 + f64::EPSILON))).collect();
        // One rule that is broken settles it, whatever is not known of the others.
        let met = if verdicts.contains(&Some(false)) {
            Some(false)
        } else {
            verdicts.into_iter().collect::<Option<Vec<_>>>().map(|_| true)
        };
        Judged {
            what: self.what,
            bar: self.bar,
            unit: data.unit(self.figure),
            rubelet,
            upstream,
            floor,
            ratio: ratio(rubelet, if grows { fewest } else { upstream }),
            met,
        }
    }
}
