//! Prefix announcements: Data named `<prefix>/32=PA/<version>/<segment>` that says for how long its signer serves the
//! prefix [NDN, "Prefix Announcement Protocol"].

use byname_wire::data::content_type;
use byname_wire::name::component_type;
use byname_wire::tlv::{self, Reader, types};
use byname_wire::{Data, DecodeError, NameRef};

use super::tlv::types::EXPIRATION_PERIOD;
use byname_trust::decode_validity_period;

/// A decoded announcement. Its signature is not verified yet.
pub(super) struct Announcement<'a> {
    /// The packet.
    pub data: Data<'a>,
    /// The announced prefix.
    pub prefix: NameRef<'a>,
    expiration_period_ms: u64,
    /// Start and end, in ms since the Unix epoch.
    validity: Option<(u64, u64)>,
}

impl<'a> Announcement<'a> {
    /// Finds the announcement in the ApplicationParameters of a `rib/announce` command.
    pub fn in_parameters(parameters: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(parameters);
        while let Some(tlv) = reader.next_tlv()? {
            if tlv.typ == types::DATA {
                return Announcement::of(Data::decode(tlv.wire)?);
            }
        }
        Err(DecodeError::Missing(types::DATA))
    }

    /// Decodes the announcement in a Data packet.
    pub fn of(data: Data<'a>) -> Result<Self, DecodeError> {
        let component = |i, typ| data.name.component(i).filter(|c| c.typ == typ);
        let keyword = component(-3, component_type::KEYWORD).filter(|c| c.value == b"PA");
        let is_named_so = keyword.is_some()
            && component(-2, component_type::VERSION).is_some()
            && component(-1, component_type::SEGMENT).is_some();
        if !is_named_so {
            return Err(DecodeError::BadValue(types::NAME));
        }
        if data.content_type != content_type::PREFIX_ANN {
            return Err(DecodeError::BadValue(types::CONTENT_TYPE));
        }
        let (mut expiration_period_ms, mut validity) = (None, None);
        let mut reader = Reader::new(data.content);
        while let Some(tlv) = reader.next_tlv()? {
            match tlv.typ {
                EXPIRATION_PERIOD => expiration_period_ms = Some(tlv::decode_nni(tlv.typ, tlv.value)?),
                types::VALIDITY_PERIOD => {
                    let period = decode_validity_period(tlv.value).ok_or(DecodeError::BadValue(tlv.typ))?;
                    validity = Some(period);
                }
                typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        Ok(Announcement {
            data,
            prefix: data.name.prefix(data.name.len() - 3),
            expiration_period_ms: expiration_period_ms.ok_or(DecodeError::Missing(EXPIRATION_PERIOD))?,
            validity,
        })
    }

    /// Lifetime of the route from now on; 0 outside the validity period.
    pub fn lifetime_ms(&self, unix_ms: u64) -> u64 {
        match self.validity {
            Some((from, to)) if unix_ms < from || unix_ms > to => 0,
            Some((_, to)) => self.expiration_period_ms.min(to - unix_ms),
            None => self.expiration_period_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::Name;
    use byname_wire::data::DataBuilder;

    fn announcement(name: &str, typ: u64, content: &[u8]) -> Vec<u8> {
        let name: Name = name.parse().expect("a test's own name");
        DataBuilder::new(name).content_type(typ).content(content.to_vec()).encode()
    }

    fn error(name: &str, typ: u64, content: &[u8]) -> Option<DecodeError> {
        Announcement::in_parameters(&announcement(name, typ, content)).err()
    }

    #[test]
    fn only_announcements_decode() {
        let mut content = vec![0x6d, 2, 0x0e, 0x10];
        let wire = announcement("/net/site/32=PA/v=1/seg=0", 5, &content);
        let decoded = Announcement::in_parameters(&wire).expect("an announcement");
        assert_eq!(decoded.prefix.to_string(), "/net/site");
        assert_eq!(decoded.lifetime_ms(1), 3600);

        tlv::push_nested(&mut content, types::VALIDITY_PERIOD, |out| {
            tlv::push_tlv(out, 0xfe, b"20200101T000000");
            tlv::push_tlv(out, 0xff, b"20200101T000002");
        });
        let wire = announcement("/net/site/32=PA/v=1/seg=0", 5, &content);
        let decoded = Announcement::in_parameters(&wire).expect("an announcement");
        let from = 1_577_836_800_000;
        let lifetimes = [from - 1, from, from + 500, from + 2_001].map(|now| decoded.lifetime_ms(now));
        assert_eq!(lifetimes, [0, 2_000, 1_500, 0]);

        let good = [0x6d, 1, 9];
        assert_eq!(error("/a/32=PA/v=1/seg=0", 5, &good), None);
        assert_eq!(error("/32=PA/v=1/seg=0", 5, &good), None);
        assert!(error("/v=1/seg=0", 5, &good).is_some());
        assert!(error("/a/PA/v=1/seg=0", 5, &good).is_some());
        assert!(error("/a/32=PA/seg=0/v=1", 5, &good).is_some());
        assert!(error("/a/32=PA/v=1/seg=0", 0, &good).is_some());
        assert!(error("/a/32=PA/v=1/seg=0", 5, &[]).is_some());
        assert!(error("/a/32=PA/v=1/seg=0", 5, &[0x6d, 1, 9, 0x1f, 0]).is_some());
        assert!(Announcement::in_parameters(&[]).is_err());
    }
}
