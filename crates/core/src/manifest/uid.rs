//! The UID of a pod that has none: a hash of what it is and where it came from.

use std::fmt::{self, Write as _};

use serde_json::Value;

use super::Origin;
use super::defaults::Derived;
use super::dump::dump;
use super::schema::Schema;

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// upstream: kubelet/config/common.go applyDefaults (v1.36), row SRC-05
pub(super) fn uid(schema: &Schema, pod: &Value, derived: &Derived, origin: &Origin, node: &str) -> String {
    let mut hash = Fnv128a(OFFSET);
    let written = dump(schema, pod, derived, &mut hash).and_then(|()| match origin {
        Origin::File(path) => write!(hash, "host:{node}file:{path}"),
        Origin::Url(url) => write!(hash, "url:{url}"),
    });
    debug_assert!(written.is_ok(), "a hash takes every write");
    format!("{:032x}", hash.0)
}

/// Fowler–Noll–Vo with 128 bits, xor before multiply.
struct Fnv128a(u128);

impl fmt::Write for Fnv128a {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_128a() {
        // Test vectors of the algorithm's authors.
        for (text, sum) in [
            ("", "6c62272e07bb014262b821756295c58d"),
            ("a", "d228cb696f1a8caf78912b704e4a8964"),
            ("foobar", "343e1662793c64bf6f0d3597ba446f18"),
        ] {
            let mut hash = Fnv128a(OFFSET);
            hash.write_str(text).unwrap();
            assert_eq!(format!("{:032x}", hash.0), sum, "{text:?}");
        }
    }
}
