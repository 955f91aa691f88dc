//! Finds the functions that were on a stack, from a copy of it.
//!
//! The tables are those by which panics unwind, which are in every build. A frame that has none, or whose rules are more than
//! "so many bytes from a register", ends the stack there.

use std::collections::BTreeMap;
use std::path::Path;

use gimli::{CfaRule, Register, RegisterRule, UnwindContext};
use rubelet_core::profile::{Mapping, Profile, ProfileKind, ProfileSample};

use super::capture::{Block, Taken};
use super::modules::{Module, modules};
use super::registers::{RETURN_ADDRESS, Registers, STACK_POINTER};

/// Most functions of one stack.
const DEEPEST: usize = 192;
/// Most samples of the heap whose blocks are remembered until the end of the profile.
const MOST_BLOCKS: usize = 1 << 16;

/// What was counted on each stack.
pub(super) struct Stacks {
    modules: BTreeMap<u64, Module>,
    context: UnwindContext<usize>,
    places: BTreeMap<Vec<u64>, usize>,
    /// The samples of each stack.
    counts: Vec<u64>,
    blocks: Vec<(usize, Block)>,
    pub(super) lost: u64,
}

impl Stacks {
    pub(super) fn new(proc_self: &Path) -> Self {
        Self {
            modules: modules(proc_self),
            context: UnwindContext::new(),
            places: BTreeMap::new(),
            counts: Vec::new(),
            blocks: Vec::new(),
            lost: 0,
        }
    }

    /// Counts one sample.
    pub(super) fn add(&mut self, taken: &Taken) {
        let mut stack = self.unwind(taken);
        if taken.block != Block::default() {
            // The innermost function is the one that took the sample.
            stack.remove(0);
        }
        let next = self.counts.len();
        let place = *self.places.entry(stack).or_insert(next);
        match self.counts.get_mut(place) {
            Some(count) => *count += 1,
            None => self.counts.push(1),
        }
        if taken.block == Block::default() {
            return;
        }
        if self.blocks.len() < MOST_BLOCKS {
            self.blocks.push((place, taken.block));
        } else {
            self.lost += 1;
        }
    }

    fn unwind(&mut self, taken: &Taken) -> Vec<u64> {
        let (stack, begin) = (taken.stack(), taken.registers.stack_pointer());
        let mut registers = taken.registers;
        let mut found = vec![registers.pc];
        while found.len() < DEEPEST {
            // A return address is behind the call, which may be the last instruction of its function.
            let at = if found.len() == 1 { registers.pc } else { registers.pc.wrapping_sub(1) };
            let Some(caller) = self.caller(&registers, at, |address| word(stack, begin, address)) else { break };
            if caller.pc == 0 || (caller.stack_pointer(), caller.pc) == (registers.stack_pointer(), registers.pc) {
                break;
            }
            registers = caller;
            found.push(registers.pc.wrapping_sub(1));
        }
        found
    }

    /// The registers as they were in the caller.
    fn caller(&mut self, registers: &Registers, at: u64, word: impl Fn(u64) -> Option<u64>) -> Option<Registers> {
        let (_, module) = self.modules.range(..=at).next_back().filter(|(_, module)| at < module.mapping.end)?;
        let row = module.row(&mut self.context, at)?;
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
        let frame = registers.get(register.0)?.checked_add_signed(*offset)?;
        let mut caller = *registers;
        let mut back = registers.get(RETURN_ADDRESS).filter(|_| cfg!(target_arch = "aarch64"));
        for (register, rule) in row.registers() {
            let value = match rule {
                RegisterRule::Offset(offset) => word(frame.checked_add_signed(*offset)?)?,
                RegisterRule::ValOffset(offset) => frame.checked_add_signed(*offset)?,
                RegisterRule::Register(other) => registers.get(other.0)?,
                RegisterRule::SameValue => registers.get(register.0)?,
                // The outermost function has no caller.
                _ if *register == Register(RETURN_ADDRESS) => return None,
                _ => continue,
            };
            if *register == Register(RETURN_ADDRESS) {
                back = Some(value);
            } else {
                caller.set(register.0, value);
            }
        }
        caller.set(STACK_POINTER, frame);
        caller.pc = back?;
        Some(caller)
    }

    /// The profile. `in_use` says which blocks have not been freed.
    pub(super) fn profile(
        self,
        kind: ProfileKind,
        (began, lasted): (jiff::Timestamp, std::time::Duration),
        in_use: impl Fn(&Block) -> bool,
    ) -> Profile {
        let values = match kind {
            ProfileKind::Cpu { every } => {
                let nanos = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
                self.counts.iter().map(|count| vec![*count, count.saturating_mul(nanos)]).collect()
            }
            ProfileKind::Heap { .. } => self.of_blocks(in_use),
        };
        let mut samples: Vec<ProfileSample> = self
            .places
            .into_iter()
            .map(|(stack, place)| (place, stack))
            .collect::<BTreeMap<_, _>>()
            .into_values()
            .zip(values)
            .map(|(stack, values)| ProfileSample { stack, values })
            .collect();
        samples.sort_by(|a, b| b.values.cmp(&a.values));
        let mut addresses: Vec<u64> = samples.iter().flat_map(|sample| sample.stack.iter().copied()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut functions = BTreeMap::new();
        self.modules.values().for_each(|module| module.name(&addresses, &mut functions));
        let mappings: Vec<Mapping> = self.modules.into_values().map(|module| module.mapping).collect();
        Profile { kind, began, lasted, samples, mappings, functions, lost: self.lost }
    }

    fn of_blocks(&self, in_use: impl Fn(&Block) -> bool) -> Vec<Vec<u64>> {
        let mut values = vec![vec![0_u64; 4]; self.counts.len()];
        for (place, block) in &self.blocks {
            let objects = (block.bytes / block.size.max(1)).max(1);
            let live = if in_use(block) { (objects, block.bytes) } else { (0, 0) };
            for (value, more) in
                values.get_mut(*place).into_iter().flatten().zip([objects, block.bytes, live.0, live.1])
            {
                *value = value.saturating_add(more);
            }
        }
        values
    }
}

/// Eight bytes of the copied stack.
fn word(stack: &[u8], begin: u64, address: u64) -> Option<u64> {
    let at = usize::try_from(address.checked_sub(begin)?).ok()?;
    let bytes = stack.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}
