//! Notes the compiler's version, for `rubelet version`.

use std::error::Error;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC")?;
    let output = Command::new(rustc).arg("--version").output()?;
    let text = String::from_utf8(output.stdout)?;
    let version = text.split_whitespace().nth(1).ok_or("rustc prints its version after its name")?;
    println!("cargo::rustc-env=RUBELET_RUSTC={version}");
    Ok(())
}
