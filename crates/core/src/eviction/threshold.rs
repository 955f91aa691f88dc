//! Thresholds, and how the configuration gives them (EV-02, EV-03).

use std::collections::BTreeMap;
use std::time::Duration;

use super::{DiskLayout, Signal};
use crate::config::{GoDuration, KubeletConfiguration};
use crate::manifest::quantity::{Format, Quantity, QuantityError};

/// Thresholds that cannot be used: the node does not start, as upstream's does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvictionError {
    /// There is no such signal.
    #[error("unsupported eviction signal {0}")]
    Signal(String),
    /// A share that is no number.
    #[error("strconv.ParseFloat: parsing {0:?}: invalid syntax")]
    Share(String),
    /// A share below nothing.
    #[error("eviction percentage threshold {signal} must be >= 0%: {text}")]
    ShareBelow {
        /// The signal.
        signal: Signal,
        /// The share.
        text: String,
    },
    /// A share of more than all.
    #[error("eviction percentage threshold {signal} must be <= 100%: {text}")]
    ShareAbove {
        /// The signal.
        signal: Signal,
        /// The share.
        text: String,
    },
    /// An amount that is none.
    #[error("{signal} {text:?}")]
    Quantity {
        /// The signal.
        signal: Signal,
        /// The text.
        text: String,
        /// Why.
        #[source]
        source: QuantityError,
    },
    /// An amount of nothing or less.
    #[error("eviction threshold {signal} must be positive: {amount}")]
    NotPositive {
        /// The signal.
        signal: Signal,
        /// The amount.
        amount: String,
    },
    /// A grace period that is no duration.
    #[error("time: invalid duration {0:?}")]
    Grace(String),
    /// A grace period below nothing.
    #[error("invalid eviction grace period specified: {0}, must be a positive value")]
    NegativeGrace(String),
    /// A soft threshold without a grace period.
    #[error("grace period must be specified for the soft eviction threshold {0}")]
    NoGrace(Signal),
    /// A minimum reclaim that is a share of nothing or less.
    #[error("eviction percentage minimum reclaim {signal} must be positive: {text}")]
    ReclaimShare {
        /// The signal.
        signal: Signal,
        /// The share.
        text: String,
    },
    /// A minimum reclaim below nothing.
    #[error("negative eviction minimum reclaim specified for {0}")]
    NegativeReclaim(Signal),
}

/// An amount, or a share of the capacity.
#[derive(Clone, Debug, PartialEq)]
pub enum ThresholdValue {
    /// An amount.
    Quantity(Quantity),
    /// A share from 0 to 1, in upstream's precision.
    #[doc(alias = "Percentage")]
    Share(f32),
}

impl ThresholdValue {
    /// The amount for this capacity.
    #[doc(alias = "GetThresholdQuantity")]
    pub fn of(&self, capacity: i64) -> Quantity {
        match self {
            Self::Quantity(quantity) => quantity.clone(),
            Self::Share(share) => {
                #[expect(clippy::cast_precision_loss, reason = "as upstream: beyond 2^53 the last digits are lost")]
                let amount = capacity as f64 * f64::from(*share);
                #[expect(clippy::cast_possible_truncation, reason = "cut to whole units, as upstream")]
                let amount = amount as i64;
                Quantity::units(amount, Format::BinarySi)
            }
        }
    }
}

/// When a signal leads to eviction.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// What is measured.
    pub signal: Signal,
    /// Below this the threshold is met.
    pub value: ThresholdValue,
    /// How long it has to be met: zero for a hard threshold.
    pub grace: Duration,
    /// How much more has to be free until it no longer counts as met, once it has led to eviction.
    pub min_reclaim: Option<ThresholdValue>,
}

impl Threshold {
    /// Pods end at once, with the shortest grace.
    #[doc(alias = "isHardEvictionThreshold")]
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }
}

/// How eviction is configured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvictionPolicy {
    /// `evictionHard`, `evictionSoft`, `evictionSoftGracePeriod`, `evictionMinimumReclaim`.
    pub thresholds: Vec<Threshold>,
    /// `evictionPressureTransitionPeriod`.
    pub transition: Duration,
    /// `evictionMaxPodGracePeriod` in seconds.
    pub max_pod_grace: i64,
    /// `localStorageCapacityIsolation`: limits on local storage end pods.
    pub local_limits: bool,
}

impl EvictionPolicy {
    /// From the configuration. `ignore_eviction` is `--experimental-allocatable-ignore-eviction`.
    pub fn of(config: &KubeletConfiguration, ignore_eviction: bool) -> Result<Self, EvictionError> {
        let enforced = if ignore_eviction { &[][..] } else { config.enforce_node_allocatable.as_slice() };
        Ok(Self {
            thresholds: parse_thresholds(
                enforced,
                &config.eviction_hard,
                &config.eviction_soft,
                &config.eviction_soft_grace_period,
                &config.eviction_minimum_reclaim,
            )?,
            transition: config.eviction_pressure_transition_period.to_std(),
            max_pod_grace: i64::from(config.eviction_max_pod_grace_period),
            local_limits: config.local_storage_capacity_isolation,
        })
    }

    /// Nothing is to be done, ever.
    pub fn is_off(&self) -> bool {
        self.thresholds.is_empty() && !self.local_limits
    }
}

