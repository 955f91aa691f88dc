//! The commands, in one table. The parser, the help texts, the suggestions for a misspelt name, the completions of shells and
//! the manual pages all come from it.

use super::flag::Flag;
use super::table::FlagSet;
use super::table::tool::{
    ALL_FIELDS, ALL_NAMESPACES, CONTAINER, DIR, FOLLOW, FORMAT, NAMESPACE, OUTPUT, PREVIOUS, TAIL, TIMESTAMPS, WATCH,
};

/// What a command does once its flags are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Run,
    Pods,
    Explain,
    Top,
    Events,
    Logs,
    Status,
    Check,
    ConfigShow,
    ConfigValidate,
    Version,
    Help,
    Completion,
    Man,
}

/// The arguments of a command, besides flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Args {
    None,
    /// The name of a pod.
    Pod,
    /// The name of a pod, or `node`.
    PodOrNode,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The name of a command, or nothing.
    Command,
}

impl Args {
    /// As a usage line shows them; empty for none.
    pub(super) fn usage(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Pod => "POD".to_owned(),
            Self::PodOrNode => "POD|node".to_owned(),
            Self::OneOf(words) => words.join("|"),
            Self::Command => "[COMMAND]".to_owned(),
        }
    }
}

/// One command.
pub(super) struct Spec {
    /// The words after `rubelet`; empty for the agent itself.
    pub(super) name: &'static str,
    pub(super) action: Action,
    pub(super) args: Args,
    pub(super) flags: FlagSet,
    /// What it does, in one line that starts with a verb.
    pub(super) about: &'static str,
    /// The description: paragraphs with an empty line between them.
    pub(super) text: &'static str,
    /// Command lines, each with what it does.
    pub(super) examples: &'static [(&'static str, &'static str)],
}

impl Spec {
    /// `rubelet`, or `rubelet config show`.
    pub(super) fn full_name(&self) -> String {
        ["rubelet", self.name].join(" ").trim_end().to_owned()
    }

