//! What a pod gets from the cluster's objects: environment, logins for registries, runtime handlers (sections 8.1, 10.1,
//! 23).

use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, LocalObjectReference,
    SecretKeySelector, Service, ServicePort, ServiceSpec,
};
use rubelet_testkit::{FakeApi, FakePodDirs, Pull, pod};

use crate::sim::{Sim, is_ready};

fn waiting(api: &FakeApi, name: &str) -> Option<(String, String)> {
    let status = api.status(name).container_statuses?.into_iter().next()?;
    let waiting = status.state?.waiting?;
    Some((waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default()))
}

async fn until_waiting(sim: &Sim, api: &FakeApi, name: &str, reason: &str, message: &str) {
    sim.until(30, &format!("{name} to wait with {reason}: {message}"), async |_| {
        waiting(api, name).is_some_and(|(r, m)| r == reason && m.contains(message))
    })
    .await;
}

fn service(name: &str, ip: &str) -> Service {
    let port = ServicePort { port: 80, ..ServicePort::default() };
    let spec = ServiceSpec { cluster_ip: Some(ip.into()), ports: Some(vec![port]), ..ServiceSpec::default() };
    let mut service = Service { spec: Some(spec), ..Service::default() };
    service.metadata.name = Some(name.into());
    service.metadata.namespace = Some("default".into());
    service
}

/// `envFrom` the config map `conf`, `PASS` from the secret `login`.
fn with_env(container: &mut Container) {
    let map = ConfigMapEnvSource { name: "conf".into(), optional: None };
    container.env_from = Some(vec![EnvFromSource { config_map_ref: Some(map), ..EnvFromSource::default() }]);
    let key = SecretKeySelector { name: "login".into(), key: "pass".into(), optional: None };
    let from = EnvVarSource { secret_key_ref: Some(key), ..EnvVarSource::default() };
    let var = EnvVar { name: "PASS".into(), value_from: Some(from), ..EnvVar::default() };
    container.env = Some(vec![var]);
}

