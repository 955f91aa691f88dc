//! Puts what was measured on the page, between two marks, and leaves the rest of the page alone.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::data::Data;
use crate::plot::{Plot, plots};
use crate::text::{bars_table, costs_table, origin, times_table};

const BEGIN: &str = "<!-- what make bench measured: begin; written by benches/report -->";
const END: &str = "<!-- what make bench measured: end -->";

/// All that is printed and stands between the marks. Plots are referred to as files in the directory `plots_in`.
pub(crate) fn report(data: &Data, plots: &[Plot], plots_in: &str) -> String {
    let mut text = origin(data);
    let _ = write!(text, "\n### Bars\n\n{}", bars_table(data));
    if !plots.is_empty() {
        text += "\n### Plots\n\n";
    }
    for plot in plots {
        let _ = writeln!(text, "![{}]({plots_in}/{}.svg)", plot.title, plot.name);
    }
    let _ = write!(text, "\n### How long things take\n\n{}", times_table(data));
    let _ = write!(text, "\n### What it costs\n\n{}", costs_table(data));
    let _ = write!(text, "\nThe raw data is in [{plots_in}/raw]({plots_in}/raw).\n");
    text
}

/// The page with what is between the marks replaced.
pub(crate) fn replaced(page: &str, report: &str) -> Result<String> {
    let (Some((before, rest)), 1) = (page.split_once(BEGIN), page.matches(BEGIN).count()) else {
        bail!("the page needs one line {BEGIN}")
    };
    let Some((_, after)) = rest.split_once(END) else { bail!("the page needs a line {END} after its beginning") };
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", report.trim_end()))
}

/// Writes the page, its plots and the raw data beside it; answers with what is now on the page.
pub(crate) fn write(data: &Data, raw: &Path, page: &Path) -> Result<String> {
    let stem = page.file_stem().and_then(|stem| stem.to_str()).context("the page needs a name")?;
    let beside = page.with_extension("");
    let plots = plots(data);
    let report = report(data, &plots, stem);
    let text = fs::read_to_string(page).with_context(|| format!("read {}", page.display()))?;
    let text = replaced(&text, &report).with_context(|| format!("write into {}", page.display()))?;
    keep(raw, &beside.join("raw"))?;
    for plot in &plots {
        let file = beside.join(plot.name).with_extension("svg");
        fs::write(&file, &plot.svg).with_context(|| format!("write {}", file.display()))?;
    }
    fs::write(page, text).with_context(|| format!("write {}", page.display()))?;
    Ok(report)
}

/// Copies the raw data, in place of that of the run before.
fn keep(raw: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    let same = to.canonicalize().ok() == raw.canonicalize().ok();
    if same {
        return Ok(());
    }
    for old in data_files(to)? {
        fs::remove_file(&old).with_context(|| format!("remove {}", old.display()))?;
    }
    for file in data_files(raw)? {
        let name = file.file_name().context("a file has a name")?;
        fs::copy(&file, to.join(name)).with_context(|| format!("copy {}", file.display()))?;
    }
    Ok(())
}

fn data_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(files.filter(|file| file.extension().is_some_and(|end| end == "jsonl" || end == "json")).collect())
}
