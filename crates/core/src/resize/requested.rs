//! The amounts that an update of a pod requests to change, one by one (RSZ-12).

use k8s_openapi::api::core::v1::{Container, Pod};

use super::{limits, requests};
use crate::pod::PodExt;
use crate::resources::{Amount, CPU, MEMORY};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The label of upstream's metric.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

words! {
    /// The resource.
    Resized {
        /// Processor time.
        Cpu = CPU,
        /// Memory.
        Memory = MEMORY,
    }
}

words! {
    /// The list that has the amount.
    Requirement {
        /// The most that the container may use.
        Limits = "limits",
        /// What is reserved for the container.
        Requests = "requests",
    }
}

words! {
    /// How the amount changes.
    Change {
        /// The amount is new.
        Add = "add",
        /// The amount gets smaller.
        Decrease = "decrease",
        /// The amount gets larger.
        Increase = "increase",
        /// The amount is gone.
        Remove = "remove",
    }
}

/// A requested change of one amount of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested {
    /// The resource.
    pub resource: Resized,
    /// The list that has the amount.
    pub requirement: Requirement,
    /// How the amount changes.
    pub change: Change,
}

/// The amounts in which `new` differs from `old`. Ephemeral containers cannot be resized.
///
/// upstream: kubelet.go recordContainerResizeOperations (v1.36)
pub fn requested(old: &Pod, new: &Pod) -> Vec<Requested> {
    let pairs = [(old.init(), new.init()), (old.regular(), new.regular())];
    let mut all = Vec::new();
    for (old, new) in pairs {
        for before in old {
            let Some(after) = new.iter().find(|c| c.name == before.name) else { continue };
            for resource in Resized::ALL {
                for requirement in Requirement::ALL {
                    let amount = |of| amount(of, *resource, *requirement);
                    if let Some(change) = change(amount(before), amount(after)) {
                        all.push(Requested { resource: *resource, requirement: *requirement, change });
                    }
                }
            }
        }
    }
    all
}

fn amount(container: &Container, resource: Resized, requirement: Requirement) -> Amount {
    let pick = match requirement {
        Requirement::Limits => limits,
        Requirement::Requests => requests,
    };
    let list = container.resources.as_ref().and_then(pick);
    list.and_then(|list| list.get(resource.as_str())).map(Amount::of).unwrap_or_default()
}

fn change(old: Amount, new: Amount) -> Option<Change> {
    match (old == Amount::ZERO, new == Amount::ZERO) {
        (false, true) => Some(Change::Remove),
        (true, false) => Some(Change::Add),
        (true, true) => None,
        (false, false) if new < old => Some(Change::Decrease),
        (false, false) if new > old => Some(Change::Increase),
        (false, false) => None,
    }
}
