//! What the kernel's log says of memory that ran out (OOM-01).
//!
//! The kernel writes an out-of-memory kill as a series of lines. The first has `invoked oom-killer:`; on kernels from 5.0 on
//! an `oom-kill:` line names the cgroup whose limit was reached, or `global_oom` if it was the machine's own memory; a last
//! one has `Killed process`.
//! upstream: cadvisor utils/oomparser, kubelet/oom/oom_watcher_linux.go (v1.36)

/// Follows the lines of the kernel's log.
#[derive(Debug, Default)]
pub struct OomParser {
    /// A kill whose lines have begun.
    begun: Option<Begun>,
}

#[derive(Debug, Default)]
struct Begun {
    /// The cgroup whose limit was reached; `None` for the machine.
    cgroup: Option<String>,
}

/// A process was killed because memory ran out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomKill {
    /// The cgroup whose limit was reached; `None` if the machine's own memory ran out.
    pub cgroup: Option<String>,
    /// The name of the process.
    pub process: String,
    /// Its number.
    pub pid: u64,
}

impl OomKill {
    /// The machine's own memory ran out.
    pub fn is_of_the_system(&self) -> bool {
        self.cgroup.is_none()
    }

    /// The message of the event.
    /// upstream: oom_watcher_linux.go Start (v1.36)
    pub fn message(&self) -> String {
        let Self { process, pid, .. } = self;
        match (process.as_str(), pid) {
            ("", _) | (_, 0) => "System OOM encountered".to_owned(),
            (process, pid) => format!("System OOM encountered, victim process: {process}, pid: {pid}"),
        }
    }
}

impl OomParser {
    /// Takes the next line, without the log's own prefix; returns a kill once its lines are complete.
    pub fn line(&mut self, line: &str) -> Option<OomKill> {
        if line.contains("invoked oom-killer:") {
            self.begun = Some(Begun::default());
            return None;
        }
        let begun = self.begun.as_mut()?;
        if let Some(fields) = line.split_once("oom-kill:constraint=").map(|(_, fields)| fields) {
            let kill = summary(fields)?;
            self.begun = None;
            return Some(kill);
        }
        // Kernels before 5.0.
        if let Some((_, limit)) = line.split_once(" killed as a result of limit of ") {
            begun.cgroup = Some(limit.trim_end().to_owned()).filter(|limit| limit != "/");
            return None;
        }
        let (pid, process) = killed(line)?;
        let cgroup = self.begun.take().and_then(|begun| begun.cgroup);
        Some(OomKill { cgroup, process, pid })
    }
}

/// The fields of an `oom-kill:` line. The name of the process may hold anything, so the fields after it are found from the
/// end, and those before it from the beginning.
fn summary(fields: &str) -> Option<OomKill> {
    let (before, rest) = fields.split_once(",task=")?;
    let (rest, _uid) = rest.rsplit_once(",uid=")?;
    let (process, pid) = rest.rsplit_once(",pid=")?;
    let cgroup = match before.split_once(",oom_memcg=") {
        Some((_, named)) => Some(named.split_once(",task_memcg=").map_or(named, |(cgroup, _)| cgroup)),
        None if before.contains(",global_oom") => None,
        None => return None,
    };
    let cgroup = cgroup.filter(|cgroup| *cgroup != "/").map(str::to_owned);
    Some(OomKill { cgroup, process: process.to_owned(), pid: pid.parse().ok()? })
}

/// `Killed process 123 (name)`, with more after it. A name may hold parentheses; the kernel ends it with the first `)` that
/// is followed by a blank, a comma or nothing.
fn killed(line: &str) -> Option<(u64, String)> {
    let (_, rest) = line.split_once("Killed process ")?;
    let (pid, rest) = rest.split_once(" (")?;
    let ends = |at: &usize| matches!(rest.as_bytes().get(at + 1), None | Some(b' ' | b','));
    let end = rest.match_indices(')').map(|(at, _)| at).find(ends)?;
    Some((pid.parse().ok()?, rest.get(..end)?.to_owned()))
}

