//! `rubelet logs POD`: the log of a container, read from the node's disk. The running rubelet only says which file it is.

use std::path::{Path, PathBuf};

use rubelet_engine::chain::Chain;
use rubelet_engine::ports::{LogReader, LogText, LogWish};
use rubelet_linux::logs::{DiskLogs, LogDirs};
use rubelet_server::documents::{LogAsk, LogDocument};
use rubelet_server::local::Client;

use super::human::clean;
use super::{Report, complain, write_on};
use crate::flags::Query;

/// A log's path below the directory of all pods' logs: pod, container, file.
const DEPTH: usize = 3;

pub(super) async fn run(query: &Query, ask: &LogAsk, wish: &LogWish) -> Result<Report, String> {
    let client = Client::new(&query.socket);
    let log = client.log(ask).await.map_err(|err| err.to_string())?;
    if !log.others.is_empty() {
        let others = clean(&log.others.join(", "));
        complain(
            tracing::Level::INFO,
            &[format!("container {} of {}; others: {others}", clean(&log.container), clean(&log.pod))],
        );
    }
    let mut text = open(&log, wish).await?;
    // Of a container that has ended, nothing more is waited for.
    let runs = log.running.contains(&log.id);
    if !(wish.follow && runs) {
        text.finish();
        return copy(text.as_mut()).await;
    }
    let ended = end(
        &client,
        LogAsk { container: Some(log.container.clone()), until_end_of: Some(log.id.clone()), ..ask.clone() },
    );
    tokio::pin!(ended);
    loop {
        tokio::select! {
            biased;
            // Both are cancel-safe: the log documents it, and the other future is kept.
            piece = text.next() => match piece.map_err(|err| Chain(&err).to_string())? {
                Some(piece) if write_on(&piece)? => {}
                Some(_) | None => return Ok(Report::default()),
            },
            () = &mut ended => {
                text.finish();
                return copy(text.as_mut()).await;
            }
        }
    }
}

async fn open(log: &LogDocument, wish: &LogWish) -> Result<Box<dyn LogText>, String> {
    let path = Path::new(&log.path);
    let pods: PathBuf = path.ancestors().nth(DEPTH).map(Path::to_owned).unwrap_or_default();
    let reader = DiskLogs::new(LogDirs { containers: pods.clone(), pods });
    reader.open(&log.path, wish).await.map_err(|err| Chain(&err).to_string())
}

/// Writes the rest of the log.
async fn copy(text: &mut dyn LogText) -> Result<Report, String> {
    while let Some(piece) = text.next().await.map_err(|err| Chain(&err).to_string())? {
        if !write_on(&piece)? {
            break;
        }
    }
    Ok(Report::default())
}

/// Waits for the end of the instance. Without an agent, nobody says when that is: the log is followed on.
async fn end(client: &Client, ask: LogAsk) {
    loop {
        match client.log(&ask).await {
            Ok(log) if ask.until_end_of.as_ref().is_some_and(|id| log.running.contains(id)) => {}
            Ok(_) | Err(rubelet_server::local::AskError::Miss(_)) => return,
            Err(_) => std::future::pending().await,
        }
    }
}
