//! The script of fish.

use std::fmt::Write as _;

use rubelet_core::config::KubeletConfiguration;

use super::{Values, arguments, commands, own_flags, run_flags, takes_run_flags, values};
use crate::flags::commands::{Args, COMMANDS, Spec};
use crate::flags::flag::Flag;
use crate::flags::help;
use crate::flags::settings::Settings;

pub(super) fn script() -> String {
    let mut text = "# fish completion of rubelet, written by `rubelet completion fish`.\n\n\
                    complete -c kubelet -w rubelet\ncomplete -c rubelet -f\n"
        .to_owned();
    let strangers: Vec<&str> =
        COMMANDS.iter().filter(|spec| !takes_run_flags(spec)).filter_map(|spec| spec.name.split(' ').next()).collect();
    let run = format!("not __fish_seen_subcommand_from {}", strangers.join(" "));
    for flag in run_flags() {
        option(&mut text, &run, flag);
    }
    let first = commands::first_words();
    let none = format!("not __fish_seen_subcommand_from {}", first.join(" "));
    for word in &first {
        let of = |spec: &&Spec| spec.name.split(' ').next() == Some(word);
        let about = COMMANDS.iter().find(of).map_or("", |spec| spec.about);
        let _ = writeln!(text, "complete -c rubelet -n {} -a {word} -d {}", quoted(&none), quoted(about));
    }
    for spec in COMMANDS {
        command(&mut text, spec);
    }
    text
}

fn command(text: &mut String, spec: &Spec) {
    let when = match spec.name.split_once(' ') {
        None => format!("__fish_seen_subcommand_from {}", spec.name),
        Some((group, second)) => {
            let others = commands::second_words(group).join(" ");
            let _ = writeln!(
                text,
                "complete -c rubelet -n {} -a {second} -d {}",
                quoted(&format!("__fish_seen_subcommand_from {group}; and not __fish_seen_subcommand_from {others}")),
                quoted(spec.about)
            );
            format!("__fish_seen_subcommand_from {group}; and __fish_seen_subcommand_from {second}")
        }
    };
    for flag in own_flags(spec) {
        option(text, &when, flag);
    }
    let words = match spec.args {
        Args::None => return,
        Args::Pod | Args::PodOrNode => "(rubelet pods 2>/dev/null | awk \"NR > 1 { print \\$1 }\")".to_owned(),
        Args::OneOf(_) | Args::Command => arguments(spec).join(" "),
    };
    let _ = writeln!(text, "complete -c rubelet -n {} -a {}", quoted(&when), quoted(&words));
}

fn option(text: &mut String, when: &str, flag: &Flag) {
    let mut settings = Settings::over(KubeletConfiguration::legacy_defaults());
    let _ = write!(text, "complete -c rubelet -n {}", quoted(when));
    if let Some(letter) = flag.short {
        let _ = write!(text, " -s {letter}");
    }
    let _ = write!(text, " -l {}", flag.name);
    match values(flag) {
        Values::None => {}
        Values::Words(words) => {
            let _ = write!(text, " -x -a {}", quoted(&words.join(" ")));
        }
        Values::Path => text.push_str(" -r -F"),
        Values::Free => text.push_str(" -x"),
    }
    let _ = writeln!(text, " -d {}", quoted(&help::about(flag, &mut settings)));
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
