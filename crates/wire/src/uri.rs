//! The URI form of names, both ways [NDN Packet Specification v0.3, "NDN URI Scheme"].
//!
//! `/a/b`, `ndn:/a/b`, percent-encoding, `/...` for components of dots alone, typed components as
//! `8=x`, `42=x`, and the conventional forms `sha256digest=`, `params-sha256=`, `seg=`, `off=`,
//! `v=`, `t=`, `seq=`. [`std::fmt::Display`] of a name writes, [`std::str::FromStr`] reads.

use std::str::FromStr;

use thiserror::Error;

use crate::name::Name;

/// Why a string is not a name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UriError {
    /// What is wrong, in words that help to mend it.
    #[error("'{component}' is not a name component: {reason}")]
    BadComponent {
        /// The component as written.
        component: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The name is too long.
    #[error("the name has more than {} components", crate::name::COMPONENTS_MAX)]
    TooManyComponents,
}

impl FromStr for Name {
    type Err = UriError;
    fn from_str(_uri: &str) -> Result<Name, UriError> {
        todo!()
    }
}
