//! Manual pages, as roff with the macros of man(7). They hold ASCII alone and no date, so that a build repeats to the byte.

use std::fmt::Write as _;

use rubelet_core::config::KubeletConfiguration;

use super::commands::{self, Spec};
use super::flag::{Flag, Group};
use super::settings::Settings;
use super::{help, value};

/// Administration commands.
const SECTION: u8 = 8;

/// All pages: the name of each file, and its text.
#[must_use]
pub fn pages() -> Vec<(String, String)> {
    commands::all().map(|spec| (format!("{}.{SECTION}", page_name(spec)), page(spec))).collect()
}

/// `rubelet-config-show`.
fn page_name(spec: &Spec) -> String {
    spec.full_name().replace(' ', "-")
}

/// The page of one command.
// Writing to a string cannot fail, so the results of `write!` below mean nothing.
pub(super) fn page(spec: &Spec) -> String {
    let (name, version) = (page_name(spec), env!("CARGO_PKG_VERSION"));
    let mut text = String::new();
    let _ = writeln!(text, ".TH {} {SECTION} \"\" \"rubelet {version}\" \"rubelet\"", plain(&name.to_uppercase()));
    let _ = writeln!(text, ".SH NAME\n{} \\- {}", plain(&name), plain(spec.about));
    text.push_str(".SH SYNOPSIS\n");
    synopsis(&mut text, spec);
    if spec.name.is_empty() {
        for spec in commands::COMMANDS {
            text.push_str(".br\n");
            synopsis(&mut text, spec);
        }
    }
    text.push_str(".SH DESCRIPTION\n");
    for (index, paragraph) in spec.text.split("\n\n").enumerate() {
        let _ = writeln!(text, "{}{}", if index == 0 { "" } else { ".PP\n" }, plain(paragraph));
    }
    if spec.name.is_empty() {
        text.push_str(".SH COMMANDS\n");
        for spec in commands::COMMANDS {
            let _ = writeln!(text, ".TP\n.B {}\n{}.", plain(&spec.full_name()), plain(&capitalised(spec.about)));
        }
    }
    options(&mut text, &spec.flags());
    text.push_str(EXIT_STATUS);
    if spec.name.is_empty() {
        text.push_str(FILES);
    }
    text.push_str(ENVIRONMENT);
    if !spec.examples.is_empty() {
        text.push_str(".SH EXAMPLES\n");
        for (line, what) in spec.examples {
            let _ = writeln!(text, "{}:\n.PP\n.RS\n.nf\n{}\n.fi\n.RE\n.PP", plain(&capitalised(what)), plain(line));
        }
    }
    see_also(&mut text, spec);
    text
}

const EXIT_STATUS: &str = ".SH EXIT STATUS\n.TP\n.B 0\nSuccess.\n.TP\n.B 1\nA problem was found, or the command failed.\n\
                           .TP\n.B 2\nThe command line is invalid.\n";

const FILES: &str = ".SH FILES\n.TP\n.I /var/lib/kubelet\nThe root directory, unless \\fB\\-\\-root\\-dir\\fR names another.\n\
                     .TP\n.I /var/lib/kubelet/rubelet.sock\nThe socket of the running rubelet.\n";

const ENVIRONMENT: &str = ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nIf it is set, output has no colours.\n";

fn synopsis(text: &mut String, spec: &Spec) {
    let _ = write!(text, "\\fB{}\\fR ", plain(&spec.full_name()));
    let args = spec.args.usage();
    if !args.is_empty() {
        let _ = write!(text, "\\fI{}\\fR ", plain(&args));
    }
    text.push_str("[\\fIFLAGS\\fR]\n");
}

fn options(text: &mut String, flags: &[&'static Flag]) {
    let mut settings = Settings::over(KubeletConfiguration::legacy_defaults());
    text.push_str(".SH OPTIONS\n");
    let groups: Vec<Group> =
        Group::ALL.into_iter().filter(|group| flags.iter().any(|flag| flag.group == *group)).collect();
    for group in &groups {
        if groups.len() > 1 {
            let _ = writeln!(text, ".SS {}", plain(group.heading()));
        }
        for flag in flags.iter().filter(|flag| flag.group == *group) {
            text.push_str(".TP\n");
            if let Some(letter) = flag.short {
                let _ = write!(text, "\\fB\\-{letter}\\fR, ");
            }
            let _ = write!(text, "\\fB\\-\\-{}\\fR", plain(flag.name));
            let word = value::value_name(&flag.kind);
            if !word.is_empty() {
                let _ = write!(text, " \\fI{}\\fR", plain(word));
            }
            let about = help::about(flag, &mut settings);
            let about = if about.trim().is_empty() { "Accepted without effect.".to_owned() } else { about };
            let _ = writeln!(text, "\n{}", plain(about.trim()));
        }
    }
}

fn see_also(text: &mut String, spec: &Spec) {
    let others: Vec<String> = commands::all()
        .filter(|other| other.name != spec.name)
        .map(|other| format!("\\fB{}\\fR({SECTION})", plain(&page_name(other))))
        .collect();
    let _ = writeln!(text, ".SH SEE ALSO\n{}", others.join(",\n"));
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

/// Text that roff prints as it is: no line of it begins a request, and `-` stays a hyphen that can be copied.
fn plain(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('…', "...").replace('"', "\\(dq");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
