//! Quantities, with upstream's canonical forms as the table.

use std::cmp::Ordering;

use super::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn quantities_print_in_canonical_form() {
    // upstream: resource/quantity_test.go TestQuantityParseEmit and the like (v1.36)
    for (text, canonical) in [
        ("0", "0"),
        ("0.1", "100m"),
        ("100m", "100m"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1Ki", "1Ki"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1000", "1k"),
        ("1000k", "1M"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("1e-3", "1e-3"),
        ("100.0005", "100000500u"),
        ("00.10", "100m"),
        ("1.", "1."),
        (".5", "500m"),
        ("+5", "+5"),
        ("-1.5Gi", "-1536Mi"),
        ("0.0001Ki", "102400u"),
        ("9Ei", "9223372036854775807"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("123456789012345678901", "123456789012345678901"),
        // Every suffix, written with more digits than it needs.
        ("1000n", "1u"),
        ("1000u", "1m"),
        ("1000m", "1"),
        ("1000M", "1G"),
        ("1000G", "1T"),
        ("1000T", "1P"),
        ("1000P", "1E"),
        ("10P", "10P"),
        ("0.001T", "1G"),
        ("0.001P", "1T"),
        ("0.001E", "1P"),
        ("1024Mi", "1Gi"),
        ("1024Gi", "1Ti"),
        ("1024Ti", "1Pi"),
        ("0.5Pi", "512Ti"),
        ("0.5Ei", "512Pi"),
        ("1e21", "1e21"),
        ("1000e18", "1e21"),
        ("10e-1", "1"),
        // A binary quantity below one is written in decimal, one itself is not.
        ("0.0009765625Ki", "1"),
        ("0.0005Ki", "512m"),
        ("-0.0005Ki", "-512m"),
        ("0.0Ki", "0"),
    ] {
        assert_eq!(quantity(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn resource_lists_round_up_to_thousandths() {
    for (text, rounded) in [("0.0001", "1m"), ("1500u", "2m"), ("1", "1"), ("-0.0001", "-1m"), ("1.5Gi", "1536Mi")] {
        let mut quantity = quantity(text);
        quantity.round_up(MILLI);
        assert_eq!(quantity.to_string(), rounded, "{text}");
    }
}

#[test]
fn values_round_away_from_zero_and_never_overflow() {
    for (text, value, milli) in [
        ("0", 0, 0),
        ("0.1", 1, 100),
        ("1.5", 2, 1500),
        ("-1.5", -2, -1500),
        ("1Gi", 1 << 30, 1000 << 30),
        ("1e30", i64::MAX, i64::MAX),
        ("-1e30", -i64::MAX, -i64::MAX),
        ("1e1000", i64::MAX, i64::MAX),
    ] {
        assert_eq!((quantity(text).value(), quantity(text).milli_value()), (value, milli), "{text}");
    }
}

#[test]
fn comparison_looks_at_numbers_only() {
    for (left, right, order) in [
        ("0.1", "100m", Ordering::Equal),
        ("1Gi", "1G", Ordering::Greater),
        ("1e1000", "1", Ordering::Greater),
        ("1", "1e1000", Ordering::Less),
        ("-1e1000", "1", Ordering::Less),
        ("0", "0e9", Ordering::Equal),
        ("1536Mi", "1.5Gi", Ordering::Equal),
    ] {
        assert_eq!(quantity(left).cmp_value(&quantity(right)), order, "{left} {right}");
    }
}

#[test]
fn what_is_no_quantity_says_why() {
    for (text, fault) in [
        ("", QuantityError::Format),
        ("x", QuantityError::Format),
        ("1 Gi", QuantityError::Format),
        ("1Gib", QuantityError::Format),
        ("1Q", QuantityError::Format),
        ("1iM", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1ee3", QuantityError::Suffix),
        ("--1", QuantityError::Suffix),
    ] {
        assert_eq!(text.parse::<Quantity>(), Err(fault), "{text}");
    }
}

#[test]
fn sums_keep_the_finer_scale() {
    let mut sum = quantity("0");
    for part in ["0.1", "200m", "1"] {
        sum.add(&quantity(part));
    }
    assert_eq!(sum.to_string(), "1300m");
}
