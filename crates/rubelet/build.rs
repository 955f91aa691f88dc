//! Notes the compiler's version, for `rubelet version`, and has the program linked so that it takes less memory.

use std::error::Error;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC")?;
    let output = Command::new(rustc).arg("--version").output()?;
    let text = String::from_utf8(output.stdout)?;
    let version = text.split_whitespace().nth(1).ok_or("rustc prints its version after its name")?;
    println!("cargo::rustc-env=RUBELET_RUSTC={version}");
    if std::env::var("CARGO_CFG_TARGET_ENV")? == "gnu" {
        // The list of what is to be relocated at the start takes 30 KB and not 1.8 MB, all of which would be read at the start.
        // The C library understands it since 2.36, which Debian 12 has.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}
