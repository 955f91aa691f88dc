//! Reading a quantity: the number, its suffix, and whether 64 bits are enough.

use std::str::FromStr;

use super::{Amount, Format, NANO, Quantity, QuantityError, pow10, round_dec};

/// Decimal digits that always fit 64 bits.
const INT_DIGITS: i32 = 18;
/// The same with room for a binary suffix.
const BINARY_DIGITS: i32 = 14;

/// Leaves room for the two zeros that the canonical text may need, so that what is printed can be read again.
const MAX_NUMBER: i128 = 10_i128.pow(36);

/// A quantity cut up, nothing converted yet.
struct Scanned<'a> {
    negative: bool,
    /// Whole digits without leading zeros, at least one.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// What a suffix stands for.
enum Unit {
    Ten { exponent: i32, format: Format },
    Two { exponent: u32 },
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        if text == "0" {
            let amount = Amount::Int { value: 0, scale: 0 };
            return Ok(Self { amount, format: Format::DecimalSi, text: Some(text.to_owned()) });
        }
        let scanned = scan(text)?;
        let unit = unit(scanned.suffix)?;
        match as_int(&scanned, &unit) {
            Some((amount, canonical)) => {
                let format = match unit {
                    Unit::Ten { format, .. } => format,
                    Unit::Two { .. } => Format::BinarySi,
                };
                Ok(Self { amount, format, text: canonical.then(|| text.to_owned()) })
            }
            None => as_decimal(&scanned, &unit),
        }
    }
}

fn scan(text: &str) -> Result<Scanned<'_>, QuantityError> {
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
    let (whole, rest) = digits(rest);
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok(Scanned { negative, whole, fraction, suffix })
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn unit(suffix: &str) -> Result<Unit, QuantityError> {
    let ten = |exponent| Ok(Unit::Ten { exponent, format: Format::DecimalSi });
    let two = |exponent| Ok(Unit::Two { exponent });
    match suffix {
        "n" => ten(-9),
        "u" => ten(-6),
        "m" => ten(-3),
        "" => ten(0),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => two(10),
        "Mi" => two(20),
        "Gi" => two(30),
        "Ti" => two(40),
        "Pi" => two(50),
        "Ei" => two(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E']).and_then(|digits| digits.parse().ok());
            let exponent = exponent.ok_or(QuantityError::Suffix)?;
            Ok(Unit::Ten { exponent, format: Format::DecimalExponent })
        }
    }
}

/// The 64-bit form, and whether the text was canonical; `None` when the number may not fit.
fn as_int(scanned: &Scanned<'_>, unit: &Unit) -> Option<(Amount, bool)> {
    let length = |text: &str| i32::try_from(text.len()).unwrap_or(i32::MAX);
    let (whole, fraction) = (length(scanned.whole), length(scanned.fraction));
    let (room, factor, exponent) = match *unit {
        Unit::Ten { exponent, .. } => (INT_DIGITS.saturating_sub(whole.saturating_add(fraction)), 1, exponent),
        Unit::Two { .. } if fraction > 0 => return None,
        Unit::Two { exponent } => {
            // 2^10 is about three decimal digits.
            let taken = i32::try_from(exponent * 3 / 10).ok()?;
            (BINARY_DIGITS.saturating_sub(whole.saturating_add(taken)), 1_i64.checked_shl(exponent)?, 0)
        }
    };
    let scale = exponent.saturating_sub(fraction);
    if room < 0 || scale < NANO {
        return None;
    }
    let digits = [scanned.whole, scanned.fraction].concat();
    let number: i64 = digits.parse().ok()?;
    let value = number.checked_mul(factor)?;
    let value = if scanned.negative { -value } else { value };
    let canonical = match unit {
        Unit::Two { .. } => number & 7 != 0,
        Unit::Ten { .. } => scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0'),
    };
    Some((Amount::Int { value, scale }, canonical))
}

fn as_decimal(scanned: &Scanned<'_>, unit: &Unit) -> Result<Quantity, QuantityError> {
    let digits = [scanned.whole, scanned.fraction].concat();
    let number: i128 = digits.parse().map_err(|_| QuantityError::TooLarge)?;
    if number >= MAX_NUMBER {
        return Err(QuantityError::TooLarge);
    }
    let places = i32::try_from(scanned.fraction.len()).map_err(|_| QuantityError::TooLarge)?;
    let (amount, format) = match *unit {
        Unit::Ten { exponent, format } => (nano(number, places.saturating_sub(exponent)), format),
        Unit::Two { exponent } => binary(number, places, exponent),
    };
    let amount = match (scanned.negative, amount) {
        (true, Amount::Dec { unscaled, scale }) => Amount::Dec { unscaled: -unscaled, scale },
        (_, amount) => amount,
    };
    Ok(Quantity { amount, format, text: None })
}

/// Amounts finer than 10^-9 are rounded up, so that a small request does not become zero.
fn nano(number: i128, places: i32) -> Amount {
    match number {
        0 => Amount::Dec { unscaled: 0, scale: places },
        number => round_dec(number, places, -NANO),
    }
}

/// Binary quantities end at 2^63 - 1; below one they are written in decimal.
fn binary(number: i128, places: i32, exponent: u32) -> (Amount, Format) {
    let max = i128::from(i64::MAX);
    let one = pow10(-NANO).unwrap_or(i128::MAX);
    let capped = Amount::Dec { unscaled: max, scale: 0 };
    match number.checked_mul(1_i128 << exponent).map(|number| nano(number, places)) {
        Some(Amount::Dec { unscaled, scale: 9 }) if unscaled > 0 && unscaled < one => {
            (Amount::Dec { unscaled, scale: 9 }, Format::DecimalSi)
        }
        Some(Amount::Dec { unscaled: 0, scale }) => (Amount::Dec { unscaled: 0, scale }, Format::BinarySi),
        Some(Amount::Dec { unscaled, scale: 9 }) if unscaled <= max * one => {
            (Amount::Dec { unscaled, scale: 9 }, Format::BinarySi)
        }
        // Anything else was too large for nine places, or for any.
        Some(_) | None => (capped, Format::BinarySi),
    }
}
