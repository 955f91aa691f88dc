//! The flags of commands other than the agent.

use super::super::settings::{Format, Output};
use super::{Flag, Group, Kind};

pub(in super::super) static OUTPUT: Flag = Flag::new(
    "output",
    Group::Tool,
    Kind::Word {
        value_name: "table|json",
        set: |s, word| {
            s.tool.output = match word {
                "table" => Output::Table,
                "json" => Output::Json,
                _ => return Err("must be table or json".into()),
            };
            Ok(())
        },
        show: |_| "table".to_owned(),
    },
    "How the result is shown.",
)
.short('o');

pub(in super::super) static FORMAT: Flag = Flag::new(
    "output",
    Group::Tool,
    Kind::Word {
        value_name: "table|json|yaml",
        set: |s, word| {
            s.tool.format = match word {
                "table" => Format::Table,
                "json" => Format::Json,
                "yaml" => Format::Yaml,
                _ => return Err("must be table, json or yaml".into()),
            };
            Ok(())
        },
        show: |_| "table".to_owned(),
    },
    "How the result is shown.",
)
.short('o');

pub(in super::super) static SOCKET: Flag = Flag::new(
    "socket",
    Group::Tool,
    Kind::Path(|s| &mut s.tool.socket),
    "Socket of the running rubelet, if it is not the one in its root directory.",
);

pub(in super::super) static NAMESPACE: Flag = Flag::new(
    "namespace",
    Group::Tool,
    Kind::Text(|s| &mut s.tool.namespace),
    "Only pods of this namespace; without it, those of all namespaces.",
)
.short('n');

pub(in super::super) static ALL_NAMESPACES: Flag = Flag::new(
    "all-namespaces",
    Group::Tool,
    Kind::Bool(|s| &mut s.tool.all_namespaces),
    "Pods of all namespaces, whatever --namespace says. This is what happens without either.",
)
.short('A');

pub(in super::super) static ALL_FIELDS: Flag = Flag::new(
    "all",
    Group::Tool,
    Kind::Bool(|s| &mut s.tool.all_fields),
    "Every field, also those that have their default.",
);

pub(in super::super) static DIR: Flag = Flag::new(
    "dir",
    Group::Tool,
    Kind::Path(|s| &mut s.tool.dir),
    "Write all pages into this directory, each as NAME.8, instead of one to stdout.",
);

pub(in super::super) static WATCH: Flag = Flag::new(
    "watch",
    Group::Tool,
    Kind::Bool(|s| &mut s.tool.watch),
    "Go on with each new event. With -o json, one event per line.",
)
.short('w');

pub(in super::super) static CONTAINER: Flag = Flag::new(
    "container",
    Group::Tool,
    Kind::Text(|s| &mut s.tool.log.container),
    "The container; without it, the one that the pod's annotation names, else the first.",
)
.short('c');

pub(in super::super) static FOLLOW: Flag =
    Flag::new("follow", Group::Tool, Kind::Bool(|s| &mut s.tool.log.follow), "Go on until the container ends.")
        .short('f');

pub(in super::super) static PREVIOUS: Flag = Flag::new(
    "previous",
    Group::Tool,
    Kind::Bool(|s| &mut s.tool.log.previous),
    "The instance of the container before the present one.",
)
.short('p');

pub(in super::super) static TIMESTAMPS: Flag =
    Flag::new("timestamps", Group::Tool, Kind::Bool(|s| &mut s.tool.log.timestamps), "Begin each line with its time.");

pub(in super::super) static TAIL: Flag = Flag::new(
    "tail",
    Group::Tool,
    Kind::Word {
        value_name: "N",
        set: |s, word| {
            s.tool.log.tail = match word {
                "-1" => None,
                word => Some(word.parse().map_err(|_| "must be a number of lines, or -1 for all".to_owned())?),
            };
            Ok(())
        },
        show: |_| String::new(),
    },
    "Only so many lines from the end.",
);
