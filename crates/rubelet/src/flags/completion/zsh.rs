//! The script of zsh.

use std::fmt::Write as _;

use rubelet_core::config::KubeletConfiguration;

use super::{Values, arguments, commands, own_flags, run_flags, takes_run_flags, value, values};
use crate::flags::commands::{Args, COMMANDS, Spec};
use crate::flags::flag::Flag;
use crate::flags::help;
use crate::flags::settings::Settings;

pub(super) fn script() -> String {
    let mut text = "#compdef rubelet kubelet\n# zsh completion of rubelet, written by `rubelet completion zsh`.\n\n\
                    _rubelet() {\n    local curcontext=$curcontext state line\n    typeset -A opt_args\n    \
                    local -a run commands\n    run=(\n"
        .to_owned();
    for flag in run_flags() {
        let _ = writeln!(text, "        {}", option(flag));
    }
    text.push_str(
        "    )\n    _arguments -C $run '1: :->command' '*:: :->arguments'\n    case $state in\n        command)\n",
    );
    describe(&mut text, 12, &commands::first_words().iter().map(|word| (*word, about(word))).collect::<Vec<_>>());
    text.push_str("            ;;\n        arguments)\n            case $words[1] in\n");
    for word in commands::first_words() {
        let _ = writeln!(text, "                {word})");
        match commands::find(word) {
            Some(spec) => command(&mut text, 20, spec),
            None => group(&mut text, word),
        }
        text.push_str("                    ;;\n");
    }
    text.push_str("            esac\n            ;;\n    esac\n}\n\n_rubelet \"$@\"\n");
    text
}

/// The commands whose names begin with `word`.
fn group(text: &mut String, word: &str) {
    let second = commands::second_words(word);
    let names: Vec<String> = second.iter().map(|second| format!("{word} {second}")).collect();
    let pad = " ".repeat(20);
    let _ =
        write!(text, "{pad}_arguments -C '1: :->command' '*:: :->arguments'\n{pad}case $state in\n{pad}    command)\n");
    let described: Vec<(&str, &str)> = second.iter().copied().zip(names.iter().map(|name| about(name))).collect();
    describe(text, 28, &described);
    let _ = write!(text, "{pad}        ;;\n{pad}    arguments)\n{pad}        case $words[1] in\n");
    for (second, name) in second.iter().zip(&names) {
        let _ = writeln!(text, "{pad}            {second})");
        if let Some(spec) = commands::find(name) {
            command(text, 36, spec);
        }
        let _ = writeln!(text, "{pad}                ;;");
    }
    let _ = write!(text, "{pad}        esac\n{pad}        ;;\n{pad}esac\n");
}

/// What a command does; for a first word of several commands, that of the first.
fn about(name: &str) -> &'static str {
    let of_group = || COMMANDS.iter().find(|spec| spec.name.split(' ').next() == Some(name));
    commands::find(name).or_else(of_group).map_or("", |spec| spec.about)
}

fn describe(text: &mut String, indent: usize, words: &[(&str, &str)]) {
    let pad = " ".repeat(indent);
    let _ = writeln!(text, "{pad}commands=(");
    for (word, about) in words {
        let _ = writeln!(text, "{pad}    {}", quoted(&format!("{word}:{about}")));
    }
    let _ = write!(text, "{pad})\n{pad}_describe command commands\n");
}

fn command(text: &mut String, indent: usize, spec: &Spec) {
    let pad = " ".repeat(indent);
    let _ = write!(text, "{pad}_arguments");
    if takes_run_flags(spec) {
        text.push_str(" $run");
    }
    for flag in own_flags(spec) {
        let _ = write!(text, " \\\n{pad}    {}", option(flag));
    }
    match spec.args {
        Args::None => {}
        Args::Pod | Args::PodOrNode => {
            let _ =
                write!(text, " \\\n{pad}    '1:pod:($(rubelet pods 2>/dev/null | awk \"NR > 1 {{ print \\$1 }}\"))'");
        }
        Args::OneOf(_) | Args::Command => {
            let _ = write!(
                text,
                " \\\n{pad}    {}",
                quoted(&format!("1:{}:({})", spec.args.usage().replace(['[', ']'], ""), arguments(spec).join(" ")))
            );
        }
    }
    text.push('\n');
}

/// A flag as `_arguments` takes it.
fn option(flag: &Flag) -> String {
    let mut settings = Settings::over(KubeletConfiguration::legacy_defaults());
    let about = help::about(flag, &mut settings).replace('[', "\\[").replace(']', "\\]");
    let name = value::value_name(&flag.kind).replace(':', "\\:");
    let action = match values(flag) {
        Values::None => String::new(),
        Values::Words(words) => format!(":{name}:({})", words.join(" ")),
        Values::Path => format!(":{name}:_files"),
        Values::Free => format!(":{name}: "),
    };
    let end = if action.is_empty() { "" } else { "=" };
    let long = quoted(&format!("--{}{end}[{about}]{action}", flag.name));
    match flag.short {
        None => long,
        Some(letter) => {
            let end = if action.is_empty() { "" } else { "+" };
            long + " " + &quoted(&format!("-{letter}{end}[{about}]{action}"))
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