/// The thresholds of the configuration, hard ones first. A hard threshold on memory counts for the memory of all pods as well
/// where their limit is enforced.
/// upstream: eviction/helpers.go ParseThresholdConfig, addAllocatableThresholds (v1.36)
#[doc(alias = "ParseThresholdConfig")]
pub fn parse_thresholds(
    enforced: &[String],
    hard: &BTreeMap<String, String>,
    soft: &BTreeMap<String, String>,
    graces: &BTreeMap<String, String>,
    reclaims: &BTreeMap<String, String>,
) -> Result<Vec<Threshold>, EvictionError> {
    let mut all = statements(hard)?;
    let mut soft = statements(soft)?;
    let graces = parsed(graces, grace)?;
    let reclaims = parsed(reclaims, reclaim)?;
    for threshold in &mut soft {
        threshold.grace = *graces.get(&threshold.signal).ok_or(EvictionError::NoGrace(threshold.signal))?;
    }
    all.append(&mut soft);
    for threshold in &mut all {
        threshold.min_reclaim = reclaims.get(&threshold.signal).cloned();
    }
    if enforced.iter().any(|key| key == "pods") {
        let of_pods = all.iter().filter(|one| one.signal == Signal::MemoryAvailable && one.is_hard());
        let mut of_pods: Vec<Threshold> = of_pods.cloned().collect();
        of_pods.iter_mut().for_each(|one| one.signal = Signal::AllocatableMemoryAvailable);
        all.append(&mut of_pods);
    }
    Ok(all)
}

fn signal(name: &str) -> Result<Signal, EvictionError> {
    Signal::parse(name).ok_or_else(|| EvictionError::Signal(name.to_owned()))
}

fn parsed<T>(
    texts: &BTreeMap<String, String>,
    parse: impl Fn(Signal, &str) -> Result<T, EvictionError>,
) -> Result<BTreeMap<Signal, T>, EvictionError> {
    let one = |(name, text): (&String, &String)| {
        let signal = signal(name)?;
        Ok((signal, parse(signal, text)?))
    };
    texts.iter().map(one).collect()
}

fn statements(texts: &BTreeMap<String, String>) -> Result<Vec<Threshold>, EvictionError> {
    let mut found = Vec::new();
    for (name, text) in texts {
        let signal = signal(name)?;
        if let Some(value) = value(signal, text)? {
            found.push(Threshold { signal, value, grace: Duration::ZERO, min_reclaim: None });
        }
    }
    Ok(found)
}

/// `None` for 0 % and 100 %, which switch a threshold off.
fn value(signal: Signal, text: &str) -> Result<Option<ThresholdValue>, EvictionError> {
    if text.ends_with('%') {
        if matches!(text, "0%" | "100%") {
            return Ok(None);
        }
        let share = share(text)?;
        let shown = || text.to_owned();
        return match share {
            below if below < 0.0 => Err(EvictionError::ShareBelow { signal, text: shown() }),
            above if above > 1.0 => Err(EvictionError::ShareAbove { signal, text: shown() }),
            share => Ok(Some(ThresholdValue::Share(share))),
        };
    }
    let amount = quantity(signal, text)?;
    if amount.sign() <= 0 {
        return Err(EvictionError::NotPositive { signal, amount: amount.to_string() });
    }
    Ok(Some(ThresholdValue::Quantity(amount)))
}

fn quantity(signal: Signal, text: &str) -> Result<Quantity, EvictionError> {
    text.parse().map_err(|source| EvictionError::Quantity { signal, text: text.to_owned(), source })
}

fn share(text: &str) -> Result<f32, EvictionError> {
    let number = text.trim_end_matches('%');
    // Rust reads some words as numbers that Go reads too, and no more: `inf` and `NaN`. A threshold of either is refused.
    let share = number.parse::<f32>().ok().filter(|share| !share.is_nan());
    share.map(|share| share / 100.0).ok_or_else(|| EvictionError::Share(number.to_owned()))
}

fn grace(_: Signal, text: &str) -> Result<Duration, EvictionError> {
    let grace: GoDuration = text.parse().map_err(|_| EvictionError::Grace(text.to_owned()))?;
    if grace.is_negative() {
        return Err(EvictionError::NegativeGrace(text.to_owned()));
    }
    Ok(grace.to_std())
}

fn reclaim(signal: Signal, text: &str) -> Result<ThresholdValue, EvictionError> {
    if text.ends_with('%') {
        let share = share(text)?;
        if share <= 0.0 {
            return Err(EvictionError::ReclaimShare { signal, text: text.to_owned() });
        }
        return Ok(ThresholdValue::Share(share));
    }
    let amount = quantity(signal, text)?;
    if amount.sign() < 0 {
        return Err(EvictionError::NegativeReclaim(signal));
    }
    Ok(ThresholdValue::Quantity(amount))
}

/// The thresholds with those for writable layers, which are those of the file system that the layers are on; what the
/// configuration says of `containerfs` is ignored, as upstream.
/// upstream: eviction/helpers.go UpdateContainerFsThresholds (v1.36)
#[doc(alias = "UpdateContainerFsThresholds")]
pub(super) fn with_container_fs(thresholds: &[Threshold], layout: DiskLayout) -> Vec<Threshold> {
    let is_layers = |signal: Signal| matches!(signal, Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree);
    let mut all: Vec<Threshold> = thresholds.iter().filter(|one| !is_layers(one.signal)).cloned().collect();
    let (space, inodes) = match layout {
        DiskLayout::One | DiskLayout::SplitLayers => (Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
        DiskLayout::SeparateImages => (Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
    };
    for (from, to) in [(space, Signal::ContainerFsAvailable), (inodes, Signal::ContainerFsInodesFree)] {
        for hard in [true, false] {
            // Of two soft thresholds with different grace periods there can be only one per signal.
            let same = all.iter().rfind(|one| one.signal == from && one.is_hard() == hard).cloned();
            all.extend(same.map(|one| Threshold { signal: to, ..one }));
        }
    }
    all
}
