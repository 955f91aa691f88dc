//! Resource quantities as upstream holds them: a scaled integer where 64 bits do, a big decimal where they do not, and
//! the notation they were written in.
//!
//! How a quantity is held shows in the UID of a static pod, so `0.1` and `100m` are equal here but not alike.
//! upstream: apimachinery/pkg/api/resource quantity.go, amount.go (v1.36)

use std::cmp::Ordering;
use std::fmt;

mod parse;
#[cfg(test)]
mod tests;

/// 10^-9: nothing finer survives parsing.
const NANO: i32 = -9;
/// Thousandths: nothing finer survives in a resource list.
pub const MILLI: i32 = -3;

/// An exact decimal number with the notation it was written in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text it was parsed from, if that was canonical already.
    text: Option<String>,
}

/// Which suffixes a quantity is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    /// value × 10^scale
    Int { value: i64, scale: i32 },
    /// unscaled × 10^-scale
    Dec { unscaled: i128, scale: i32 },
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not look like a number with an optional suffix.
    #[error("must be a number with an optional suffix such as m, k, M, Gi or e3")]
    Format,
    /// The number is fine, the suffix unknown.
    #[error("has an unknown suffix; known are n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei and e<number>")]
    Suffix,
    /// More digits than can be held.
    #[error("has too many digits")]
    TooLarge,
}

impl Format {
    /// Upstream's name of the notation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DecimalExponent => "DecimalExponent",
            Self::BinarySi => "BinarySI",
            Self::DecimalSi => "DecimalSI",
        }
    }
}

impl Quantity {
    /// This many whole units, in this notation.
    #[must_use]
    pub fn units(value: i64, format: Format) -> Self {
        Self { amount: Amount::Int { value, scale: 0 }, format, text: None }
    }

    /// The same number in another notation.
    #[must_use]
    pub fn with_format(self, format: Format) -> Self {
        Self { format, text: None, ..self }
    }

    /// The notation.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The number rounded away from zero to whole units; capped at what 64 bits hold.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The number rounded away from zero to thousandths; capped at what 64 bits hold.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(MILLI)
    }

    /// Whether the number, rounded away from zero to thousandths, has no fraction. Exact beyond 64 bits.
    pub(super) fn is_whole(&self) -> bool {
        self.scaled(MILLI).is_some_and(|thousandths| thousandths % 1000 == 0)
    }

    /// Whether the number, rounded away from zero to whole units, is a multiple of that many units. Exact beyond 64 bits.
    pub(super) fn is_multiple_of(&self, units: i64) -> bool {
        self.scaled(0).and_then(|whole| whole.checked_rem(units.into())) == Some(0)
    }

    fn scaled_value(&self, scale: i32) -> i64 {
        let cap = if self.sign() < 0 { -i64::MAX } else { i64::MAX };
        self.scaled(scale).and_then(|value| i64::try_from(value).ok()).unwrap_or(cap)
    }

    fn scaled(&self, scale: i32) -> Option<i128> {
        let (unscaled, own) = self.parts();
        let shift = own.saturating_sub(scale);
        if shift >= 0 {
            pow10(shift).and_then(|factor| unscaled.checked_mul(factor))
        } else {
            Some(divide_away_from_zero(unscaled, shift.saturating_neg()))
        }
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(&self) -> i32 {
        match self.parts().0.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// Compares the numbers, however they are held or written.
    #[must_use]
    pub fn cmp_value(&self, other: &Self) -> Ordering {
        let ((left, left_scale), (right, right_scale)) = (self.parts(), other.parts());
        let common = left_scale.min(right_scale);
        let lift = |value: i128, scale: i32| pow10(scale.saturating_sub(common)).and_then(|f| value.checked_mul(f));
        match (lift(left, left_scale), lift(right, right_scale)) {
            (Some(left), Some(right)) => left.cmp(&right),
            // What does not fit is the larger in magnitude, unless it is zero, and zero always fits.
            (None, _) => left.cmp(&0),
            (_, None) => 0.cmp(&right),
        }
    }

    /// Holds the number as a big decimal if `other` is held so: upstream's comparison does that to the number it is called
    /// on, and it shows in the hash.
    pub(super) fn promote_like(&mut self, other: &Self) {
        if let (Amount::Int { value, scale }, Amount::Dec { .. }) = (self.amount, other.amount) {
            self.amount = Amount::Dec { unscaled: i128::from(value), scale: scale.saturating_neg() };
        }
    }

    /// Adds in place, as upstream sums the containers of a pod.
    pub fn add(&mut self, other: &Self) {
        self.text = None;
        if self.sign() == 0 {
            self.format = other.format;
        }
        if let (Amount::Int { value: left, scale: own }, Amount::Int { value: right, scale }) =
            (self.amount, other.amount)
            && let Some(sum) = add_ints((left, own), (right, scale))
        {
            self.amount = sum;
            return;
        }
        let ((left, own), (right, scale)) = (self.parts(), other.parts());
        let common = own.min(scale);
        let lift = |value: i128, scale: i32| {
            pow10(scale.saturating_sub(common)).and_then(|f| value.checked_mul(f)).unwrap_or(i128::MAX)
        };
        let unscaled = lift(left, own).saturating_add(lift(right, scale));
        self.amount = Amount::Dec { unscaled, scale: common.saturating_neg() };
    }

    /// Rounds away from zero to a multiple of 10^scale, if it is finer than that.
    pub fn round_up(&mut self, scale: i32) {
        match self.amount {
            Amount::Dec { unscaled, scale: own } => {
                self.text = None;
                self.amount = round_dec(unscaled, own, scale.saturating_neg());
            }
            Amount::Int { value, scale: own } if own < scale => {
                self.text = None;
                let rounded = divide_away_from_zero(i128::from(value), scale.saturating_sub(own));
                // Upstream stops dividing at zero and then forgets the scale's sign; the number is the same.
                self.amount = Amount::Int { value: i64::try_from(rounded).unwrap_or(value), scale };
            }
            Amount::Int { .. } => {}
        }
    }

    /// unscaled × 10^scale
    fn parts(&self) -> (i128, i32) {
        match self.amount {
            Amount::Int { value, scale } => (i128::from(value), scale),
            Amount::Dec { unscaled, scale } => (unscaled, scale.saturating_neg()),
        }
    }

    /// Prints the quantity as upstream's Go value is dumped for hashing.
    pub(super) fn dump(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let (value, scale) = match self.amount {
            Amount::Int { value, scale } => (value, scale),
            Amount::Dec { .. } => (0, 0),
        };
        write!(out, "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}}")?;
        out.write_str(" d:(resource.infDecAmount){Dec:(*inf.Dec)")?;
        match self.amount {
            Amount::Int { .. } => out.write_str("<nil>")?,
            Amount::Dec { unscaled, scale } => {
                write!(out, "{{unscaled:(big.Int){{neg:(bool){} abs:(big.nat)", unscaled < 0)?;
                let magnitude = unscaled.unsigned_abs();
                let (low, high) = (magnitude & u128::from(u64::MAX), magnitude >> 64);
                match (low, high) {
                    (0, 0) => out.write_str("<nil>")?,
                    (low, 0) => write!(out, "[{low}]")?,
                    (low, high) => write!(out, "[{low} {high}]")?,
                }
                write!(out, "}} scale:(inf.Scale){scale}}}")?;
            }
        }
        let text = self.text.as_deref().unwrap_or_default();
        write!(out, "}} s:(string){text} Format:(resource.Format){}}}", self.format.as_str())
    }
}

/// The canonical text: no fraction, and as large a suffix as loses nothing.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        let (unscaled, scale) = self.parts();
        if unscaled == 0 {
            return f.write_str("0");
        }
        let whole = pow10(scale).and_then(|factor| unscaled.checked_mul(factor)).or_else(|| {
            let divisor = pow10(scale.saturating_neg())?;
            (unscaled % divisor == 0).then_some(unscaled / divisor)
        });
        if let (Format::BinarySi, Some(whole)) = (self.format, whole)
            && whole.unsigned_abs() >= 1024
        {
            return write_binary(f, whole);
        }
        write_decimal(f, unscaled, scale, self.format)
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut whole: i128) -> fmt::Result {
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter().peekable();
    let mut suffix = suffixes.next().unwrap_or_default();
    while whole % 1024 == 0
        && let Some(next) = suffixes.next()
    {
        (whole, suffix) = (whole / 1024, next);
    }
    write!(f, "{whole}{suffix}")
}

