//! Environment files written by an init container (`fileKeyRef`, ENV-05).

/// A syntax error, with the number of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvFileError {
    /// No `=`.
    #[error("line {0} has no '='")]
    NoEquals(usize),
    /// No name before the `=`.
    #[error("line {0} has no variable name")]
    NoName(usize),
    /// Space before the `=`.
    #[error("line {0} has space before '='")]
    SpaceBeforeEquals(usize),
    /// The value is not in single quotes.
    #[error("the value in line {0} is not in single quotes")]
    NotQuoted(usize),
    /// The quotes do not end.
    #[error("the quotes that begin in line {0} do not end")]
    Unclosed(usize),
    /// Text follows the value.
    #[error("line {0} goes on after the closing quote")]
    Trailing(usize),
    /// The line is longer than upstream reads.
    #[error("line {0} has more than {MAX_LINE} bytes")]
    TooLong(usize),
}

/// The longest line. upstream: bufio.MaxScanTokenSize, with the line's end (v1.36)
const MAX_LINE: usize = 64 * 1024 - 1;

/// The value of `key` in the text of an environment file; `None` if it is absent.
///
/// A line is `NAME='value'`, with nothing special inside the quotes, not even a line's end; a comment may follow. Empty
/// lines and lines that begin with `#` are skipped. Space after `=` means an empty value, as in a shell. The first
/// entry of a name counts, and the lines after it are not read.
///
/// upstream: util/env/env_util.go ParseEnv (v1.36)
#[doc(alias = "ParseEnv")]
pub fn env_file_value(text: &str, key: &str) -> Result<Option<String>, EnvFileError> {
    const SPACE: [char; 2] = [' ', '\t'];
    // A carriage return at the end of a line is none of it, and the last line may have no other end.
    let text = text.strip_suffix('\r').unwrap_or(text);
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = lines.next() {
        if line.len() > MAX_LINE {
            return Err(EnvFileError::TooLong(number));
        }
        let line = line.trim_start_matches(SPACE);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or(EnvFileError::NoEquals(number))?;
        if name.trim_end_matches(SPACE).is_empty() {
            return Err(EnvFileError::NoName(number));
        }
        if name.ends_with(SPACE) {
            return Err(EnvFileError::SpaceBeforeEquals(number));
        }
        if value.starts_with(SPACE) {
            if name == key {
                return Ok(Some(String::new()));
            }
            continue;
        }
        let mut rest = value.strip_prefix('\'').ok_or(EnvFileError::NotQuoted(number))?;
        let mut here = number;
        let mut content = String::new();
        let tail = loop {
            if let Some((last, tail)) = rest.split_once('\'') {
                content.push_str(last);
                break tail;
            }
            content.push_str(rest);
            content.push('\n');
            (here, rest) = lines.next().ok_or(EnvFileError::Unclosed(number))?;
            if rest.len() > MAX_LINE {
                return Err(EnvFileError::TooLong(here));
            }
        };
        let tail = tail.trim_start_matches(SPACE);
        if !tail.is_empty() && !tail.starts_with('#') {
            return Err(EnvFileError::Trailing(here));
        }
        if name == key {
            return Ok(Some(content));
        }
    }
    Ok(None)
}
