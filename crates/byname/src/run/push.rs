//! Metrics for a collector of OpenTelemetry, if byname was built with the feature `opentelemetry`.

use byname_control::config::Config;
use byname_control::service::ControlHandle;
use byname_secure::Secure;

use super::routing::Measures;

/// Sends metrics until it is dropped.
#[cfg(feature = "opentelemetry")]
pub use byname_web::push::Push;

/// Cannot be: this byname was built without the feature. `examine` refuses configurations that want it.
#[cfg(not(feature = "opentelemetry"))]
pub enum Push {}

/// Starts to send metrics, if the configuration names a collector.
///
/// # Errors
/// If the system provides no thread.
#[cfg(feature = "opentelemetry")]
pub fn start(
    config: &Config,
    control: &ControlHandle,
    measures: Measures,
    secure: Option<&Secure>,
) -> anyhow::Result<Option<Push>> {
    let metrics = &config.metrics;
    if metrics.otlp.is_empty() {
        return Ok(None);
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // As Prometheus names what it scrapes.
    let instance = format!("{host}:{}", metrics.listen.port());
    let config =
        byname_web::push::PushConfig { endpoint: metrics.otlp.clone(), interval: metrics.otlp_interval, instance };
    let snapshots = control.snapshots(metrics.faces);
    let ask = super::ports::adds_certificate(secure, measures.added_to(move |tell| snapshots.ask(tell)));
    Ok(Some(Push::start(config, ask)?))
}

/// Starts nothing.
///
/// # Errors
/// None.
#[cfg(not(feature = "opentelemetry"))]
pub fn start(_: &Config, _: &ControlHandle, _: Measures, _: Option<&Secure>) -> anyhow::Result<Option<Push>> {
    Ok(None)
}
