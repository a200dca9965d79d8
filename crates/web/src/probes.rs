//! `/livez` and `/readyz`: what supervisors ask a service. `/certificate`: what authors of web pages ask.

/// Whether something is as it should be; otherwise, the reason. Must not wait.
pub type Probe = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The answers to such questions.
pub struct Probes {
    /// Whether the process works. If not, it should be restarted.
    pub live: Probe,
    /// Whether the process serves its clients now.
    pub ready: Probe,
    /// What the certificate of encrypted faces is at the moment, in JSON. `None`: there are no such faces. Must not wait.
    pub certificate: Option<Box<dyn Fn() -> String + Send + Sync>>,
}
