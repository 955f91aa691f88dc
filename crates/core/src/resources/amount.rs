//! One quantity, exact.

use std::fmt;
use std::ops::{Add, Sub};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Billionths in one unit: the finest grain that the API knows.
const NANOS: i128 = 1_000_000_000;
/// The greatest amount: the API cuts what is larger.
const MAX_NANOS: i128 = (i64::MAX as i128) * NANOS;

/// An amount of some resource, exact to a billionth, as the API's quantities are.
#[doc(alias = "resource.Quantity")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Amount(i128);

/// Text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// It is not a number with a suffix.
    #[error("{0:?} is not a quantity")]
    Format(String),
    /// It is a number, but what follows is not a suffix.
    #[error("{0:?} has an unknown suffix {1:?}")]
    Suffix(String, String),
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// This many whole units.
    pub const fn units(value: i64) -> Self {
        Self(value as i128 * NANOS)
    }

    /// This many thousandths.
    pub const fn from_millis(value: i64) -> Self {
        Self(value as i128 * (NANOS / 1000))
    }

    /// Reads the API's text. What is finer than a billionth is rounded away from zero; what is too large is cut (upstream
    /// lets it overflow).
    ///
    /// upstream: apimachinery/pkg/api/resource/quantity.go ParseQuantity (v1.36)
    pub fn parse(text: &str) -> Result<Self, AmountError> {
        let format = || AmountError::Format(text.to_owned());
        let (negative, body) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        let digits_end = body.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(body.len());
        let (number, suffix) = body.split_at(digits_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // A suffix, sign or point without digits is nothing, as upstream has it; no text at all is refused.
        if text.is_empty() || fraction.contains('.') {
            return Err(format());
        }
        let Some(scale) = Scale::parse(suffix) else {
            return Err(AmountError::Suffix(text.to_owned(), suffix.to_owned()));
        };
        let nanos = scale.nanos(whole, fraction);
        Ok(Self(if negative { -nanos } else { nanos }))
    }

    /// Reads the API's object; text that is no quantity counts as nothing, for it cannot have passed validation.
    pub fn of(quantity: &Quantity) -> Self {
        Self::parse(&quantity.0).unwrap_or_default()
    }

    /// In whole units, rounded away from zero.
    #[doc(alias = "Value")]
    pub fn value(self) -> i64 {
        self.in_units_of(NANOS)
    }

    /// In thousandths, rounded away from zero.
    #[doc(alias = "MilliValue")]
    pub fn millis(self) -> i64 {
        self.in_units_of(NANOS / 1000)
    }

    /// Nothing at all.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// More than nothing.
    pub fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// As it is, or nothing if it is less than that.
    #[must_use]
    pub fn not_negative(self) -> Self {
        self.max(Self::ZERO)
    }

    fn in_units_of(self, nanos: i128) -> i64 {
        let whole = self.0 / nanos;
        let rounded = whole + (self.0 % nanos).signum();
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// In the coarsest of whole units, thousandths, millionths, billionths that is exact; reading it gives it back.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nanos, suffix) in [(NANOS, ""), (1_000_000, "m"), (1000, "u")] {
            if self.0 % nanos == 0 {
                return write!(f, "{}{suffix}", self.0 / nanos);
            }
        }
        write!(f, "{}n", self.0)
    }
}

impl From<Amount> for Quantity {
    fn from(amount: Amount) -> Self {
        Self(amount.to_string())
    }
}

/// What a suffix multiplies by.
enum Scale {
    /// A power of ten.
    Decimal(i32),
    /// A power of 1024.
    Binary(u32),
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(1),
            "Mi" => Self::Binary(2),
            "Gi" => Self::Binary(3),
            "Ti" => Self::Binary(4),
            "Pi" => Self::Binary(5),
            "Ei" => Self::Binary(6),
            exponent => {
                let digits = exponent.strip_prefix(['e', 'E'])?;
                Self::Decimal(digits.parse().ok()?)
            }
        })
    }

    /// `whole.fraction` on this scale, in billionths, rounded up and cut to what the API can hold.
    fn nanos(self, whole: &str, fraction: &str) -> i128 {
        match self {
            // All digits as one integer, then the decimal point moves.
            Self::Decimal(exponent) => {
                let places = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
                shift(whole.bytes().chain(fraction.bytes()), i64::from(exponent) + 9 - places)
            }
            Self::Binary(power) => {
                let unit = 1_i128 << (10 * power);
                let whole = shift(whole.bytes(), 0).saturating_mul(unit).saturating_mul(NANOS);
                whole.saturating_add(fraction_of(fraction, unit)).min(MAX_NANOS)
            }
        }
    }
}

/// The integer of these digits times ten to the power `exponent`, rounded up and cut.
fn shift(digits: impl Iterator<Item = u8>, exponent: i64) -> i128 {
    let mut digits: Vec<u8> = digits.skip_while(|d| *d == b'0').collect();
    if digits.is_empty() {
        return 0;
    }
    let mut up = false;
    if exponent < 0 {
        let dropped = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
        let kept = digits.len().saturating_sub(dropped);
        up = digits.split_off(kept).iter().any(|d| *d != b'0');
    }
    let mut sum = digits.iter().fold(0_i128, |sum, d| sum.saturating_mul(10).saturating_add(i128::from(d - b'0')));
    if exponent > 0 {
        let power = u32::try_from(exponent).ok().and_then(|e| 10_i128.checked_pow(e)).unwrap_or(i128::MAX);
        sum = sum.saturating_mul(power);
    }
    sum.saturating_add(i128::from(up)).min(MAX_NANOS)
}

/// `0.fraction × unit` in billionths, rounded up.
fn fraction_of(fraction: &str, unit: i128) -> i128 {
    let mut nanos = 0_i128;
    let mut rest = 0_i128;
    // Digit by digit from the right, so that nothing overflows: each step holds less than ten units.
    for digit in fraction.bytes().rev() {
        let here = i128::from(digit - b'0') * unit * NANOS + nanos;
        nanos = here / 10;
        rest = rest.max(i128::from(here % 10 != 0));
    }
    nanos + rest
}
