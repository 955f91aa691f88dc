//! Properties of the systemd units that hold pods, as upstream sets them (section 19, systemd driver).
//!
//! upstream: opencontainers/cgroups systemd/{common,v1,v2}.go, cm/cgroup_manager_linux.go toResources (v1.36)

use super::tree::{CgroupPath, CgroupVersion};
use super::values::{CgroupValues, DEFAULT_PERIOD, shares_to_weight};

/// systemd can set the period of a CPU quota from this version on.
const PERIOD_SINCE: u32 = 242;
/// systemd keeps a quota in whole per cents: 10 ms of each second.
const QUOTA_STEP: u64 = 10_000;
const MICROS: u64 = 1_000_000;
/// systemd's "infinity".
const INFINITY: u64 = u64::MAX;

/// The value of a unit's property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitValue {
    /// On or off.
    Bool(bool),
    /// A number.
    U64(u64),
    /// A text.
    Text(String),
    /// Names of units.
    Units(Vec<String>),
}

/// A property of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitProperty {
    /// systemd's name of it.
    pub name: &'static str,
    /// Its value.
    pub value: UnitValue,
}

fn property(name: &'static str, value: UnitValue) -> UnitProperty {
    UnitProperty { name, value }
}

/// The slice of a cgroup and the slice above it; the latter is `-.slice` at the top.
pub fn slice_names(path: &CgroupPath) -> (String, String) {
    let literal = path.systemd();
    let mut names = literal.rsplit('/').filter(|name| !name.is_empty()).map(str::to_owned);
    let root = || "-.slice".to_owned();
    (names.next().unwrap_or_else(root), names.next().unwrap_or_else(root))
}

/// The properties with which a slice is made.
pub fn new_slice(path: &CgroupPath, version: CgroupVersion) -> Vec<UnitProperty> {
    let (name, parent) = slice_names(path);
    let io = match version {
        CgroupVersion::V1 => "BlockIOAccounting",
        CgroupVersion::V2 => "IOAccounting",
    };
    vec![
        property("Description", UnitValue::Text(format!("libcontainer container {name}"))),
        property("Wants", UnitValue::Units(vec![parent])),
        property("MemoryAccounting", UnitValue::Bool(true)),
        property("CPUAccounting", UnitValue::Bool(true)),
        property(io, UnitValue::Bool(true)),
        property("TasksAccounting", UnitValue::Bool(true)),
        property("DefaultDependencies", UnitValue::Bool(false)),
    ]
}

/// The properties that hold a cgroup's values. Huge pages and v2 files that systemd has no property for are written to
/// the cgroup itself.
pub fn slice_values(values: &CgroupValues, version: CgroupVersion, systemd: u32) -> Vec<UnitProperty> {
    let mut found = Vec::new();
    let mut number = |name, value| found.push(property(name, UnitValue::U64(value)));
    let memory = values.memory_limit.filter(|limit| *limit != 0).map(or_infinity);
    match version {
        CgroupVersion::V1 => {
            memory.into_iter().for_each(|limit| number("MemoryLimit", limit));
            values.cpu_shares.filter(|shares| *shares != 0).into_iter().for_each(|shares| number("CPUShares", shares));
        }
        CgroupVersion::V2 => {
            memory.into_iter().for_each(|limit| number("MemoryMax", limit));
            values.cpu_shares.into_iter().for_each(|shares| number("CPUWeight", shares_to_weight(shares)));
        }
    }
    let period = values.cpu_period.filter(|period| *period != 0);
    if let Some(period) = period.filter(|_| systemd >= PERIOD_SINCE) {
        number("CPUQuotaPeriodUSec", period);
    }
    let quota = values.cpu_quota.filter(|quota| *quota != 0);
    if quota.is_some() || period.is_some() {
        number("CPUQuotaPerSecUSec", per_second(quota.unwrap_or(0), period));
    }
    if let Some(limit) = values.pids_limit {
        // systemd refuses a zero here.
        number("TasksMax", or_infinity(limit).max(1));
    }
    if version == CgroupVersion::V2 {
        values.unified.iter().for_each(|(file, text)| {
            if let Some((name, value)) = unified(file, text) {
                number(name, value);
            }
        });
    }
    found
}

