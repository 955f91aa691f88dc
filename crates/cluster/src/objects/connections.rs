//! Connections for many watches: a server allows so many on each.

use rubelet_engine::task::TaskGroup;

/// How many watches share a connection. The API server takes 100 requests at a time on each
/// (`--http2-max-streams-per-connection`), and the first connection serves others too.
const PER_CONNECTION: usize = 60;

/// Makes a further connection; the tasks that it needs to live run in the group, and end when nobody uses it.
pub type Connect<R> = Box<dyn FnMut(&mut TaskGroup) -> R + Send>;

/// The connections in use.
pub(super) struct Connections<R> {
    connect: Connect<R>,
    lines: Vec<Line<R>>,
    made: u64,
}

struct Line<R> {
    id: u64,
    api: R,
    watches: usize,
}

/// A connection to use for one watch.
pub(super) struct Lease<R> {
    pub(super) id: u64,
    pub(super) api: R,
}

impl<R: Clone> Connections<R> {
    pub(super) fn new(first: R, connect: Connect<R>) -> Self {
        Self { connect, lines: vec![Line { id: 0, api: first, watches: 0 }], made: 0 }
    }

    pub(super) fn take(&mut self, tasks: &mut TaskGroup) -> Lease<R> {
        if let Some(line) = self.lines.iter_mut().find(|line| line.watches < PER_CONNECTION) {
            line.watches += 1;
            return Lease { id: line.id, api: line.api.clone() };
        }
        let api = (self.connect)(tasks);
        self.made += 1;
        self.lines.push(Line { id: self.made, api: api.clone(), watches: 1 });
        Lease { id: self.made, api }
    }

    /// A watch has ended. The first connection is not ours to end.
    pub(super) fn give_back(&mut self, id: u64) {
        if let Some(line) = self.lines.iter_mut().find(|line| line.id == id) {
            line.watches = line.watches.saturating_sub(1);
        }
        self.lines.retain(|line| line.id == 0 || line.watches > 0);
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn so_many_watches_share_a_connection() {
        let mut number = 0;
        let connect: Connect<u32> = Box::new(move |_| {
            number += 1;
            number
        });
        let mut tasks = TaskGroup::new(&CancellationToken::new());
        let mut connections = Connections::new(0, connect);
        let leases: Vec<_> = (0..PER_CONNECTION * 2 + 1).map(|_| connections.take(&mut tasks)).collect();
        let on = |api: u32| leases.iter().filter(|lease| lease.api == api).count();
        assert_eq!([on(0), on(1), on(2)], [PER_CONNECTION, PER_CONNECTION, 1]);
        for lease in &leases {
            connections.give_back(lease.id);
        }
        assert_eq!(connections.lines.len(), 1, "only the first stays");
        assert_eq!(connections.take(&mut tasks).api, 0);
    }
}
