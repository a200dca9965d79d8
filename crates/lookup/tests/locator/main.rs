//! Packets follow the tree by their labels, hop by hop, whoever made the labels.
#![cfg(not(loom))]

mod forged;
mod graphs;
mod labels;
mod network;
mod paths;
