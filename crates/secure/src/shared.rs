//! What connections of all protocols share.

use std::sync::Arc;

use crate::certificate::Current;
use crate::limits::Limits;
use crate::peers::Known;

/// What connections of all protocols share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// This router's certificate.
    pub(crate) current: Arc<Current>,
    /// Whom this router trusts.
    pub(crate) known: Arc<Known>,
    pub(crate) limits: Limits,
}
