//! Which prefixes the owner of a certificate may announce.
//!
//! A certificate can *bind* prefixes: its SignatureInfo then has an AdditionalDescription with one entry for each, whose
//! key is [`DESCRIPTION_KEY`] and whose value is the prefix as a URI [NDN Certificate Format v2, "AdditionalDescription"].
//! Others ignore that element, because it is not critical. The signer of the certificate signs the entries, too.
//!
//! Bound prefixes only take rights away. Each certificate of a chain restricts those below it, so that nobody gives away
//! what he does not have. A certificate without entries restricts nothing.
//!
//! A trust schema can restrict announcements, too. It judges the announcement of a prefix as a packet with the prefix's
//! name and the component `32=PA`, as the prefix announcements of NFD have it. A schema without that component does not
//! judge announcements.

use std::sync::Arc;

use byname_wire::name::component_type::KEYWORD;
use byname_wire::tlv::{Reader, push_nested, push_tlv};
use byname_wire::{Component, Name, NameRef};

use crate::schema::Schema;

/// Key of the entries that bind prefixes.
pub const DESCRIPTION_KEY: &[u8] = b"announces";
/// Most prefixes that a certificate binds.
pub const PREFIXES_MAX: usize = 128;

/// The last component of the name by which a schema judges an announcement.
pub const ANNOUNCEMENT: Component<'static> = Component { typ: KEYWORD, value: b"PA" };

const ADDITIONAL_DESCRIPTION: u64 = 258;
const ENTRY: u64 = 512;
const ENTRY_KEY: u64 = 513;
const ENTRY_VALUE: u64 = 514;

/// Which prefixes may be announced. The default is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    /// What the certificates of the chain bind. A prefix must be below one of each.
    bound: Vec<Arc<[Name]>>,
    /// The schema, and the name of the signer's certificate.
    schema: Option<(Arc<Schema>, Name)>,
}

impl Rights {
    /// With the restriction of one more certificate. `None`: it has none.
    pub fn within(mut self, bound: Option<&Arc<[Name]>>) -> Self {
        if let Some(bound) = bound.filter(|bound| !self.bound.contains(bound)) {
            self.bound.push(Arc::clone(bound));
        }
        self
    }

    /// With the restriction of a schema, if it judges announcements. `certificate` is that of the signer.
    pub fn judged_by(self, schema: &Arc<Schema>, certificate: NameRef<'_>) -> Self {
        match schema.has_component(ANNOUNCEMENT) {
            true => Rights { schema: Some((Arc::clone(schema), certificate.to_name())), ..self },
            false => self,
        }
    }

    /// Whether this prefix may be announced.
    pub fn permits(&self, prefix: NameRef<'_>) -> bool {
        let is_below = |bound: &Arc<[Name]>| bound.iter().any(|above| above.as_ref().is_prefix_of(&prefix));
        let judged = |(schema, certificate): &(Arc<Schema>, Name)| {
            schema.permits(prefix.to_name().join(ANNOUNCEMENT).as_ref(), certificate.as_ref())
        };
        self.bound.iter().all(is_below) && self.schema.as_ref().is_none_or(judged)
    }

    /// Whether all prefixes may be announced.
    pub fn are_all(&self) -> bool {
        self.bound.is_empty() && self.schema.is_none()
    }
}

/// Appends an AdditionalDescription that binds prefixes. Without prefixes, nothing may be announced.
pub(crate) fn encode(out: &mut Vec<u8>, prefixes: &[Name]) {
    let entry = |out: &mut Vec<u8>, value: &str| {
        push_nested(out, ENTRY, |out| {
            push_tlv(out, ENTRY_KEY, DESCRIPTION_KEY);
            push_tlv(out, ENTRY_VALUE, value.as_bytes());
        });
    };
    push_nested(out, ADDITIONAL_DESCRIPTION, |out| {
        if prefixes.is_empty() {
            entry(out, "");
        }
        prefixes.iter().for_each(|prefix| entry(out, &prefix.to_string()));
    });
}