#[tokio::test(start_paused = true)]
async fn an_environment_is_made_from_objects_and_services_env_03_env_05() {
    let (sim, api) = Sim::in_cluster(301).await;
    api.set_services(None);
    api.put(&pod("web").edit_container(with_env).build());
    let config_error = "CreateContainerConfigError";
    until_waiting(&sim, &api, "web", config_error, "services have not yet been read at least once").await;
    api.set_services(Some(vec![service("db", "10.0.0.7")]));
    until_waiting(&sim, &api, "web", config_error, r#"configmap "conf" not found"#).await;
    api.objects.put_config_map("conf", [("COLOUR", "red")]);
    until_waiting(&sim, &api, "web", config_error, r#"secret "login" not found"#).await;
    api.objects.put_secret("login", [("other", "x")]);
    until_waiting(&sim, &api, "web", config_error, "couldn't find key pass in Secret default/login").await;
    api.objects.set_down(true);
    until_waiting(&sim, &api, "web", config_error, "connection refused").await;
    api.objects.set_down(false);
    api.objects.put_secret("login", [("pass", "hunter2")]);
    sim.until_ready(&["web"], 30).await;
    let env = sim.runtime.container_config("web", "app").expect("made").envs;
    let value = |name: &str| env.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    assert_eq!(value("COLOUR"), Some("red"));
    assert_eq!(value("PASS"), Some("hunter2"));
    assert_eq!(value("DB_SERVICE_HOST"), Some("10.0.0.7"));
    sim.check_laws();
}

/// `KEY` from the file `conf/app.env` in the volume `data`.
fn with_file(container: &mut Container) {
    let key =
        FileKeySelector { volume_name: "data".into(), path: "conf//app.env".into(), key: "KEY".into(), optional: None };
    let from = EnvVarSource { file_key_ref: Some(key), ..EnvVarSource::default() };
    container.env = Some(vec![EnvVar { name: "KEY".into(), value_from: Some(from), ..EnvVar::default() }]);
}

/// An init container writes the file, and each start of a container reads it.
#[tokio::test(start_paused = true)]
async fn env_05_a_file_of_variables_is_read_when_a_container_starts() {
    let (sim, api) = Sim::in_cluster(310).await;
    let web = pod("web").uid("u").empty_dir("data", "/data").edit_container(with_file).build();
    api.put(&web);
    let config_error = "CreateContainerConfigError";
    until_waiting(&sim, &api, "web", config_error, "couldn't parse env file").await;
    let file = format!("{}/u/volumes/kubernetes.io~fake/data/conf/app.env", FakePodDirs::ROOT);
    let write = |text: &str| sim.dirs.write(&"u".to_owned().into(), &file, text.as_bytes());
    write("KEY=v");
    until_waiting(&sim, &api, "web", config_error, "couldn't parse env file").await;
    write("OTHER='v'");
    let message = format!("environment variable key \"KEY\" not found in file \"{file}\"");
    until_waiting(&sim, &api, "web", config_error, &message).await;
    write(&"#".repeat((1 << 20) + 1));
    until_waiting(&sim, &api, "web", config_error, "couldn't parse env file").await;
    for value in ["first", "second"] {
        write(&format!("KEY='{value}' # of {value}\n"));
        if value == "second" {
            assert!(sim.runtime.end_container("web", "app", 1));
        }
        sim.until(400, value, async |sim| {
            let envs = sim.runtime.container_config("web", "app").map(|config| config.envs).unwrap_or_default();
            is_ready(&api.status("web")) && envs.contains(&("KEY".to_owned(), value.to_owned()))
        })
        .await;
    }
    sim.check_laws();
}

#[tokio::test(start_paused = true)]
async fn objects_are_kept_while_the_pod_is_here_sec_01_tok_02() {
    let (sim, api) = Sim::in_cluster(302).await;
    let web = pod("web").build();
    let uid = rubelet_core::id::PodRef::of(&web).uid;
    api.put(&web);
    sim.until_ready(&["web"], 30).await;
    assert_eq!(api.objects.kept(), std::slice::from_ref(&uid));
    api.delete("web", 0);
    sim.until_gone("web", 30).await;
    assert!(api.objects.kept().is_empty());
    assert!(api.tokens.forgotten().contains(&uid));
}

#[tokio::test(start_paused = true)]
async fn an_image_is_pulled_with_the_pods_logins_one_after_another_img_06() {
    let (sim, api) = Sim::in_cluster(303).await;
    let image = "registry.example.com/team/app:1";
    sim.runtime.script_pull(image, Pull::NeedsLogin("ann".into()));
    let secrets = ["first", "", "second"].map(|name| LocalObjectReference { name: name.into() });
    api.put(&pod("web").image(image).edit_spec(|spec| spec.image_pull_secrets = Some(secrets.into())).build());
    until_waiting(&sim, &api, "web", "ImagePullBackOff", "anonymous is not authorized").await;
    let missing = "Warning FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (first, second); \
                   attempting to pull the image may not succeed.";
    assert!(sim.events.lines("web").iter().any(|line| line == missing), "{:#?}", sim.events.lines("web"));

    api.objects.put_pull_secret("first", "registry.example.com", "bob");
    api.objects.put_pull_secret("second", "registry.example.com/other", "ann");
    until_waiting(&sim, &api, "web", "ImagePullBackOff", "bob is not authorized").await;
    api.objects.put_pull_secret("second", "*.example.com/team", "ann");
    sim.until_ready(&["web"], 60).await;
}

#[tokio::test(start_paused = true)]
async fn the_error_names_every_login_that_fails_img_06() {
    let (sim, api) = Sim::in_cluster(304).await;
    let image = "registry.example.com/app:1";
    sim.runtime.script_pull(image, Pull::NeedsLogin("ann".into()));
    api.objects.put_pull_secret("one", "registry.example.com", "bob");
    api.objects.put_pull_secret("two", "registry.example.com/app", "eve");
    let secrets = ["one", "two"].map(|name| LocalObjectReference { name: name.into() });
    api.put(&pod("web").image(image).edit_spec(|spec| spec.image_pull_secrets = Some(secrets.into())).build());
    until_waiting(&sim, &api, "web", "ImagePullBackOff", "[eve is not authorized, bob is not authorized]").await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_class_names_the_handler_rtc_01() {
    let (sim, api) = Sim::in_cluster(305).await;
    api.put(&pod("web").edit_spec(|spec| spec.runtime_class_name = Some("sandboxed".into())).build());
    let event = "Warning FailedCreatePodSandBox: Failed to create pod sandbox: \
                 runtimeclass.node.k8s.io \"sandboxed\" not found";
    sim.until(30, "the event", async |sim| sim.events.lines("web").iter().any(|line| line == event)).await;
    assert!(sim.runtime.sandbox_config("web").is_none(), "no sandbox without its class");
    api.put_class("sandboxed", "kata");
    sim.until_ready(&["web"], 60).await;
    assert_eq!(sim.runtime.sandbox_config("web").expect("made").runtime_handler, "kata");
    sim.check_laws();
}
