//! Logging, help and version, and flags that are accepted so that old command lines still work.

use rubelet_core::config::{Choice, FlushFrequency, LogFormat, VModule};

use super::{Flag, Group, Kind};

/// The largest verbosity: upstream reads 31 bits.
const MOST: u32 = i32::MAX.unsigned_abs();

fn level(word: &str) -> Result<u32, String> {
    let rule = || "must be a whole number, 0 or more".to_owned();
    let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    if !digits {
        return Err(rule());
    }
    word.parse().ok().filter(|level| *level <= MOST).ok_or_else(rule)
}

fn size(target: &mut String, word: &str) -> Result<(), String> {
    *target = rubelet_core::config::parse_buffer_size(word).map_err(|e| e.to_string())?;
    Ok(())
}

pub(super) static FLAGS: &[Flag] = &[
    Flag::new(
        "v",
        Group::Logging,
        Kind::Word {
            value_name: "N",
            set: |s, word| {
                s.config.logging.verbosity = level(word)?;
                Ok(())
            },
            show: |_| "0".to_owned(),
        },
        "How much is logged: 0 to 3 what happened, 4 and 5 why as well (debug), 6 and more all of it (trace).",
    )
    .short('v')
    .also("logging.verbosity"),
    Flag::new(
        "vmodule",
        Group::Logging,
        Kind::Word {
            value_name: "PATTERN=N,…",
            set: |s, word| {
                for part in word.split(',').filter(|part| !part.is_empty()) {
                    let (pattern, verbosity) = part
                        .split_once('=')
                        .filter(|(pattern, _)| !pattern.is_empty())
                        .ok_or("must be pattern=N pairs with commas between them")?;
                    let item = VModule { file_pattern: pattern.to_owned(), verbosity: level(verbosity)? };
                    s.config.logging.vmodule.push(item);
                }
                Ok(())
            },
            show: |_| String::new(),
        },
        "Verbosity of single modules (source files), text format only.",
    )
    .also("logging.vmodule"),
    Flag::new(
        "logging-format",
        Group::Logging,
        Kind::Word {
            value_name: "text|json",
            set: |s, word| {
                s.config.logging.format = word.parse::<LogFormat>().map_err(|e| e.to_string())?;
                Ok(())
            },
            show: |s| s.config.logging.format.word().to_owned(),
        },
        "How lines are written.",
    )
    .field("logging.format"),
    Flag::new(
        "log-flush-frequency",
        Group::Logging,
        Kind::Word {
            value_name: "DURATION",
            set: |s, word| {
                s.config.logging.flush_frequency = FlushFrequency::Text(word.parse().map_err(|e| format!("{e}"))?);
                Ok(())
            },
            show: |s| s.config.logging.flush_frequency.get().to_string(),
        },
        "Longest time a line may wait; rubelet writes each at once.",
    )
    .also("logging.flushFrequency"),
    Flag::new(
        "log-text-split-stream",
        Group::Logging,
        Kind::Bool(|s| &mut s.config.logging.options.text.split_stream),
        "Text format: info to stdout, errors to stderr. (Alpha)",
    )
    .field("logging.options.text.splitStream"),
    Flag::new(
        "log-text-info-buffer-size",
        Group::Logging,
        Kind::Word {
            value_name: "SIZE",
            set: |s, word| size(&mut s.config.logging.options.text.info_buffer_size, word),
            show: |_| String::new(),
        },
        "Text format with split streams: buffer for info lines. (Alpha)",
    )
    .field("logging.options.text.infoBufferSize"),
    Flag::new(
        "log-json-split-stream",
        Group::Logging,
        Kind::Bool(|s| &mut s.config.logging.options.json.split_stream),
        "JSON format: info to stdout, errors to stderr. (Alpha)",
    )
    .field("logging.options.json.splitStream"),
    Flag::new(
        "log-json-info-buffer-size",
        Group::Logging,
        Kind::Word {
            value_name: "SIZE",
            set: |s, word| size(&mut s.config.logging.options.json.info_buffer_size, word),
            show: |_| String::new(),
        },
        "JSON format with split streams: buffer for info lines. (Alpha)",
    )
    .field("logging.options.json.infoBufferSize"),
    Flag::new("help", Group::Program, Kind::Help, "Show this text.").short('h'),
    Flag::new(
        "version",
        Group::Program,
        Kind::Version,
        "Show the version; =raw shows more, =vX.Y.Z-… reports another build of the same version.",
    ),
];

/// Why these flags still exist, for the help text.
const CADVISOR: &str = "it does nothing; it came from cAdvisor by mistake and will be removed";

const fn text(name: &'static str) -> Flag {
    Flag::new(name, Group::NoEffect, Kind::Text(|s| &mut s.ignored.text), "").old(CADVISOR)
}

const fn switch(name: &'static str) -> Flag {
    Flag::new(name, Group::NoEffect, Kind::Bool(|s| &mut s.ignored.switch), "").old(CADVISOR)
}

const fn duration(name: &'static str) -> Flag {
    Flag::new(name, Group::NoEffect, Kind::Duration(|s| &mut s.ignored.duration), "").old(CADVISOR)
}

pub(super) static NO_EFFECT: &[Flag] = &[
    Flag::new(
        "runonce",
        Group::NoEffect,
        Kind::Bool(|s| &mut s.config.run_once),
        "Running once was removed: anything but false is refused.",
    )
    .field("runOnce"),
    Flag::new(
        "experimental-mounter-path",
        Group::NoEffect,
        Kind::Path(|s| &mut s.flags.experimental_mounter_path),
        "Path of a mounter binary.",
    )
    .old("use CSI instead; it will be removed"),
    Flag::new("application-metrics-count-limit", Group::NoEffect, Kind::Int32(|s| &mut s.ignored.number), "")
        .old(CADVISOR),
    text("boot-id-file"),
    text("container-hints"),
    text("containerd"),
    text("containerd-namespace"),
    switch("enable-load-reader"),
    text("event-storage-age-limit"),
    text("event-storage-event-limit"),
    duration("global-housekeeping-interval"),
    switch("log-cadvisor-usage"),
    text("machine-id-file"),
    duration("storage-driver-buffer-duration"),
    text("storage-driver-db"),
    text("storage-driver-host"),
    text("storage-driver-password"),
    switch("storage-driver-secure"),
    text("storage-driver-table"),
    text("storage-driver-user"),
];
