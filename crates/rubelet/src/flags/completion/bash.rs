//! The script of bash.

use std::fmt::Write as _;

use super::{Values, arguments, commands, every_flag, own_flags, run_flags, spellings, takes_run_flags, values};
use crate::flags::commands::{Args, COMMANDS};
use crate::flags::flag::{Flag, Group};

const START: &str = "\
# bash completion of rubelet, written by `rubelet completion bash`.

_rubelet() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= i
    # `--flag=value` is three words: `--flag`, `=`, `value`.
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    COMPREPLY=()
";

const END: &str = "\
    esac
}

complete -F _rubelet rubelet kubelet
";

/// Offers words that begin with what is typed.
const WORDS: &str = "COMPREPLY=($(compgen -W";

pub(super) fn script() -> String {
    let mut text = START.to_owned();
    find_command(&mut text);
    flag_values(&mut text);
    flags(&mut text);
    words(&mut text);
    text + END
}

fn patterns<'a>(flags: impl Iterator<Item = &'a Flag>) -> String {
    flags.flat_map(spellings).collect::<Vec<_>>().join(" | ")
}

/// Sets `command` to the words that name the command, behind flags and their values.
fn find_command(text: &mut String) {
    let all = every_flag();
    let valued = patterns(all.iter().copied().filter(|flag| !flag.stands_alone()));
    let groups: Vec<&str> =
        commands::first_words().into_iter().filter(|word| !commands::second_words(word).is_empty()).collect();
    let groups: String = groups.iter().map(|group| format!("{group}) ;; ")).collect();
    let _ = write!(
        text,
        "    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
            {valued})
                i=$((i + 1))
                if [[ ${{COMP_WORDS[i]}} == = ]]; then i=$((i + 1)); fi
                ;;
            =) i=$((i + 1)) ;;
            -*) ;;
            *)
                command=${{command:+$command }}${{COMP_WORDS[i]}}
                case $command in {groups}*) break ;; esac
                ;;
        esac
    done
"
    );
}

/// Completes the value of the flag before the cursor.
fn flag_values(text: &mut String) {
    text.push_str("    case $command:$prev in\n");
    for spec in COMMANDS {
        for flag in own_flags(spec) {
            if let (Group::Tool, Values::Words(words)) = (flag.group, values(flag)) {
                let keys: Vec<String> =
                    spellings(flag).iter().map(|spelling| format!("\"{}:{spelling}\"", spec.name)).collect();
                offer(text, &keys.join(" | "), &words);
            }
        }
    }
    text.push_str("    esac\n    case $prev in\n");
    let all = every_flag();
    for flag in all.iter().filter(|flag| flag.group != Group::Tool) {
        if let Values::Words(words) = values(flag) {
            offer(text, &spellings(flag).join(" | "), &words);
        }
    }
    let paths = patterns(all.iter().copied().filter(|flag| matches!(values(flag), Values::Path)));
    let free = patterns(all.iter().copied().filter(|flag| matches!(values(flag), Values::Free)));
    let _ = write!(
        text,
        "        {paths})
            compopt -o filenames 2>/dev/null
            COMPREPLY=($(compgen -f -- \"$cur\"))
            return
            ;;
        {free}) return ;;
    esac
"
    );
}

fn offer(text: &mut String, keys: &str, words: &[&str]) {
    let _ = writeln!(text, "        {keys}) {WORDS} \"{}\" -- \"$cur\")); return ;;", words.join(" "));
}

/// Completes the name of a flag.
fn flags(text: &mut String) {
    let names = |flags: &mut dyn Iterator<Item = &'static Flag>| {
        flags.map(|flag| format!("--{}", flag.name)).collect::<Vec<_>>().join(" ")
    };
    let _ = writeln!(text, "    if [[ $cur == -* ]]; then\n        local run=\"{}\"", names(&mut run_flags()));
    text.push_str("        case $command in\n            \"\") COMPREPLY=($(compgen -W \"$run\" -- \"$cur\")) ;;\n");
    for spec in COMMANDS {
        let own = names(&mut own_flags(spec).into_iter());
        let run = if takes_run_flags(spec) { " $run" } else { "" };
        let _ = writeln!(text, "            \"{}\") {WORDS} \"{own}{run}\" -- \"$cur\")) ;;", spec.name);
    }
    text.push_str("        esac\n        return\n    fi\n");
}

/// Completes the name of a command, or its argument.
fn words(text: &mut String) {
    text.push_str("    case $command in\n");
    let first = commands::first_words();
    let mut offer = |key: &str, words: &[&str]| {
        let _ = writeln!(text, "        {key}) {WORDS} \"{}\" -- \"$cur\")) ;;", words.join(" "));
    };
    offer("\"\"", &first);
    for group in &first {
        let second = commands::second_words(group);
        if !second.is_empty() {
            offer(group, &second);
        }
    }
    for spec in COMMANDS {
        match spec.args {
            Args::Pod | Args::PodOrNode => {
                offer(spec.name, &["$(rubelet pods 2>/dev/null | awk 'NR > 1 { print $1 }')"])
            }
            Args::None => {}
            Args::OneOf(_) | Args::Command => offer(spec.name, &arguments(spec)),
        }
    }
}