    /// The usage line.
    pub(super) fn usage(&self) -> String {
        let args = self.args.usage();
        [self.full_name(), args, "[FLAGS]".to_owned()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    pub(super) fn flags(&self) -> Vec<&'static Flag> {
        self.flags.flags()
    }
}

/// The agent.
pub(super) static RUN: Spec = Spec {
    name: "",
    action: Action::Run,
    args: Args::None,
    flags: FlagSet::Run,
    about: "run the node's agent",
    text: "Runs the pods of one node: a drop-in for the kubelet of Kubernetes v1.36.4. It reads which pods the machine should \
           run from manifests and, with --kubeconfig, from an API server, and runs them on a container runtime that speaks \
           CRI. It runs until SIGTERM or SIGINT; pods go on running then.\n\n\
           Flags may be written with - or _, as --flag=value or --flag value. A flag with a [field] after its text is \
           deprecated in favour of that field in the --config file; both work, and the flag wins.",
    examples: &[
        ("rubelet --config /etc/rubelet.yaml", "run the static pods that the file names"),
        (
            "rubelet --config /var/lib/kubelet/config.yaml --kubeconfig /etc/kubernetes/kubelet.conf",
            "run as a node of a cluster",
        ),
    ],
};

/// The other commands, in the order of help texts.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "pods",
        action: Action::Pods,
        args: Args::None,
        flags: FlagSet::Ask(&[&OUTPUT, &NAMESPACE, &ALL_NAMESPACES]),
        about: "list the pods of this node",
        text: "Lists the pods of this node: state, reason, restarts, age. It asks the running rubelet, over a socket that only \
               root may open, and needs no API server.",
        examples: &[
            ("rubelet pods", "list all pods"),
            ("rubelet pods -n kube-system", "list those of one namespace"),
            ("rubelet pods -o json", "list them for a program"),
        ],
    },
    Spec {
        name: "explain",
        action: Action::Explain,
        args: Args::PodOrNode,
        flags: FlagSet::Ask(&[&OUTPUT, &NAMESPACE]),
        about: "show what happened to a pod and what it waits for, or what the node has and uses",
        text: "Shows what happened to a pod on this node, each step with its time, and what the pod waits for now. POD is a \
               name, namespace/name, or a UID; a pod that was deleted in the last hour is known, too. It asks the running \
               rubelet, as rubelet pods does.\n\n\
               With the word node it shows the node: capacity, what is reserved, requested and used, how far each eviction \
               threshold is, and what holds the disk. A pod of that name is namespace/node.",
        examples: &[
            ("rubelet explain kube-system/kube-proxy-x7k2p", "show the history of one pod"),
            ("rubelet explain node", "show what the node has and uses"),
        ],
    },
    Spec {
        name: "top",
        action: Action::Top,
        args: Args::None,
        flags: FlagSet::Ask(&[&OUTPUT]),
        about: "show pods and containers by CPU and memory",
        text: "Shows what the node, its pods and their containers use, those with most CPU first. On a terminal it is drawn \
               anew every two seconds until Ctrl-C; elsewhere it is shown once.",
        examples: &[("rubelet top", "watch what pods use"), ("rubelet top -o json", "show it once for a program")],
    },
    Spec {
        name: "events",
        action: Action::Events,
        args: Args::None,
        flags: FlagSet::Ask(&[&OUTPUT, &NAMESPACE, &ALL_NAMESPACES, &WATCH]),
        about: "show the recent events of this node",
        text: "Shows the events that this node has emitted since rubelet was started, the newest last: those of pods and those \
               of the node. The last 256 are kept; one that repeats is counted. They need no API server.",
        examples: &[
            ("rubelet events", "show the recent events"),
            ("rubelet events -w", "go on with each new event"),
            ("rubelet events -n kube-system", "show those of one namespace"),
        ],
    },
    Spec {
        name: "logs",
        action: Action::Logs,
        args: Args::Pod,
        flags: FlagSet::Ask(&[&CONTAINER, &FOLLOW, &PREVIOUS, &TAIL, &TIMESTAMPS, &NAMESPACE]),
        about: "show the log of a container",
        text: "Shows the log of a container of a pod, from the node's disk and without an API server. POD is what rubelet \
               explain takes.",
        examples: &[
            ("rubelet logs web", "show the log of the pod's default container"),
            ("rubelet logs web -c app -f --tail 10", "show the last ten lines of one container, and go on"),
            ("rubelet logs web --previous", "show the log of the instance before the last restart"),
        ],
    },
    Spec {
        name: "status",
        action: Action::Status,
        args: Args::None,
        flags: FlagSet::Ask(&[&OUTPUT]),
        about: "show the state of the running agent",
        text: "Shows the state of the running rubelet: the API server and the lease, the container runtime, certificates, \
               conditions of the node, status writes that wait, pods, and a shutdown of the machine if one is in progress. \
               The exit code is 1 if no rubelet answers.",
        examples: &[("rubelet status", "show the state"), ("rubelet status -o json", "show it for a program")],
    },
    Spec {
        name: "check",
        action: Action::Check,
        args: Args::None,
        flags: FlagSet::RunAnd(&[&OUTPUT]),
        about: "test this machine before use",
        text: "Tests this machine before use: runtime, cgroups, swap, ports, kernel, disk. Each finding says how to mend it. \
               It takes every flag of a run, and tests for that run. It changes nothing. The exit code is 1 if a test fails.",
        examples: &[("rubelet check --config /etc/rubelet.yaml", "test for a run with this file")],
    },
    Spec {
        name: "config show",
        action: Action::ConfigShow,
        args: Args::None,
        flags: FlagSet::RunAnd(&[&FORMAT, &ALL_FIELDS]),
        about: "show the effective configuration and where each value comes from",
        text: "Shows the configuration that a run with the same flags would have, and where each value comes from: a file with \
               its line, a drop-in, or a flag. Fields with their default are left out unless --all is given. With -o yaml it \
               prints a KubeletConfiguration file.",
        examples: &[
            ("rubelet config show --config /etc/rubelet.yaml", "show what the file and defaults lead to"),
            ("rubelet config show --config /etc/rubelet.yaml --all -o yaml", "write all of it as one file"),
        ],
    },
    Spec {
        name: "config validate",
        action: Action::ConfigValidate,
        args: Args::None,
        flags: FlagSet::RunAnd(&[&OUTPUT]),
        about: "report every error of a configuration",
        text: "Reads the configuration that a run with the same flags would have, and reports every error in it: unknown \
               fields, each with its line and the nearest valid name, and values that cannot be used. The exit code is 1 if \
               there is one.",
        examples: &[("rubelet config validate --config /etc/rubelet.yaml", "test a file before it is used")],
    },
    Spec {
        name: "version",
        action: Action::Version,
        args: Args::None,
        flags: FlagSet::Only(&[&FORMAT]),
        about: "show the version of rubelet and of Kubernetes",
        text: "Shows the version of rubelet, the release of Kubernetes whose kubelet it replaces, and how it was built.",
        examples: &[("rubelet version -o json", "show it for a program")],
    },
    Spec {
        name: "help",
        action: Action::Help,
        args: Args::Command,
        flags: FlagSet::Only(&[]),
        about: "show the help text of a command",
        text: "Shows the help text of a command, the same as COMMAND --help; without COMMAND, that of the agent.",
        examples: &[("rubelet help config show", "show what config show does")],
    },
    Spec {
        name: "completion",
        action: Action::Completion,
        args: Args::OneOf(&["bash", "zsh", "fish"]),
        flags: FlagSet::Only(&[]),
        about: "print the completion script of a shell",
        text: "Prints a script that completes commands, flags and their values in a shell.",
        examples: &[
            ("rubelet completion bash > /etc/bash_completion.d/rubelet", "complete in every new bash"),
            ("rubelet completion zsh > /usr/share/zsh/vendor-completions/_rubelet", "complete in every new zsh"),
            ("rubelet completion fish > /etc/fish/completions/rubelet.fish", "complete in every new fish"),
        ],
    },
    Spec {
        name: "man",
        action: Action::Man,
        args: Args::Command,
        flags: FlagSet::Only(&[&DIR]),
        about: "print a manual page",
        text: "Prints the manual page of a command as roff; without COMMAND, that of the agent. With --dir it writes all pages.",
        examples: &[
            ("rubelet man pods > rubelet-pods.8", "write one page"),
            ("rubelet man --dir /usr/share/man/man8", "write all pages"),
        ],
    },
];

/// The agent, then the other commands.
pub(super) fn all() -> impl Iterator<Item = &'static Spec> + Clone {
    std::iter::once(&RUN).chain(COMMANDS)
}

/// The first words of all commands, each once.
pub(super) fn first_words() -> Vec<&'static str> {
    let mut words: Vec<&str> = COMMANDS.iter().filter_map(|spec| spec.name.split(' ').next()).collect();
    words.dedup();
    words
}

/// The second words of the commands that begin with `group`: none if it is a command of its own.
pub(super) fn second_words(group: &str) -> Vec<&'static str> {
    COMMANDS
        .iter()
        .filter_map(|spec| spec.name.split_once(' ').filter(|(first, _)| *first == group).map(|(_, second)| second))
        .collect()
}

/// The command of this name.
pub(super) fn find(name: &str) -> Option<&'static Spec> {
    all().find(|spec| spec.name == name)
}
