//! Probes and lifecycle hooks: what is called, how, and how often.
//!
//! upstream: core/validation/validation.go validateProbe, validateHandler, validateLifecycle (v1.36)

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::containers::port_number;
use super::faults::Faults;
use super::{Context, names, text};
use crate::manifest::field::Path;

const SIGNALS: [&str; 34] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

pub(super) fn validate(context: &Context<'_>, container: &Container, at: &Path, faults: &mut Faults) {
    if let Some(lifecycle) = &container.lifecycle {
        self::lifecycle(context, lifecycle, &at.child("lifecycle"), faults);
    }
    if let Some(probe) = &container.liveness_probe {
        self::probe(probe, &at.child("livenessProbe"), faults);
        succeeds_at_once(probe, &at.child("livenessProbe"), faults);
    }
    if let Some(probe) = &container.readiness_probe {
        let at = at.child("readinessProbe");
        self::probe(probe, &at, faults);
        if let Some(grace) = probe.termination_grace_period_seconds {
            faults.invalid(&at.child("terminationGracePeriodSeconds"), grace, "a readiness probe never ends anything");
        }
    }
    if let Some(probe) = &container.startup_probe {
        self::probe(probe, &at.child("startupProbe"), faults);
        succeeds_at_once(probe, &at.child("startupProbe"), faults);
    }
}

fn succeeds_at_once(probe: &Probe, at: &Path, faults: &mut Faults) {
    if probe.success_threshold != Some(1) {
        faults.invalid(&at.child("successThreshold"), probe.success_threshold.unwrap_or_default(), "must be 1");
    }
}

fn probe(probe: &Probe, at: &Path, faults: &mut Faults) {
    let handler = Handler {
        exec: probe.exec.as_ref(),
        http: probe.http_get.as_ref(),
        tcp: probe.tcp_socket.as_ref(),
        grpc: probe.grpc.as_ref(),
        sleep: None,
    };
    self::handler(&handler, 0, at, faults);
    for (name, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        faults.not_negative(&at.child(name), i64::from(value.unwrap_or_default()));
    }
    if let Some(grace) = probe.termination_grace_period_seconds.filter(|grace| *grace <= 0) {
        faults.invalid(&at.child("terminationGracePeriodSeconds"), grace, "must be greater than 0");
    }
}

fn lifecycle(context: &Context<'_>, lifecycle: &Lifecycle, at: &Path, faults: &mut Faults) {
    let grace = context.spec.termination_grace_period_seconds.unwrap_or_default();
    for (name, hook) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(hook) = hook {
            self::handler(&Handler::from(hook), grace, &at.child(name), faults);
        }
    }
    if let Some(signal) = &lifecycle.stop_signal {
        let at = at.child("stopSignal");
        match context.spec.os.as_ref().map(|os| os.name.as_str()) {
            None => faults.forbidden(&at, "needs spec.os.name, as signals differ between systems"),
            Some("linux") if !is_signal(signal) => faults.unsupported(&at, signal, &SIGNALS),
            Some("windows") => faults.one_of(&at, signal, &["SIGKILL", "SIGTERM"]),
            Some(_) => {}
        }
    }
}

/// Real-time signals count up from SIGRTMIN and down from SIGRTMAX.
fn is_signal(name: &str) -> bool {
    let within = |number: &str, max: u8| {
        !number.starts_with('0') && number.parse::<u8>().is_ok_and(|number| (1..=max).contains(&number))
    };
    SIGNALS.contains(&name)
        || matches!(name, "SIGRTMIN" | "SIGRTMAX")
        || name.strip_prefix("SIGRTMIN+").is_some_and(|number| within(number, 15))
        || name.strip_prefix("SIGRTMAX-").is_some_and(|number| within(number, 14))
}

/// What a probe or a hook does: exactly one of these.
struct Handler<'a> {
    exec: Option<&'a ExecAction>,
    http: Option<&'a HTTPGetAction>,
    tcp: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

impl<'a> From<&'a LifecycleHandler> for Handler<'a> {
    fn from(hook: &'a LifecycleHandler) -> Self {
        let (exec, http, tcp) = (hook.exec.as_ref(), hook.http_get.as_ref(), hook.tcp_socket.as_ref());
        Self { exec, http, tcp, grpc: None, sleep: hook.sleep.as_ref() }
    }
}

fn handler(handler: &Handler<'_>, grace: i64, at: &Path, faults: &mut Faults) {
    let kinds = [
        (handler.exec.is_some(), "exec"),
        (handler.http.is_some(), "httpGet"),
        (handler.tcp.is_some(), "tcpSocket"),
        (handler.grpc.is_some(), "grpc"),
        (handler.sleep.is_some(), "sleep"),
    ];
    let mut given = kinds.iter().filter_map(|(is_set, name)| is_set.then_some(*name));
    let Some(first) = given.next() else {
        return faults.required(at, "must say what to do, for example with exec or httpGet");
    };
    for other in given {
        faults.forbidden(&at.child(other), "only one kind of handler is allowed");
    }
    let at = at.child(first);
    match (first, handler) {
        ("exec", Handler { exec: Some(exec), .. }) if exec.command.as_ref().is_none_or(Vec::is_empty) => {
            faults.required(&at.child("command"), "");
        }
        ("httpGet", Handler { http: Some(http), .. }) => http_get(http, &at, faults),
        ("tcpSocket", Handler { tcp: Some(tcp), .. }) => port(&tcp.port, &at.child("port"), faults),
        ("grpc", Handler { grpc: Some(grpc), .. }) => port_number(i64::from(grpc.port), &at.child("port"), faults),
        ("sleep", Handler { sleep: Some(sleep), .. }) if !(0..=grace).contains(&sleep.seconds) => {
            faults.invalid(
                &at,
                sleep.seconds,
                format!("must be between 0 and the pod's grace period of {grace} seconds"),
            );
        }
        (_, _) => {}
    }
}

fn http_get(http: &HTTPGetAction, at: &Path, faults: &mut Faults) {
    faults.required_text(&at.child("path"), text(http.path.as_ref()));
    port(&http.port, &at.child("port"), faults);
    faults.one_of(&at.child("scheme"), text(http.scheme.as_ref()), &["HTTP", "HTTPS"]);
    for (index, header) in http.http_headers.iter().flatten().enumerate() {
        let at = at.child("httpHeaders").index(index).child("name");
        faults.rule(&at, &header.name, names::header_name(&header.name));
    }
}

fn port(port: &IntOrString, at: &Path, faults: &mut Faults) {
    match port {
        IntOrString::Int(number) => port_number(i64::from(*number), at, faults),
        IntOrString::String(name) => faults.rule(at, name, names::port_name(name)),
    }
}
