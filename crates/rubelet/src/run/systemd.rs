//! The connection to systemd, for the systemd cgroup driver.

use anyhow::Context;
use rubelet_engine::task::TaskGroup;
use rubelet_linux::cgroups::{UnitError, Units};
use rubelet_linux::dbus::{Bus, Endpoint};
use tracing::info;

/// What to do if systemd cannot be reached.
pub(crate) const MEND: &str = "the systemd cgroup driver needs systemd as PID 1, and D-Bus (`systemctl start dbus`) or root; on a \
                               host without systemd set SystemdCgroup = false for containerd's runc (cgroup_manager = \
                               \"cgroupfs\" for CRI-O) and cgroupDriver: cgroupfs";
/// The variable that names the system bus's address.
const ADDRESS: &str = "DBUS_SYSTEM_BUS_ADDRESS";

/// The units of the systemd that answers on one of these endpoints. Without one the start fails: a node that wrote cgroups
/// beside systemd would lose its pods' limits at systemd's next reload.
pub(super) async fn units(endpoints: Vec<Endpoint>, tasks: &mut TaskGroup) -> anyhow::Result<Units> {
    let (units, version) = reach(endpoints, tasks).await.context(MEND)?;
    info!(version, "systemd answers");
    Ok(units)
}

/// Where systemd can be reached.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    Endpoint::systemd(std::env::var(ADDRESS).ok().as_deref())
}

/// Where the system bus can be reached, which logind needs.
pub(crate) fn bus_endpoints() -> Vec<Endpoint> {
    Endpoint::system_bus(std::env::var(ADDRESS).ok().as_deref())
}

/// systemd's units and its version.
pub(crate) async fn reach(endpoints: Vec<Endpoint>, tasks: &mut TaskGroup) -> Result<(Units, u32), UnitError> {
    let units = Units::new(Bus::start(endpoints, tasks));
    let version = units.version().await?;
    Ok((units, version))
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn a_start_with_the_systemd_driver_and_no_systemd_says_what_was_tried_and_what_to_do() {
        let mut tasks = TaskGroup::new(&CancellationToken::new());
        let nowhere = vec![Endpoint::Bus("/nonexistent/bus".into()), Endpoint::Peer("/nonexistent/private".into())];
        let err = units(nowhere, &mut tasks).await.expect_err("nobody listens");
        let text = format!("{err:#}");
        for part in ["needs systemd as PID 1", "SystemdCgroup = false", "cgroupDriver: cgroupfs", "/nonexistent/bus"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        tasks.stop().await;
    }
}