fn write_decimal(f: &mut fmt::Formatter<'_>, mut digits: i128, mut exponent: i32, format: Format) -> fmt::Result {
    while digits % 10 == 0 {
        (digits, exponent) = (digits / 10, exponent.saturating_add(1));
    }
    let zeros = usize::try_from(exponent.rem_euclid(3)).unwrap_or_default();
    exponent = exponent.saturating_sub(exponent.rem_euclid(3));
    let pad = "0".repeat(zeros);
    let si = match exponent {
        -9 => Some("n"),
        -6 => Some("u"),
        -3 => Some("m"),
        0 => Some(""),
        3 => Some("k"),
        6 => Some("M"),
        9 => Some("G"),
        12 => Some("T"),
        15 => Some("P"),
        18 => Some("E"),
        _ => None,
    };
    match (format, si) {
        (Format::DecimalSi | Format::BinarySi, Some(suffix)) => write!(f, "{digits}{pad}{suffix}"),
        (_, _) if exponent == 0 => write!(f, "{digits}{pad}"),
        (_, _) => write!(f, "{digits}{pad}e{exponent}"),
    }
}

/// `None` when the sum needs more than 64 bits at the finer scale.
fn add_ints((left, left_scale): (i64, i32), (right, right_scale): (i64, i32)) -> Option<Amount> {
    if right == 0 {
        return Some(Amount::Int { value: left, scale: left_scale });
    }
    if left == 0 {
        return Some(Amount::Int { value: right, scale: right_scale });
    }
    let scale = left_scale.min(right_scale);
    let lift = |value: i64, own: i32| {
        let factor = i64::try_from(pow10(own.saturating_sub(scale))?).ok()?;
        value.checked_mul(factor)
    };
    Some(Amount::Int { value: lift(left, left_scale)?.checked_add(lift(right, right_scale)?)?, scale })
}

/// The decimal at exactly `to` digits after the point, rounded away from zero.
fn round_dec(unscaled: i128, scale: i32, to: i32) -> Amount {
    let shift = to.saturating_sub(scale);
    let lifted = if shift >= 0 {
        pow10(shift).and_then(|factor| unscaled.checked_mul(factor))
    } else {
        Some(divide_away_from_zero(unscaled, shift.saturating_neg()))
    };
    match lifted {
        Some(unscaled) => Amount::Dec { unscaled, scale: to },
        None => Amount::Dec { unscaled, scale },
    }
}

fn divide_away_from_zero(value: i128, places: i32) -> i128 {
    let Some(divisor) = pow10(places) else { return value.signum() };
    let (quotient, rest) = (value / divisor, value % divisor);
    if rest == 0 { quotient } else { quotient + value.signum() }
}

/// `None` for negative exponents too: callers divide then.
fn pow10(exponent: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(exponent).ok()?)
}
