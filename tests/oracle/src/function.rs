//! What a comparison is made of: a function of upstream, how cases for it are made, and what ours says.

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::rng::Rng;

/// One decision of upstream and ours.
///
/// To add one: a file in `functions/`, a line in `functions::all`, a Go file `oracle_*.go` that registers a handler under the
/// same name, and a row in docs/oracle.md.
pub trait Function: Sync {
    /// Upstream's name of it, which is also the name of the Go handler.
    fn name(&self) -> &'static str;

    /// Rows of docs/parity that it stands for.
    fn rows(&self) -> &'static [&'static str];

    /// A case: a JSON object that both sides can read. `size` is from 1 up; a small one makes a small case.
    fn generate(&self, rng: &mut Rng, size: usize) -> Value;

    /// Our answer, in the same form as the Go handler's.
    ///
    /// # Errors
    /// If the case is not one that `generate` could have made.
    fn ours(&self, case: &Value) -> anyhow::Result<Value>;

    /// A difference stated in docs/parity that changes the whole answer to this case: it is counted and not compared.
    fn incomparable(&self, case: &Value) -> Option<&'static str> {
        let _ = case;
        None
    }

    /// Puts upstream's answer into the form that is compared: what a difference stated in docs/parity makes of it. Names the
    /// differences that had a part in it, so that they are counted. Leaves `null` if there is nothing to compare.
    fn adjust(&self, case: &Value, theirs: &mut Value) -> Vec<&'static str> {
        let _ = (case, theirs);
        Vec::new()
    }
}

/// Reads a case into its type.
///
/// # Errors
/// If it does not fit.
pub fn read<T: DeserializeOwned>(case: &Value) -> anyhow::Result<T> {
    T::deserialize(case).context("read the case")
}
