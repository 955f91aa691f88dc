//! Expansion of `$(NAME)` in values, commands and arguments (ENV-04, ENV-06), with a bound on the result.
//!
//! A reference of four bytes stands for a whole other value, which may contain references itself: three levels of a
//! hundred references turn a manifest of 2 KB into gigabytes. So every expansion takes bytes from a [`Room`] and ends as
//! soon as it is used up; a text that does not fit is never built.

/// The largest size of a container's environment, command and arguments together, in bytes.
///
/// Linux refuses to start a program with more: arguments and environment get a quarter of the stack limit, and never more
/// than 6 MiB, a pointer for each string included (`fs/exec.c`, `bprm_stack_limits`). So no container is rejected here
/// that could run. The kernel's limit for a single string depends on the size of pages and is left to the kernel.
pub const MAX_EXPANDED: usize = 6 * 1024 * 1024;

/// The bytes that the kernel counts for a string besides its text: the terminating byte and a pointer.
const PER_STRING: usize = 1 + size_of::<u64>();

/// How many bytes an expansion may still produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Room(usize);

/// The room is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// A container whose environment, command and arguments together are more than any program can be started with. The text
/// is the message after `CreateContainerConfigError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "environment, command and arguments of container {container:?} expand to more than {MAX_EXPANDED} bytes, more than \
     Linux starts a program with: shorten their values or the $(NAME) references in them"
)]
pub struct TooLarge {
    /// Name of the container.
    pub container: String,
}

impl TooLarge {
    /// The error for `container`.
    pub fn of(container: &str) -> Self {
        Self { container: container.to_owned() }
    }
}

impl Room {
    /// Room for this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Takes the room that these bytes need.
    pub fn take(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.0 = self.0.checked_sub(bytes).ok_or(NoRoom)?;
        Ok(())
    }

    /// Takes the room that the kernel counts for a string, without its text.
    pub fn string(&mut self) -> Result<(), NoRoom> {
        self.take(PER_STRING)
    }

    /// Takes the room of a variable whose value has been counted.
    pub fn variable(&mut self, name: &str) -> Result<(), NoRoom> {
        self.take(name.len().saturating_add(1))?;
        self.string()
    }
}

/// Replaces each `$(NAME)` by the result of `value`, and keeps the reference if that is `None`. `$$` is a dollar
/// sign, so that `$$(NAME)` stays a reference in the text; a dollar sign before anything else stays too.
///
/// upstream: third_party/forked/golang/expansion/expand.go Expand (v1.36)
#[doc(alias = "Expand")]
pub fn expand<'a>(
    text: &str,
    room: &mut Room,
    value: &mut dyn FnMut(&str) -> Option<&'a str>,
) -> Result<String, NoRoom> {
    let mut out = String::new();
    let mut push = |part: &str| {
        room.take(part.len())?;
        out.push_str(part);
        Ok(())
    };
    let mut rest = text;
    // No closing bracket ahead, so that there is no reference: without this check, a text of opening brackets would be
    // searched to its end from each of them.
    let mut closes = true;
    while let Some((before, after)) = rest.split_once('$') {
        push(before)?;
        if let Some(escaped) = after.strip_prefix('$') {
            push("$")?;
            rest = escaped;
            continue;
        }
        let inside = after.strip_prefix('(').filter(|_| closes);
        match inside.map(|inside| inside.split_once(')')) {
            Some(Some((name, tail))) => {
                match value(name) {
                    Some(value) => push(value)?,
                    None => ["$(", name, ")"].into_iter().try_for_each(&mut push)?,
                }
                rest = tail;
            }
            found => {
                closes &= found.is_none();
                push("$")?;
                rest = after;
            }
        }
    }
    push(rest)?;
    Ok(out)
}