/// The text of one record of `/dev/kmsg`, if the kernel wrote it. Processes may write there as well, and are marked as not
/// being the kernel: what they write is no reason for an event.
///
/// A record is `<priority>,<number>,<microseconds>,<flags>;<text>`, followed by lines of details. The priority is a level
/// below eight plus eight times the origin; the kernel is origin zero.
pub fn kernel_text(record: &str) -> Option<&str> {
    let (prefix, text) = record.split_once(';')?;
    let priority: u32 = prefix.split(',').next()?.parse().ok()?;
    let text = text.split_once('\n').map_or(text, |(text, _)| text);
    (priority < 8).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &[&str]) -> Vec<OomKill> {
        let mut parser = OomParser::default();
        lines.iter().filter_map(|line| parser.line(line)).collect()
    }

    fn kill(cgroup: Option<&str>, process: &str, pid: u64) -> OomKill {
        OomKill { cgroup: cgroup.map(str::to_owned), process: process.into(), pid }
    }

    const BEGIN: &str = "mem-hog invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=1000";

    #[test]
    fn oom_01_memory_of_the_machine_ran_out() {
        let new = [
            BEGIN,
            "CPU: 1 PID: 13536 Comm: mem-hog Not tainted 6.1.0 #1",
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=kubepods,mems_allowed=0,global_oom,\
             task_memcg=/kubepods/besteffort/pod1/c1,task=mem-hog,pid=13536,uid=0",
            "Out of memory: Killed process 13536 (mem-hog) total-vm:8kB, anon-rss:4kB, file-rss:0kB, UID:0",
        ];
        assert_eq!(parse(&new), [kill(None, "mem-hog", 13536)]);
        let old = [
            "java invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0",
            "Out of memory: Kill process 7 (java) score 900 or sacrifice child",
            "Killed process 7 (java) total-vm:8kB, anon-rss:4kB, file-rss:0kB",
        ];
        assert_eq!(parse(&old), [kill(None, "java", 7)]);
    }

    #[test]
    fn oom_01_memory_of_a_cgroup_ran_out() {
        let new = [
            BEGIN,
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c1,mems_allowed=0,oom_memcg=/kubepods/pod1/c1,\
             task_memcg=/kubepods/pod1/c1,task=mem-hog,pid=42,uid=65534",
            "Memory cgroup out of memory: Killed process 42 (mem-hog) total-vm:8kB, anon-rss:4kB",
        ];
        assert_eq!(parse(&new), [kill(Some("/kubepods/pod1/c1"), "mem-hog", 42)]);
        let old = [
            BEGIN,
            "Task in /kubepods/pod1/c1 killed as a result of limit of /kubepods/pod1",
            "Memory cgroup out of memory: Kill process 42 (mem-hog) score 1 or sacrifice child",
            "Killed process 42 (mem-hog) total-vm:8kB",
        ];
        assert_eq!(parse(&old), [kill(Some("/kubepods/pod1"), "mem-hog", 42)]);
    }

    #[test]
    fn oom_01_what_is_no_kill_of_the_kernel_is_none() {
        let line = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task_memcg=/,task=x,pid=1,uid=0";
        assert_eq!(parse(&[line]), [], "without its beginning");
        assert_eq!(parse(&["Killed process 7 (java) total-vm:8kB"]), []);
        assert_eq!(parse(&[BEGIN, "eth0: link is up", "oom-kill:constraint=", "Killed process x (y)"]), []);
        assert_eq!(parse(&[BEGIN, BEGIN, "Killed process 7 (a) (b), UID:0"]), [kill(None, "a", 7)]);
    }

    #[test]
    fn oom_01_a_process_may_have_any_name() {
        let named = |name: &str| {
            format!(
                "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,mems_allowed=0,oom_memcg=/p,task_memcg=/p,\
                 task={name},pid=42,uid=0"
            )
        };
        for name in ["a,pid=1,uid=0", "x)y", ",global_oom", ""] {
            assert_eq!(parse(&[BEGIN, &named(name)]), [kill(Some("/p"), name, 42)], "{name}");
        }
        assert_eq!(parse(&[BEGIN, "Killed process 7 (x)y) total-vm:8kB"]), [kill(None, "x)y", 7)]);
    }

    // upstream: oom_watcher_linux.go Start (v1.36)
    #[test]
    fn oom_01_the_message_is_upstreams() {
        assert_eq!(kill(None, "java", 7).message(), "System OOM encountered, victim process: java, pid: 7");
        assert_eq!(kill(None, "", 7).message(), "System OOM encountered");
        assert_eq!(kill(None, "java", 0).message(), "System OOM encountered");
    }

    #[test]
    fn only_records_of_the_kernel_count() {
        for (record, expected) in [
            ("4,1234,5678,-;Killed process 7 (java)\n SUBSYSTEM=x\n", Some("Killed process 7 (java)")),
            ("6,1,2,c,more=fields;text; with a semicolon", Some("text; with a semicolon")),
            // Written by a process: origin 1.
            ("12,1,2,-;x invoked oom-killer:", None),
            ("", None),
            ("4,1,2,- without a text", None),
            ("x,1,2,-;text", None),
        ] {
            assert_eq!(kernel_text(record), expected, "{record:?}");
        }
    }
}
