//! Captures with comments, for Wireshark: one packet for each event, as the router received it.
//!
//! The frames are made up as those of `[capture]` are: NDN in Ethernet, with the face in the source address.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use byname_control::mgmt::json::trace::Event;
use byname_face::pcap::frame_from;
use byname_forward::FaceId;
use byname_wire::NackReason;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};

use super::view;

/// Times are in units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// A capture file in which each packet has a comment.
pub struct CommentedCapture {
    writer: PcapNgWriter<BufWriter<File>>,
    frame: Vec<u8>,
}

impl CommentedCapture {
    /// Creates or empties the file.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut writer = PcapNgWriter::new(BufWriter::new(file))?;
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed("byname")),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        writer.write_pcapng_block(interface)?;
        Ok(CommentedCapture { writer, frame: Vec::new() })
    }

    /// Writes the packet of an event.
    pub fn write(&mut self, event: &Event, packet: &[u8]) -> anyhow::Result<()> {
        let nack = event.nack.map(reason);
        self.frame.clear();
        frame_from(FaceId(event.face_id), nack, packet, &mut self.frame);
        self.writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_micros(event.at_unix_us),
            original_len: u32::try_from(self.frame.len())?,
            data: Cow::Borrowed(&self.frame),
            options: vec![EnhancedPacketOption::Comment(Cow::Owned(view::comment(event)))],
        })?;
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(self) -> anyhow::Result<()> {
        self.writer.into_inner().flush().context("cannot write the capture")
    }
}

fn reason(word: &str) -> NackReason {
    let all = [NackReason::Congestion, NackReason::Duplicate, NackReason::NoRoute];
    let word_of = |reason: NackReason| byname_control::mgmt::json::nack_word(reason.number());
    all.into_iter().find(|reason| word_of(*reason) == word).unwrap_or(NackReason::None)
}