/// The properties of cgroup v2 for what [`slice_values`] sets on v1, as they are when nobody has set them. Where one of
/// them is set, systemd takes it on v1 too, and not the one of v1.
#[must_use]
pub fn v2_unset() -> Vec<UnitProperty> {
    let zero = ["MemoryMin", "MemoryLow"].map(|name| property(name, UnitValue::U64(0)));
    let open = ["MemoryHigh", "MemoryMax", "MemorySwapMax", "CPUWeight", "StartupCPUWeight"];
    zero.into_iter().chain(open.map(|name| property(name, UnitValue::U64(INFINITY)))).collect()
}

/// The values that the cgroup itself gets: the quota is rounded as systemd rounds it, so that both agree.
#[must_use]
pub fn rounded(values: &CgroupValues) -> CgroupValues {
    let mut values = values.clone();
    if let Some(quota) = values.cpu_quota.filter(|quota| *quota > 0) {
        let period = values.cpu_period.filter(|period| *period != 0);
        let micros = per_second(quota, period);
        let exact = exact_per_second(quota, period);
        if micros != exact {
            let rounded = micros.saturating_mul(period.unwrap_or(DEFAULT_PERIOD.into())) / MICROS;
            values.cpu_quota = i64::try_from(rounded).ok().or(values.cpu_quota);
        }
    }
    values
}

/// Microseconds of CPU time per second, in whole steps. Rounded up, so that containers below may have all of theirs.
fn per_second(quota: i64, period: Option<u64>) -> u64 {
    if quota <= 0 {
        return INFINITY;
    }
    let exact = exact_per_second(quota, period);
    exact.checked_next_multiple_of(QUOTA_STEP).unwrap_or(INFINITY)
}

fn exact_per_second(quota: i64, period: Option<u64>) -> u64 {
    u64::try_from(quota).unwrap_or(0).saturating_mul(MICROS) / period.unwrap_or(DEFAULT_PERIOD.into()).max(1)
}

fn or_infinity(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or(INFINITY)
}

