//! Termination messages: where they come from and how long they may be (RT-110).

/// Longest termination message of one container, read from its file.
#[doc(alias = "MaxContainerTerminationMessageLength")]
pub const MAX_MESSAGE_BYTES: usize = 4096;
/// Longest termination message taken from the end of a log.
#[doc(alias = "MaxContainerTerminationMessageLogLength")]
pub const MAX_LOG_BYTES: usize = 2048;
/// Most lines taken from the end of a log.
#[doc(alias = "MaxContainerTerminationMessageLogLines")]
pub const MAX_LOG_LINES: usize = 80;
/// What all containers of a pod may say together.
#[doc(alias = "MaxPodTerminationMessageLogLength")]
pub const MAX_POD_MESSAGE_BYTES: usize = 12288;

/// The even share of one container of a pod with this many.
pub fn message_share(containers: usize) -> usize {
    MAX_POD_MESSAGE_BYTES.checked_div(containers).unwrap_or(MAX_POD_MESSAGE_BYTES)
}

/// The beginning of `text` that fits into `bytes`. Upstream cuts through a character; we stop before it.
pub fn cut(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The end of the log stands in for an empty message file. A container that could not be run has no log.
pub fn wants_log_tail(policy: &str, exit_code: i32, reason: &str, file_is_empty: bool) -> bool {
    policy == "FallbackToLogsOnError" && exit_code != 0 && reason != "ContainerCannotRun" && file_is_empty
}

/// The runtime's message with the container's own behind it.
pub fn complete_message(runtime: &str, own: &str) -> String {
    match (runtime, own) {
        (text, "") | ("", text) => text.to_owned(),
        (runtime, own) => format!("{runtime}: {own}"),
    }
}
