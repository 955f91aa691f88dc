//! Connections for many watches: the API server limits the streams per connection.

use rubelet_engine::task::TaskGroup;

/// Watches per connection. The API server allows 100 streams (`--http2-max-streams-per-connection`), and the first
/// connection also carries requests.
const PER_CONNECTION: usize = 60;

/// Makes another connection; its tasks run in the group and end when the connection is no longer used.
pub type Connect<R> = Box<dyn FnMut(&mut TaskGroup) -> R + Send>;

/// The connections in use.
pub(super) struct Connections<R> {
    connect: Connect<R>,
    open: Vec<Connection<R>>,
    made: u64,
}

struct Connection<R> {
    id: u64,
    api: R,
    watches: usize,
}

/// The connection for one watch.
pub(super) struct Assignment<R> {
    pub(super) id: u64,
    pub(super) api: R,
}

impl<R: Clone> Connections<R> {
    pub(super) fn new(first: R, connect: Connect<R>) -> Self {
        Self { connect, open: vec![Connection { id: 0, api: first, watches: 0 }], made: 0 }
    }

    pub(super) fn take(&mut self, tasks: &mut TaskGroup) -> Assignment<R> {
        if let Some(connection) = self.open.iter_mut().find(|connection| connection.watches < PER_CONNECTION) {
            connection.watches += 1;
            return Assignment { id: connection.id, api: connection.api.clone() };
        }
        let api = (self.connect)(tasks);
        self.made += 1;
        self.open.push(Connection { id: self.made, api: api.clone(), watches: 1 });
        Assignment { id: self.made, api }
    }

    /// A watch has ended. The first connection is shared with requests and is never closed here.
    pub(super) fn release(&mut self, id: u64) {
        if let Some(connection) = self.open.iter_mut().find(|connection| connection.id == id) {
            connection.watches = connection.watches.saturating_sub(1);
        }
        self.open.retain(|connection| connection.id == 0 || connection.watches > 0);
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn each_connection_carries_a_bounded_number_of_watches() {
        let mut number = 0;
        let connect: Connect<u32> = Box::new(move |_| {
            number += 1;
            number
        });
        let mut tasks = TaskGroup::new(&CancellationToken::new());
        let mut connections = Connections::new(0, connect);
        let assignments: Vec<_> = (0..PER_CONNECTION * 2 + 1).map(|_| connections.take(&mut tasks)).collect();
        let on = |api: u32| assignments.iter().filter(|assignment| assignment.api == api).count();
        assert_eq!([on(0), on(1), on(2)], [PER_CONNECTION, PER_CONNECTION, 1]);
        for assignment in &assignments {
            connections.release(assignment.id);
        }
        assert_eq!(connections.open.len(), 1, "only the first connection stays");
        assert_eq!(connections.take(&mut tasks).api, 0);
    }
}
