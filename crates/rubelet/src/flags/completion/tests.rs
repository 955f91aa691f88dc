//! What bash offers at the end of a command line. The scripts of other shells are compared by their parts.

use std::process::Command;

use super::{offered, run_flags, script};
use crate::flags::commands;

/// What bash offers for a line; the text after the last space is to be completed.
fn offers(line: &str) -> Vec<String> {
    // `=` separates words, as in an interactive shell.
    let words: Vec<String> = line.replace('=', " = ").split(' ').map(|word| format!("'{word}'")).collect();
    let ask = format!(
        "{}\ncompopt() {{ :; }}\nCOMP_WORDS=({})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_rubelet\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script("bash"),
        words.join(" ")
    );
    let output = Command::new("bash").args(["-c", &ask]).output().expect("bash is there");
    assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_offers_commands_flags_and_values() {
    assert_eq!(offers("rubelet "), commands::first_words());
    assert_eq!(offers("rubelet expl"), ["explain"]);
    assert_eq!(offers("kubelet --root-dir /r po"), ["pods"]);
    assert_eq!(offers("rubelet --root-dir=/r po"), ["pods"]);
    assert_eq!(offers("rubelet --max-po"), ["--max-pods"]);
    assert_eq!(offers("rubelet pods --max-po"), [""; 0]);
    assert_eq!(offers("rubelet check --max-po"), ["--max-pods"]);
    assert_eq!(offers("rubelet pods -o "), ["table", "json"]);
    assert_eq!(offers("rubelet pods --output=j"), ["json"]);
    assert_eq!(offers("rubelet version -o y"), ["yaml"]);
    assert_eq!(offers("rubelet --logging-format="), ["text", "json"]);
    assert_eq!(offers("rubelet --max-pods "), [""; 0]);
    assert_eq!(offers("rubelet completion "), ["bash", "zsh", "fish"]);
    assert_eq!(offers("rubelet help expl"), ["explain"]);
    assert_eq!(offers("rubelet --config /etc/hostnam"), ["/etc/hostname"]);
}

#[test]
fn every_shell_knows_every_command_and_flag() {
    for (shell, flag_mark) in [("bash", "--"), ("zsh", "'--"), ("fish", " -l ")] {
        let text = script(shell);
        for word in commands::first_words() {
            assert!(text.contains(word), "{shell}: {word}");
        }
        let own = commands::COMMANDS.iter().flat_map(|spec| offered(spec.flags()));
        for flag in run_flags().chain(own) {
            assert!(text.contains(&format!("{flag_mark}{}", flag.name)), "{shell}: --{}", flag.name);
        }
    }
}
