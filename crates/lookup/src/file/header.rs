//! The first page of a file.

use byname_wire::HashFunction;

use super::{FileError, Kind, MAGIC, PAGE, SECTION_BYTES, SECTIONS_AT, SECTIONS_MAX, VERSION};

/// Part of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section {
    pub(super) number: u32,
    pub(super) crc: u32,
    pub(super) offset: u64,
    pub(super) len: u64,
}

pub(super) fn missing(number: u32) -> FileError {
    FileError::malformed(format!("section {number} is missing"))
}

/// The first page.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) bytes: u64,
    pub(super) secret: [u64; 2],
    pub(super) function: HashFunction,
    pub(super) sections: Vec<Section>,
}

impl Header {
    pub(super) fn decode(page: &[u8; PAGE], kind: Kind) -> Result<Self, FileError> {
        let u32_at = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        if !page.starts_with(&MAGIC) {
            return Err(FileError::Foreign);
        }
        // Before the checksum: other versions may have it elsewhere.
        if u32_at(8) != VERSION {
            return Err(FileError::Version { found: u32_at(8) });
        }
        if crc32c::crc32c(&page[..PAGE - 4]) != u32_at(PAGE - 4) {
            return Err(FileError::Damaged { part: "the header".to_owned() });
        }
        if u32_at(12) != kind.number() {
            return Err(FileError::Kind { found: u32_at(12), wanted: kind });
        }
        let bytes = u64_at(16);
        let count = u32_at(44) as usize;
        if count > SECTIONS_MAX {
            return Err(FileError::malformed(format!("{count} sections")));
        }
        let sections = (0..count).map(|i| {
            let at = SECTIONS_AT + i * SECTION_BYTES;
            let section =
                Section { number: u32_at(at), crc: u32_at(at + 4), offset: u64_at(at + 8), len: u64_at(at + 16) };
            let end = section.offset.checked_add(section.len).filter(|&end| end <= bytes);
            let fits = end.is_some() && section.offset >= PAGE as u64 && section.offset.is_multiple_of(PAGE as u64);
            fits.then_some(section).ok_or_else(|| FileError::malformed("a section lies outside of the file"))
        });
        Ok(Header {
            bytes,
            secret: [u64_at(24), u64_at(32)],
            function: function_of(u32_at(40))?,
            sections: sections.collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn encode(&self, kind: Kind) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &kind.number().to_le_bytes());
        put(16, &self.bytes.to_le_bytes());
        let [k0, k1] = self.secret;
        put(24, &k0.to_le_bytes());
        put(32, &k1.to_le_bytes());
        put(40, &function_number(self.function).to_le_bytes());
        put(44, &(self.sections.len() as u32).to_le_bytes());
        for (i, section) in self.sections.iter().enumerate() {
            let at = SECTIONS_AT + i * SECTION_BYTES;
            put(at, &section.number.to_le_bytes());
            put(at + 4, &section.crc.to_le_bytes());
            put(at + 8, &section.offset.to_le_bytes());
            put(at + 16, &section.len.to_le_bytes());
        }
        let crc = crc32c::crc32c(&page[..PAGE - 4]);
        page[PAGE - 4..].copy_from_slice(&crc.to_le_bytes());
        page
    }

    pub(super) fn section(&self, number: u32) -> Result<Section, FileError> {
        self.sections.iter().find(|section| section.number == number).copied().ok_or_else(|| missing(number))
    }

    /// Whether another header says the same, but for the checksums of sections.
    pub(super) fn has_form_of(&self, other: &Header) -> bool {
        let form = |header: &Header| {
            let place = |section: &Section| (section.number, section.offset, section.len);
            let places: Vec<_> = header.sections.iter().map(place).collect();
            (header.bytes, header.secret, header.function, places)
        };
        form(self) == form(other)
    }

    pub(super) fn section_mut(&mut self, number: u32) -> Result<&mut Section, FileError> {
        self.sections.iter_mut().find(|section| section.number == number).ok_or_else(|| missing(number))
    }
}

fn function_number(function: HashFunction) -> u32 {
    match function {
        HashFunction::SipHash13 => 1,
        HashFunction::SipHash24 => 2,
        HashFunction::Aes => 3,
    }
}

pub(super) fn function_of(number: u32) -> Result<HashFunction, FileError> {
    let all = [HashFunction::SipHash13, HashFunction::SipHash24, HashFunction::Aes];
    let found = all.into_iter().find(|&function| function_number(function) == number);
    found.ok_or_else(|| FileError::malformed(format!("hash function {number}")))
}
