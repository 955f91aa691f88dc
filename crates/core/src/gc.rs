//! Which dead containers and sandboxes are removed (section 18).
#![expect(missing_docs, reason = "stub")]
use crate::id::*;
use crate::observe::PodSummary;
pub struct DeadPolicy {
    pub min_age: std::time::Duration,
    pub per_container: i32,
    pub in_all: i32,
}
pub struct PodFacts {
    pub keep: bool,
    pub busy: bool,
}
#[derive(Default, Debug, Clone)]
pub struct Garbage {
    pub containers: Vec<DeadContainer>,
    pub sandboxes: Vec<SandboxId>,
}
#[derive(Debug, Clone)]
pub struct DeadContainer {
    pub pod: PodRef,
    pub name: String,
    pub id: ContainerId,
    pub restart_count: u32,
}
impl Garbage {
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.sandboxes.is_empty()
    }
}
pub fn dead_containers<'a>(
    _p: impl Iterator<Item = &'a PodSummary>,
    _f: impl Fn(&PodUid) -> PodFacts,
    _pol: &DeadPolicy,
    _now: jiff::Timestamp,
) -> Garbage {
    Garbage::default()
}