/// The prefixes that the elements of a SignatureInfo bind. `Ok(None)`: no entry is about that.
///
/// # Errors
/// What is wrong, if the description cannot be read: then nobody knows what the certificate permits.
pub(crate) fn decode(info: &[u8]) -> Result<Option<Arc<[Name]>>, &'static str> {
    const MALFORMED: &str = "its AdditionalDescription is malformed";
    let mut prefixes: Option<Vec<Name>> = None;
    let mut elements = Reader::new(info);
    while let Some(element) = elements.next_tlv().map_err(|_| MALFORMED)? {
        if element.typ != ADDITIONAL_DESCRIPTION {
            continue;
        }
        let mut entries = Reader::new(element.value);
        while let Some(entry) = entries.next_tlv().map_err(|_| MALFORMED)? {
            let mut fields = Reader::new(entry.value);
            let key = fields.next_tlv().map_err(|_| MALFORMED)?;
            let is_ours = key.is_some_and(|key| key.typ == ENTRY_KEY && key.value == DESCRIPTION_KEY);
            if entry.typ != ENTRY || !is_ours {
                continue;
            }
            let value = fields.next_tlv().map_err(|_| MALFORMED)?.filter(|value| value.typ == ENTRY_VALUE);
            let text = std::str::from_utf8(value.ok_or(MALFORMED)?.value).map_err(|_| MALFORMED)?;
            let known = prefixes.get_or_insert_default();
            if !text.is_empty() {
                known.push(text.parse().map_err(|_| "a prefix that it binds is no name")?);
            }
            if known.len() > PREFIXES_MAX {
                return Err("it binds too many prefixes");
            }
        }
    }
    Ok(prefixes.map(Arc::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().expect("a test's own name")
    }

    fn bound(prefixes: &[&str]) -> Arc<[Name]> {
        prefixes.iter().map(|prefix| name(prefix)).collect()
    }

    #[test]
    fn each_certificate_of_a_chain_restricts() {
        let all = Rights::default();
        assert!(all.are_all() && all.permits(name("/").as_ref()));
        let site = all.within(None).within(Some(&bound(&["/site", "/song"])));
        assert!(site.permits(name("/site/a").as_ref()) && site.permits(name("/song").as_ref()));
        assert!(!site.permits(name("/").as_ref()) && !site.permits(name("/sit").as_ref()));
        // The certificate below may say what it wants.
        let router = site.within(Some(&bound(&["/bank", "/site/a"])));
        assert!(router.permits(name("/site/a/b").as_ref()));
        assert!(!router.permits(name("/bank").as_ref()) && !router.permits(name("/site/b").as_ref()));
        assert!(!Rights::default().within(Some(&bound(&[]))).permits(name("/a").as_ref()));
    }

    #[test]
    fn a_schema_judges_announcements_if_it_names_them() {
        let certificate = name("/net/r1/32=DV/KEY/1/net/v=2");
        let key = "#cert: \"net\"/router/\"32=DV\"/\"KEY\"/_/_/_\n";
        let silent =
            Arc::new(Schema::compile(&format!("{key}#said: \"net\"/router/\"x\" <= #cert")).expect("a schema"));
        assert!(Rights::default().judged_by(&silent, certificate.as_ref()).are_all());
        let text = format!("{key}#own: \"video\"/router/\"32=PA\" <= #cert\n#all: \"song\"/_/\"32=PA\" <= #cert");
        let rights =
            Rights::default().judged_by(&Arc::new(Schema::compile(&text).expect("a schema")), certificate.as_ref());
        let permits = |uri: &str| rights.permits(name(uri).as_ref());
        assert!(permits("/video/r1") && permits("/song/x"));
        assert!(!permits("/video/r2") && !permits("/song") && !permits("/song/x/y") && !permits("/"));
    }

    /// The schema in the documentation, for the network `/example`.
    fn documented() -> Arc<Schema> {
        let page = include_str!("../../../docs/routing.md");
        let (_, text) = page.split_once("```text\n#network").expect("the page has a schema");
        let (text, _) = text.split_once("```").expect("a block ends");
        Arc::new(Schema::compile(&format!("#network{text}")).expect("a schema"))
    }

    #[test]
    fn the_documented_schema_says_who_may_announce_what() {
        let permits = |router: &str, prefix: &str| {
            let certificate = name(&format!("/example/{router}/32=DV/KEY/1/example/v=2"));
            Rights::default().judged_by(&documented(), certificate.as_ref()).permits(name(prefix).as_ref())
        };
        assert!(permits("r1", "/video/r1") && permits("r2", "/video/r2") && permits("r1", "/bank"));
        assert!(!permits("r2", "/bank") && !permits("r2", "/video/r1"));
        assert!(!permits("r1", "/") && !permits("r1", "/bank/a"));
    }

    #[test]
    fn the_documented_schema_permits_what_routers_say_of_themselves() {
        let schema = documented();
        let (anchor, router) = ("/example/KEY/1/self/v=1", "/example/r1/32=DV/KEY/1/example/v=2");
        for (packet, signer) in [
            ("/localhop/example/r1/32=DV/32=ADV/32=HELLO", router),
            ("/localhop/example/r1/32=DV/32=ADV/t=7", router),
            ("/example/32=DV/32=PFS/example/r1/t=7/seq=1", router),
            ("/example/32=DV/32=PFS/example/r1/t=7/32=SNAP", router),
            (router, anchor),
        ] {
            assert!(schema.permits(name(packet).as_ref(), name(signer).as_ref()), "{packet}");
            let of_other = packet.replace("r1", "r2");
            let forged = schema.permits(name(&of_other).as_ref(), name(signer).as_ref());
            assert_eq!(forged, signer == anchor, "{of_other}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for prefixes in [vec![], vec![name("/")], vec![name("/a/32=b/v=7"), name("/%00/c")]] {
            let mut out = Vec::new();
            encode(&mut out, &prefixes);
            assert_eq!(decode(&out), Ok(Some(prefixes.into())));
        }
        assert_eq!(decode(&[]), Ok(None));
        // The entries of others say nothing about prefixes.
        let mut other = Vec::new();
        push_nested(&mut other, ADDITIONAL_DESCRIPTION, |out| {
            push_nested(out, ENTRY, |out| {
                push_tlv(out, ENTRY_KEY, b"fullname");
                push_tlv(out, ENTRY_VALUE, b"/a");
            });
        });
        assert_eq!(decode(&other), Ok(None));
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_not_a_right() {
        let description = |value: &[u8]| {
            let mut out = Vec::new();
            push_nested(&mut out, ADDITIONAL_DESCRIPTION, |out| {
                push_nested(out, ENTRY, |out| {
                    push_tlv(out, ENTRY_KEY, DESCRIPTION_KEY);
                    push_tlv(out, ENTRY_VALUE, value);
                });
            });
            out
        };
        assert!(decode(&description(b"/%zz")).is_err());
        assert!(decode(&description(&[0xff, 0xfe])).is_err());
        let good = description(b"/a");
        // Without its last byte, an element is longer than what is left.
        assert!(decode(&good[..good.len() - 1]).is_err());
        let mut many = Vec::new();
        encode(&mut many, &vec![name("/a"); PREFIXES_MAX + 1]);
        assert_eq!(decode(&many), Err("it binds too many prefixes"));
        let mut without_value = Vec::new();
        push_nested(&mut without_value, ADDITIONAL_DESCRIPTION, |out| {
            push_nested(out, ENTRY, |out| push_tlv(out, ENTRY_KEY, DESCRIPTION_KEY));
        });
        assert!(decode(&without_value).is_err());
    }
}
