//! Packets go by their labels as the tree says, hop by hop, whoever made the labels.
#![cfg(not(loom))]

mod forged;
mod graphs;
mod labels;
mod network;
mod paths;
