//! The generator's packets: encoded once, then patched.

use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::{self, types};
use byname_wire::{Data, Interest, LpPacket, Name};

/// Names of six components and 48 bytes. They differ in their last eight hexadecimal digits.
pub struct Names {
    /// For each prefix, an encoded Interest whose number is patched.
    templates: Vec<Vec<u8>>,
    /// Digits that identify names of this run. In Data, the number follows them.
    salt: [u8; 8],
    name_ends: Vec<usize>,
}

const DIGITS: usize = 8;

impl Names {
    /// Makes names below `prefix`, or below `prefixes` prefixes /ndn/siteNNNNNNN/app.
    pub fn new(prefix: &str, prefixes: u32) -> anyhow::Result<Self> {
        let salt = format!("{:08x}", std::process::id() ^ std::time::UNIX_EPOCH.elapsed()?.subsec_nanos());
        let templates = (0..prefixes.max(1))
            .map(|i| {
                let prefix = if prefixes == 0 { prefix.to_owned() } else { format!("/ndn/site{i:07}/app") };
                let name: Name = format!("{prefix}/alpha/video/v{salt}/s00000000").parse()?;
                Ok(InterestBuilder::new(name, 0).lifetime_ms(4000).encode())
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let name_end = |t: &Vec<u8>| {
            let interest = Interest::decode(t).expect("built above");
            interest.name_offset + interest.name.value().len()
        };
        let name_ends = templates.iter().map(name_end).collect();
        Ok(Names { templates, salt: salt.as_bytes().try_into().expect("eight digits"), name_ends })
    }

    /// The Interest for a number. `random` chooses the prefix and is the nonce.
    pub fn interest(&mut self, number: u32, random: u32) -> &[u8] {
        let which = random as usize % self.templates.len();
        let (template, end) = (&mut self.templates[which], self.name_ends[which]);
        for (i, digit) in template[end - DIGITS..end].iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (4 * (DIGITS - 1 - i)) & 15) as usize];
        }
        // The nonce follows the name, behind two bytes of type and length.
        template[end + 2..end + 6].copy_from_slice(&random.to_be_bytes());
        template
    }

    /// The number in the name of Data; `None` if the Data is not of this run.
    pub fn number(&self, data: &Data<'_>) -> Option<u32> {
        let name = data.name.value();
        let (rest, digits) = name.split_at_checked(name.len().checked_sub(DIGITS)?)?;
        // Type, length and 's' are between the salt and the number.
        let (rest, _) = rest.split_at_checked(rest.len().checked_sub(3)?)?;
        if !rest.ends_with(&self.salt) {
            return None;
        }
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

/// Encodes Data with the same content for all names.
pub struct Answers {
    /// All bytes after the name.
    tail: Vec<u8>,
}

impl Answers {
    /// Makes answers with `payload` bytes of content.
    pub fn new(payload: usize) -> Self {
        let data = DataBuilder::new(Name::default()).freshness_ms(10_000).content(vec![b'x'; payload]).encode();
        let decoded = Data::decode(&data).expect("built above");
        Answers { tail: data[decoded.name_offset..].to_vec() }
    }

    /// Appends the frame that answers `frame`, if that holds an Interest. The frame echoes the PIT token. The signature
    /// was made for another name, because nobody verifies it.
    pub fn answer(&self, frame: &LpPacket<'_>, out: &mut Vec<u8>) -> Option<usize> {
        let interest = Interest::decode(frame.fragment?).ok()?;
        let (start, name) = (out.len(), interest.name.value());
        let len = tlv::element_size(types::NAME, name.len()) + self.tail.len();
        LpPacket { pit_token: frame.pit_token, ..Default::default() }
            .encode_header(tlv::element_size(types::DATA, len), out);
        tlv::push_number(out, types::DATA);
        tlv::push_number(out, len as u64);
        tlv::push_tlv(out, types::NAME, name);
        out.extend_from_slice(&self.tail);
        Some(out.len() - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_carries_the_number_that_was_asked() {
        let mut names = Names::new("/ndn/bench", 0).expect("a name");
        let answers = Answers::new(1000);
        let interest = names.interest(0xabc_1234, 77).to_vec();
        let decoded = Interest::decode(&interest).expect("an Interest");
        assert_eq!((decoded.nonce, decoded.name.len()), (Some(77), 6));
        let frame = LpPacket::decode(&interest).expect("a bare Interest");
        let with_token =
            LpPacket { pit_token: byname_wire::PitToken::new(&[7; 4]).expect("a short token"), ..frame.clone() };
        let mut out = Vec::new();
        for frame in [frame, with_token] {
            let start = out.len();
            let len = answers.answer(&frame, &mut out).expect("an Interest");
            let answer = LpPacket::decode(&out[start..start + len]).expect("a frame");
            assert_eq!((out.len(), answer.pit_token), (start + len, frame.pit_token));
            let data = Data::decode(answer.fragment.expect("Data")).expect("Data");
            assert_eq!(data.content.len(), 1000);
            assert_eq!(names.number(&data), Some(0xabc_1234));
        }
    }
}
