//! The NFD management protocol: commands, datasets and notifications.

pub mod tlv;
