//! `rubelet man --dir DIR`: writes the manual pages.

use std::path::Path;

use super::Report;
use crate::flags::man_pages;

pub(super) fn run(dir: &Path) -> Result<Report, String> {
    let mut text = String::new();
    for (name, page) in man_pages() {
        let path = dir.join(name);
        std::fs::write(&path, page).map_err(|err| format!("cannot write {}: {err}", path.display()))?;
        text += &format!("{}\n", path.display());
    }
    Ok(Report { text, ..Report::default() })
}
