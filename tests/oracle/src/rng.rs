//! Chance for the generators: small, fast, and the same on every machine.

/// `SplitMix64`. Every case has a generator of its own, so that a case is made anew from its seed and its number alone.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of case number `index` of the function called `name`.
    pub fn of_case(seed: u64, name: &str, index: u64) -> Self {
        let mut mixed = Self(seed ^ rubelet_core::hash::fnv64a(name.bytes()));
        let start = mixed.next_u64();
        Self(start ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.next_u64() % bound).unwrap_or_default()
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = u64::try_from(high.saturating_sub(low)).unwrap_or_default().saturating_add(1);
        low.saturating_add(i64::try_from(self.next_u64() % width).unwrap_or_default())
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        choices.get(self.below(choices.len())).expect("there is something to choose from")
    }

    /// One of `choices`, each as often as its weight says.
    ///
    /// # Panics
    /// If there are none.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut at = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            if at < *weight {
                return *choice;
            }
            at -= weight;
        }
        choices.first().expect("there is something to choose from").1
    }
}
