//! Environment variables with the addresses of services (ENV-01, ENV-02).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;

/// The variables of the services that a pod in `namespace` sees: `default/kubernetes` always, those of its own namespace
/// if it enables service links.
///
/// upstream: kubelet_pods.go getServiceEnvVarMap, envvars/envvars.go FromServices (v1.36)
#[doc(alias = "FromServices")]
pub(super) fn service_env<'a>(
    services: &'a [Service],
    namespace: &str,
    links: bool,
) -> impl Iterator<Item = (String, String)> + use<'a> {
    let mut visible: BTreeMap<&'a str, &'a Service> = BTreeMap::new();
    for service in services {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let of = service.metadata.namespace.as_deref().unwrap_or_default();
        if cluster_ip(service).is_none() {
            continue;
        }
        if of == "default" && name == "kubernetes" {
            visible.entry(name).or_insert(service);
        } else if of == namespace && links {
            visible.insert(name, service);
        }
    }
    visible.into_iter().flat_map(|(name, service)| variables(name, service))
}

/// The address of a service, unless it is headless or has none yet.
fn cluster_ip(service: &Service) -> Option<&str> {
    let ip = service.spec.as_ref()?.cluster_ip.as_deref()?;
    (!ip.is_empty() && ip != "None").then_some(ip)
}

fn variables(name: &str, service: &Service) -> Vec<(String, String)> {
    let Some(ip) = cluster_ip(service) else { return Vec::new() };
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let prefix = variable_name(name);
    let mut list = vec![(format!("{prefix}_SERVICE_HOST"), ip.to_owned())];
    if let Some(first) = ports.first() {
        list.push((format!("{prefix}_SERVICE_PORT"), first.port.to_string()));
    }
    for port in ports {
        if let Some(port_name) = port.name.as_deref().filter(|port_name| !port_name.is_empty()) {
            list.push((format!("{prefix}_SERVICE_PORT_{}", variable_name(port_name)), port.port.to_string()));
        }
    }
    for (index, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
        let number = port.port;
        let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
        let url = format!("{}://{host}:{number}", protocol.to_lowercase());
        if index == 0 {
            list.push((format!("{prefix}_PORT"), url.clone()));
        }
        let port_prefix = format!("{prefix}_PORT_{number}_{}", protocol.to_uppercase());
        list.push((port_prefix.clone(), url));
        list.push((format!("{port_prefix}_PROTO"), protocol.to_lowercase()));
        list.push((format!("{port_prefix}_PORT"), number.to_string()));
        list.push((format!("{port_prefix}_ADDR"), ip.to_owned()));
    }
    list
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}
