//! Fields that take one of a few values. An invalid value cannot be represented, so later code need not check for it.
//!
//! In a file the empty string means "the default", as it does for upstream's text fields.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use super::nearest::nearest;

/// A value that the field does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not one of {}{}", Listed(.valid), Guess(.word, .valid))]
pub struct WordError {
    /// The value.
    pub word: String,
    /// The allowed values.
    pub valid: &'static [&'static str],
}

struct Listed<'a>(&'a [&'static str]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

struct Guess<'a>(&'a str, &'a [&'static str]);

impl fmt::Display for Guess<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match nearest(self.0, self.1.iter().copied()) {
            Some(name) => write!(f, "; did you mean {name}?"),
            None => Ok(()),
        }
    }
}

/// A type made by `choice!`: its values, for help texts and messages.
pub trait Choice: Copy + Default + FromStr<Err = WordError> + 'static {
    /// The spelling of every value, in the order of the declaration.
    const WORDS: &'static [&'static str];

    /// The spelling of this value in files and flags.
    fn word(self) -> &'static str;
}

struct Word<C>(PhantomData<C>);

impl<C: Choice> de::Visitor<'_> for Word<C> {
    type Value = C;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", Listed(C::WORDS))
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<C, E> {
        if word.is_empty() { Ok(C::default()) } else { word.parse().map_err(E::custom) }
    }
}

macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// The spelling of this value in files and flags.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word,)+];

            fn word(self) -> &'static str {
                self.as_str()
            }
        }

        impl FromStr for $name {
            type Err = WordError;

            fn from_str(word: &str) -> Result<Self, WordError> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(WordError { word: word.to_owned(), valid: Self::WORDS }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Word::<Self>(PhantomData))
            }
        }
    };
}

choice! {
    /// The authorizer of the node's own API. The default is that of a configuration file (CFG-03).
    #[doc(alias = "KubeletAuthorizationMode")]
    AuthorizationMode {
        /// Ask the API server whether this request is allowed.
        #[default]
        Webhook = "Webhook",
        /// Every authenticated caller may do everything.
        AlwaysAllow = "AlwaysAllow",
    }
}

choice! {
    /// The cgroup driver: the kubelet writes cgroups itself, or systemd does. The runtime's driver overrides it (BOOT-05).
    CgroupDriver {
        /// Directories under the cgroup mount, created by the kubelet.
        #[default]
        Cgroupfs = "cgroupfs",
        /// Slices and scopes, made by systemd over D-Bus.
        Systemd = "systemd",
    }
}

choice! {
    /// Whether guaranteed pods get cpus of their own.
    CpuManagerPolicy {
        /// Every container runs on every shared cpu.
        #[default]
        None = "none",
        /// Guaranteed containers with whole-cpu requests get exclusive cpus.
        Static = "static",
    }
}

choice! {
    /// Whether guaranteed pods get memory of chosen NUMA nodes.
    MemoryManagerPolicy {
        /// The kernel chooses the NUMA node.
        #[default]
        None = "None",
        /// Guaranteed pods get memory from as few NUMA nodes as possible.
        Static = "Static",
    }
}

choice! {
    /// How cpu, memory and device placement are reconciled across NUMA nodes.
    TopologyPolicy {
        /// Placement is not reconciled.
        #[default]
        None = "none",
        /// Prefer aligned placement, admit the pod anyway.
        BestEffort = "best-effort",
        /// Reject the pod unless its placement is the preferred one.
        Restricted = "restricted",
        /// Reject the pod unless all fits on one NUMA node.
        SingleNumaNode = "single-numa-node",
    }
}

choice! {
    /// What is aligned as one by the topology policy.
    TopologyScope {
        /// Each container on its own.
        #[default]
        Container = "container",
        /// The whole pod.
        Pod = "pod",
    }
}

choice! {
    /// Hairpin NAT set-up; without effect, because CRI runtimes do their own networking.
    HairpinMode {
        /// The bridge itself is promiscuous.
        #[default]
        PromiscuousBridge = "promiscuous-bridge",
        /// Hairpin flag on each pod's interface.
        HairpinVeth = "hairpin-veth",
        /// No set-up.
        None = "none",
    }
}

choice! {
    /// How the kubelet learns that a ConfigMap or Secret changed.
    #[doc(alias = "ResourceChangeDetectionStrategy")]
    ChangeDetection {
        /// One watch per object that a pod of this node uses.
        #[default]
        Watch = "Watch",
        /// A cache that expires.
        Cache = "Cache",
        /// A read from the API server each time.
        Get = "Get",
    }
}

choice! {
    /// For which images already on the node a pod must still prove that it may pull them.
    #[doc(alias = "ImagePullCredentialsVerificationPolicy")]
    ImageCredentialPolicy {
        /// For all but those that were there before the kubelet pulled anything.
        #[default]
        NeverVerifyPreloadedImages = "NeverVerifyPreloadedImages",
        /// For none.
        NeverVerify = "NeverVerify",
        /// For all but those on the allowlist.
        NeverVerifyAllowlistedImages = "NeverVerifyAllowlistedImages",
        /// For all.
        AlwaysVerify = "AlwaysVerify",
    }
}

choice! {
    /// Which of a pod's memory is protected from reclaim under MemoryQoS.
    MemoryReservationPolicy {
        /// None of it.
        #[default]
        None = "None",
        /// Guaranteed pods' memory hard, burstable pods' soft.
        TieredReservation = "TieredReservation",
    }
}

choice! {
    /// Whether pods may use swap. In a file, empty means the same as `NoSwap`.
    SwapBehavior {
        /// Pods do not swap.
        #[default]
        NoSwap = "NoSwap",
        /// Burstable pods may swap in proportion to their memory request.
        LimitedSwap = "LimitedSwap",
    }
}

choice! {
    /// How log lines are written.
    LogFormat {
        /// A line for people.
        #[default]
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}
