//! The binary. Everything it does is in the library beside it and in the other crates; here it is only started.

fn main() {}
