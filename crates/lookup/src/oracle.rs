//! The slow, obviously right version of each kind of table.
