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

/// systemd's units. Fails if systemd does not answer.
pub(super) async fn units(tasks: &mut TaskGroup) -> anyhow::Result<Units> {
    let (units, version) = reach(endpoints(), tasks).await.context(MEND)?;
    info!(version, "systemd answers");
    Ok(units)
}

/// Where systemd can be reached.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    Endpoint::systemd(std::env::var(ADDRESS).ok().as_deref())
}

/// systemd's units and its version.
pub(crate) async fn reach(endpoints: Vec<Endpoint>, tasks: &mut TaskGroup) -> Result<(Units, u32), UnitError> {
    let units = Units::new(Bus::start(endpoints, tasks));
    let version = units.version().await?;
    Ok((units, version))
}