/// The property for a v2 file.
fn unified(file: &str, text: &str) -> Option<(&'static str, u64)> {
    let name = match file {
        "cpu.weight" => "CPUWeight",
        "memory.high" => "MemoryHigh",
        "memory.low" => "MemoryLow",
        "memory.max" => "MemoryMax",
        "memory.min" => "MemoryMin",
        "memory.swap.max" => "MemorySwapMax",
        "pids.max" => "TasksMax",
        _ => return None,
    };
    let value = if text.trim() == "max" { INFINITY } else { text.trim().parse().ok()? };
    Some((name, if name == "TasksMax" { value.max(1) } else { value }))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(values: &CgroupValues, version: CgroupVersion, systemd: u32, expected: Expect) {
        expected.assert_eq(&text(slice_values(values, version, systemd)));
    }

    fn text(properties: Vec<UnitProperty>) -> String {
        let lines: Vec<_> = properties
            .into_iter()
            .map(|property| match property.value {
                UnitValue::U64(INFINITY) => format!("{}=infinity", property.name),
                UnitValue::U64(number) => format!("{}={number}", property.name),
                other @ (UnitValue::Bool(_) | UnitValue::Text(_) | UnitValue::Units(_)) => {
                    format!("{}={other:?}", property.name)
                }
            })
            .collect();
        lines.join(" ")
    }

    fn limited() -> CgroupValues {
        CgroupValues {
            cpu_shares: Some(1024),
            cpu_quota: Some(20_000),
            cpu_period: Some(100_000),
            memory_limit: Some(100 << 20),
            pids_limit: Some(0),
            ..CgroupValues::default()
        }
    }

    #[test]
    fn cg_05_a_slice_has_upstreams_properties() {
        let (v1, v2) = (CgroupVersion::V1, CgroupVersion::V2);
        check(&CgroupValues::default(), v1, 252, expect![""]);
        check(
            &limited(),
            v1,
            252,
            expect![
                "MemoryLimit=104857600 CPUShares=1024 CPUQuotaPeriodUSec=100000 CPUQuotaPerSecUSec=200000 TasksMax=1"
            ],
        );
        check(
            &limited(),
            v2,
            252,
            expect!["MemoryMax=104857600 CPUWeight=39 CPUQuotaPeriodUSec=100000 CPUQuotaPerSecUSec=200000 TasksMax=1"],
        );
        check(&limited(), v2, 241, expect!["MemoryMax=104857600 CPUWeight=39 CPUQuotaPerSecUSec=200000 TasksMax=1"]);
        let open = CgroupValues {
            cpu_quota: Some(-1),
            cpu_period: Some(100_000),
            memory_limit: Some(-1),
            pids_limit: Some(-1),
            ..CgroupValues::default()
        };
        check(
            &open,
            v2,
            252,
            expect!["MemoryMax=infinity CPUQuotaPeriodUSec=100000 CPUQuotaPerSecUSec=infinity TasksMax=infinity"],
        );
        let files = [("memory.min", "4096"), ("memory.high", "max"), ("memory.oom.group", "1"), ("memory.low", "x")];
        let unified = files.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
        let values = CgroupValues { unified, ..CgroupValues::default() };
        check(&values, v2, 252, expect!["MemoryHigh=infinity MemoryMin=4096"]);
        check(&values, v1, 252, expect![""]);
    }

    #[test]
    fn a_property_of_v2_that_somebody_set_is_unset_on_v1() {
        let expected = expect![
            "MemoryMin=0 MemoryLow=0 MemoryHigh=infinity MemoryMax=infinity MemorySwapMax=infinity CPUWeight=infinity StartupCPUWeight=infinity"
        ];
        expected.assert_eq(&text(v2_unset()));
    }

    /// upstream: systemd_test.go TestAddCPUQuota, as of v1.36
    #[test]
    fn cg_05_a_quota_is_rounded_up_to_whole_per_cents() {
        for (quota, period, micros, written) in [
            (1000, Some(100_000), 10_000, 1000),
            (1001, Some(100_000), 20_000, 2000),
            (12_345, Some(100_000), 130_000, 13_000),
            (2500, Some(5000), 500_000, 2500),
            (20_001, None, 210_000, 21_000),
            (-1, Some(100_000), INFINITY, -1),
        ] {
            let values = CgroupValues { cpu_quota: Some(quota), cpu_period: period, ..CgroupValues::default() };
            let properties = slice_values(&values, CgroupVersion::V2, 252);
            let found = properties.into_iter().find(|one| one.name == "CPUQuotaPerSecUSec").map(|one| one.value);
            assert_eq!(found, Some(UnitValue::U64(micros)), "{quota}");
            assert_eq!(rounded(&values).cpu_quota, Some(written), "{quota}");
        }
    }

    #[test]
    fn cg_01_a_slice_is_made_below_its_parent() {
        let top = CgroupPath::new(["kubepods"]);
        assert_eq!(slice_names(&top), ("kubepods.slice".to_owned(), "-.slice".to_owned()));
        let pod = top.child("burstable").child("pod12-ab");
        let (name, parent) = slice_names(&pod);
        assert_eq!(name, "kubepods-burstable-pod12_ab.slice");
        assert_eq!(parent, "kubepods-burstable.slice");
        let names = |version| new_slice(&pod, version).into_iter().map(|one| one.name).collect::<Vec<_>>().join(" ");
        expect![
            "Description Wants MemoryAccounting CPUAccounting BlockIOAccounting TasksAccounting DefaultDependencies"
        ]
        .assert_eq(&names(CgroupVersion::V1));
        expect!["Description Wants MemoryAccounting CPUAccounting IOAccounting TasksAccounting DefaultDependencies"]
            .assert_eq(&names(CgroupVersion::V2));
    }
}
