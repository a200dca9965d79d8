//! `/livez` and `/readyz`: what supervisors ask a service.

/// Whether something is as it should be; otherwise, the reason. Must not wait.
pub type Probe = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The answers to a supervisor's questions.
pub struct Probes {
    /// Whether the process works. If not, it should be restarted.
    pub live: Probe,
    /// Whether the process serves its clients now.
    pub ready: Probe,
}
