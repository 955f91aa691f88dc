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
