//! Properties that hold for any name, any packet and any bytes.

use std::hash::Hasher;

use byname_wire::data::DataBuilder;
use byname_wire::interest::{InterestBuilder, with_nonce};
use byname_wire::name_hash::{DEPTH_WORDS, DepthSet, digest_name, hash_name};
use byname_wire::signature::{KeyLocator, SignatureInfo, SignatureType};
use byname_wire::tagnet::{
    Address, Endpoint, LocatorPacket, LocatorPacketBuilder, TagPacket, TagPacketBuilder, TagSet, types,
};
use byname_wire::url::{UrlScheme, name_of_path, name_of_url};
use byname_wire::{
    Component, Data, Descriptor, FaceId, Filter, Interest, Label, Locator, LpPacket, NackReason, Name, NameHashKey,
    NameRef, NameView, PitToken, PrefixHashes, TagDigest, TreeId, digest, lp, tlv,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use siphasher::sip128::{Hasher128, SipHasher13};

/// Components of all kinds. Digests have the 32 bytes that they must have.
fn component() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let typ = prop_oneof![
        4 => Just(8u16),
        1 => 1u16..=2,
        2 => prop::sample::select(vec![32u16, 50, 52, 54, 56, 58]),
        1 => 1u16..,
    ];
    typ.prop_flat_map(|typ| {
        let value = match typ {
            1 | 2 => vec(any::<u8>(), 32).boxed(),
            50..=58 => prop_oneof![
                prop::sample::select(vec![1usize, 2, 4, 8]).prop_flat_map(|len| vec(any::<u8>(), len)),
                vec(any::<u8>(), 0..10)
            ]
            .boxed(),
            _ => prop_oneof![vec(any::<u8>(), 0..24), vec(Just(b'.'), 0..6), vec(any::<u8>(), 250..260)].boxed(),
        };
        (Just(typ), value)
    })
}

fn name() -> impl Strategy<Value = Name> {
    vec(component(), 0..12).prop_map(|components| name_of(&components))
}

/// A name of an Interest without parameters.
fn plain_name() -> impl Strategy<Value = Name> {
    vec(component(), 1..12).prop_map(|mut components| {
        components.retain(|(typ, _)| *typ != 2);
        components.push((8, vec![b'x']));
        name_of(&components)
    })
}

fn name_of(components: &[(u16, Vec<u8>)]) -> Name {
    Name::from_components(components.iter().map(|(typ, value)| Component { typ: *typ, value }))
}

/// Random bytes, or bytes that look like nested elements.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let typ = prop_oneof![1u64..=0x64, 0x0320u64..=0x0354, any::<u32>().prop_map(u64::from)];
    let leaf = prop_oneof![vec(any::<u8>(), 0..12), Just(vec![])];
    let element = leaf.prop_recursive(4, 48, 6, move |inner| {
        vec((typ.clone(), inner), 0..6).prop_map(|elements| {
            let mut out = vec![];
            elements.iter().for_each(|(typ, value)| tlv::push_tlv(&mut out, *typ, value));
            out
        })
    });
    prop_oneof![vec(any::<u8>(), 0..300), element]
}

/// Damages `wire`: flips bytes, cuts, repeats, inserts.
fn mutate(mut wire: Vec<u8>, edits: &[(u8, prop::sample::Index, u8)]) -> Vec<u8> {
    for (kind, at, byte) in edits {
        if wire.is_empty() {
            break;
        }
        let at = at.index(wire.len());
        match kind % 5 {
            0 => wire[at] = *byte,
            1 => wire.truncate(at),
            2 => wire.insert(at, *byte),
            3 => drop(wire.remove(at)),
            _ => {
                let copy = wire[at..].to_vec();
                wire.extend(copy);
            }
        }
    }
    wire
}

/// Runs every decoder, and calls every method of the results.
fn exercise(wire: &[u8]) {
    let _ = tlv::element_len(wire, 8800);
    if let Ok(name) = NameRef::new(wire) {
        exercise_name(name);
    }
    if let Ok(interest) = Interest::decode(wire) {
        exercise_name(interest.name);
        interest.forwarding_hint().for_each(exercise_name);
        let _ = interest.parameters_digest_matches();
        let copy = with_nonce(&interest, 1);
        let again = Interest::decode(&copy).expect("a nonce changes nothing else");
        assert_eq!((again.nonce, again.name), (Some(1), interest.name));
        if let Some(hop_limit) = interest.hop_limit {
            assert_eq!(wire[hop_limit.offset], hop_limit.value);
        }
        if let Some(signature) = interest.signature {
            assert!(signature.signed[1].len() < wire.len());
        }
    }
    if let Ok(data) = Data::decode(wire) {
        exercise_name(data.name);
        let _ = data.implicit_digest();
        assert!(data.signature.signed[0].starts_with(&[7]));
    }
    if let Ok(packet) = LpPacket::decode(wire) {
        let mut out = vec![];
        packet.encode(&mut out);
        // Without header fields, only the fragment is left, which may be anything.
        if packet.header_len(packet.fragment.map_or(0, <[u8]>::len)) > 0 {
            assert_eq!(LpPacket::decode(&out), Ok(packet));
        }
    }
    if let Some((pit_token, fragment)) = LpPacket::decode_token(wire) {
        let packet = LpPacket { pit_token, fragment: Some(fragment), ..LpPacket::default() };
        assert_eq!(LpPacket::decode(wire), Ok(packet));
    }
    let _ = SignatureInfo::decode(wire);
    if let Ok(packet) = TagPacket::decode(wire) {
        assert_eq!(wire[packet.hop_limit.offset], packet.hop_limit.value);
        let built = rebuilt_tag_packet(&packet);
        let again = TagPacket::decode(&built).expect("it was built");
        assert_eq!((again.tree, again.tags, again.source), (packet.tree, packet.tags, packet.source));
        assert_eq!((again.payload, again.fan_out.map(|f| f.limit)), (packet.payload, packet.fan_out.map(|f| f.limit)));
        if let Some(fan_out) = packet.fan_out {
            assert_eq!(wire[fan_out.offset..][..2], fan_out.limit.get().to_be_bytes());
        }
    }
    if let Ok(packet) = LocatorPacket::decode(wire) {
        assert_eq!(wire[packet.hop_limit.offset], packet.hop_limit.value);
    }
}

/// A packet with the same fields.
fn rebuilt_tag_packet(packet: &TagPacket<'_>) -> Vec<u8> {
    let builder = match packet.tags {
        TagSet::Tags(tags) => TagPacketBuilder::new(packet.tree, &tags.descriptor()),
        TagSet::Filter(filter) => TagPacketBuilder::of_filter(packet.tree, filter),
    };
    let mut builder = builder.hop_limit(packet.hop_limit.value).payload(packet.payload);
    if let Some(fan_out) = packet.fan_out {
        builder = builder.fan_out(fan_out.limit);
    }
    if let Some(source) = packet.source {
        builder = builder.source(source);
    }
    builder.encode()
}

fn address() -> impl Strategy<Value = Address> {
    let label = (any::<u32>(), vec(1u32..300, 0..4)).prop_map(|(node, ports)| {
        ports.iter().try_fold(Label::new(0), |label, port| label.light_child(node, *port)).unwrap_or(Label::new(node))
    });
    (any::<u32>(), label, any::<u64>()).prop_map(|(tree, label, endpoint)| Address {
        locator: Locator { tree: TreeId(tree), label },
        endpoint: Endpoint(endpoint),
    })
}

fn exercise_name(name: NameRef<'_>) {
    assert_eq!(name.to_string().parse(), Ok(name.to_name()));
    let mut prefixes = PrefixHashes::default();
    let view = NameView::new(&NameHashKey::new([1, 2]), name, &mut prefixes);
    assert_eq!(view.len(), name.components().count());
    assert_eq!(Name::from_components(name.components()), name.to_name());
}

proptest! {
    #[test]
    fn names_survive_the_uri(name in name()) {
        prop_assert_eq!(name.to_string().parse::<Name>(), Ok(name.clone()));
        prop_assert_eq!(format!("ndn:{name}").parse::<Name>(), Ok(name));
    }

    #[test]
    fn any_text_is_a_name_or_an_error(text in "(ndn:)?(/{0,2}([a-z0-9=.%]|seg=|params-sha256=|é){0,6}){0,6}") {
        if let Ok(name) = text.parse::<Name>() {
            prop_assert!(NameRef::new(name.value()).is_ok());
            prop_assert_eq!(name.to_string().parse::<Name>(), Ok(name));
        }
    }

    #[test]
    fn any_bytes_are_a_url_or_an_error(bytes in vec(option::weighted(0.5, any::<u8>()), 0..200)) {
        // Every other byte has a meaning in a URL.
        let meant = b":/?#[]@.$\"";
        let bytes: Vec<u8> = (0..).zip(bytes).map(|(i, o)| o.unwrap_or(meant[i % meant.len()])).collect();
        let schemes = [UrlScheme::Tld, UrlScheme::Site, UrlScheme::Host];
        let names = schemes.map(|scheme| name_of_url(scheme, &bytes)).into_iter().chain([name_of_path(&bytes)]);
        for name in names.flatten() {
            prop_assert!(NameRef::new(name.value()).is_ok());
            prop_assert!(name.as_ref().components().all(|component| !component.value.is_empty()));
        }
    }

    #[test]
    fn prefix_hashes_are_siphash_of_the_bytes(name in name(), k0: u64, k1: u64) {
        let key = NameHashKey::new([k0, k1]);
        let mut prefixes = PrefixHashes::default();
        let view = NameView::new(&key, name.as_ref(), &mut prefixes);
        prop_assert_eq!(view.len(), name.as_ref().len());
        for depth in 0..=view.len() {
            let prefix = view.prefix(depth);
            prop_assert_eq!(prefix, name.as_ref().prefix(depth));
            let mut reference = SipHasher13::new_with_keys(k0, k1);
            reference.write(prefix.value());
            let reference = reference.finish128();
            prop_assert_eq!((view.hash(depth), view.check(depth)), (reference.h1, reference.h2));
            prop_assert_eq!(hash_name(&key, prefix), reference.h1);
        }
    }

    #[test]
    fn names_together_have_the_digests_of_each(
        names in vec(name(), 0..70),
        function in 0..3usize,
        depth_max in 0..20usize,
        deeper in 0..20usize,
        go_on in vec(any::<bool>(), 70),
        sets in vec(any::<[u64; DEPTH_WORDS]>(), 10),
    ) {
        use byname_wire::HashFunction::{Aes, SipHash13, SipHash24};
        let key = NameHashKey::with_function([SipHash13, SipHash24, Aes][function], [1, 2]);
        let refs: Vec<NameRef<'_>> = names.iter().map(Name::as_ref).collect();
        let mut burst = vec![PrefixHashes::default(); names.len()];
        PrefixHashes::fill_burst(&key, &refs, &mut burst);
        let mut portable = PrefixHashes::default();
        let mut cut = vec![PrefixHashes::default(); names.len()];
        PrefixHashes::fill_burst_to(depth_max, &key, &refs, &mut cut);
        let mut further = cut.clone();
        let which = (0..names.len()).filter(|i| go_on[*i]);
        PrefixHashes::go_on_burst_to(deeper, &key, &refs, &mut further, which);
        let mut whole = vec![PrefixHashes::default(); names.len()];
        let prefixes = |i: usize| match i % 3 {
            0 => DepthSet::ALL,
            1 => DepthSet::up_to(i / 3 % 5),
            _ => DepthSet::from_words(sets[i % sets.len()]),
        };
        PrefixHashes::fill_burst_where(prefixes, &key, &refs, &mut whole);
        for (i, (name, whole)) in refs.iter().zip(&whole).enumerate() {
            let whole = NameView::from_filled(*name, whole);
            prop_assert_eq!(whole.name(), *name);
            prop_assert_eq!(whole.last(), name.component(-1));
            for depth in (0..=name.len()).filter(|depth| prefixes(i).contains(*depth) || *depth == name.len()) {
                prop_assert_eq!(whole.digest(depth), digest_name(&key, name.prefix(depth)));
                prop_assert_eq!(whole.prefix(depth), name.prefix(depth));
            }
        }
        for (i, ((name, burst), cut)) in refs.iter().zip(&burst).zip(&cut).enumerate() {
            portable.fill_portable(&key, *name);
            let further = NameView::from_filled(*name, &further[i]);
            let depth = if go_on[i] { depth_max.max(deeper) } else { depth_max };
            prop_assert_eq!(further.name(), name.prefix(name.len().min(depth)));
            let cut = NameView::from_filled(*name, cut);
            prop_assert_eq!(cut.name(), name.prefix(name.len().min(depth_max)));
            for depth in 0..=further.len() {
                prop_assert_eq!(further.digest(depth), digest_name(&key, further.prefix(depth)));
            }
            let (burst, portable) = (NameView::from_filled(*name, burst), NameView::from_filled(*name, &portable));
            prop_assert_eq!(burst.len(), name.len());
            for depth in 0..=name.len() {
                prop_assert_eq!(burst.digest(depth), portable.digest(depth));
                prop_assert_eq!(burst.digest(depth), digest_name(&key, name.prefix(depth)));
            }
        }
    }

    #[test]
    fn names_sort_canonically(a in name(), b in name()) {
        let sort_key = |name: &Name| -> Vec<(u16, usize, Vec<u8>)> {
            name.as_ref().components().map(|c| (c.typ, c.value.len(), c.value.to_vec())).collect()
        };
        prop_assert_eq!(a.cmp(&b), sort_key(&a).cmp(&sort_key(&b)));
        let is_prefix = sort_key(&b).starts_with(&sort_key(&a));
        prop_assert_eq!(a.as_ref().is_prefix_of(&b.as_ref()), is_prefix);
    }

    #[test]
    fn interests_round_trip(
        name in plain_name(), flags: (bool, bool), nonce: u32, lifetime in option::of(any::<u64>()),
        hops in option::of(any::<u8>()), hint in vec(name(), 0..3), parameters in option::of(vec(any::<u8>(), 0..300)),
    ) {
        let mut builder = InterestBuilder::new(name.clone(), nonce)
            .can_be_prefix(flags.0).must_be_fresh(flags.1).forwarding_hint(hint.clone());
        if let Some(ms) = lifetime { builder = builder.lifetime_ms(ms); }
        if let Some(hops) = hops { builder = builder.hop_limit(hops); }
        if let Some(parameters) = &parameters { builder = builder.application_parameters(parameters.clone()); }
        let wire = builder.encode();
        prop_assume!(wire.len() <= byname_wire::PACKET_BYTES_MAX);
        let interest = Interest::decode(&wire).unwrap();
        prop_assert_eq!(interest.name.prefix(name.as_ref().len()), name.as_ref());
        prop_assert_eq!((interest.can_be_prefix, interest.must_be_fresh), flags);
        prop_assert_eq!((interest.nonce, interest.lifetime_ms), (Some(nonce), lifetime));
        prop_assert_eq!(interest.hop_limit.map(|h| h.value), hops);
        prop_assert_eq!(interest.forwarding_hint().map(|n| n.to_name()).collect::<Vec<_>>(), hint);
        prop_assert_eq!(interest.application_parameters, parameters.as_deref());
        prop_assert!(interest.parameters_digest_matches());
        exercise(&wire);
    }

    #[test]
    fn signed_interests_round_trip(
        name in plain_name(), key in name(), signature_nonce in vec(any::<u8>(), 1..20), time in option::of(any::<u64>()),
    ) {
        let info = SignatureInfo {
            key_locator: Some(KeyLocator::Name(key.as_ref())),
            nonce: Some(&signature_nonce),
            time_ms: time,
            ..SignatureInfo::new(SignatureType::DigestSha256)
        };
        let wire = InterestBuilder::new(name.clone(), 1).encode_signed(&info, |signed| digest::sha256(signed).to_vec());
        prop_assume!(wire.len() <= byname_wire::PACKET_BYTES_MAX);
        let signature = Interest::decode(&wire).unwrap().signature.unwrap();
        prop_assert_eq!(signature.info, info);
        prop_assert_eq!(signature.signed[0], name.value());
        prop_assert_eq!(signature.value, digest::sha256(&signature.signed));
        exercise(&wire);
    }

    #[test]
    fn data_round_trips(
        name in name(), content_type: u64, freshness: u64, last in option::of(component()),
        content in vec(any::<u8>(), 0..2000),
    ) {
        let mut builder = DataBuilder::new(name.clone())
            .content_type(content_type).freshness_ms(freshness).content(content.clone());
        let last = last.as_ref().map(|(typ, value)| Component { typ: *typ, value });
        if let Some(component) = last { builder = builder.final_block(component); }
        let wire = builder.encode();
        let data = Data::decode(&wire).unwrap();
        prop_assert_eq!(data.name, name.as_ref());
        prop_assert_eq!((data.content_type, data.freshness_ms), (content_type, freshness));
        prop_assert_eq!((data.final_block, data.content), (last, &content[..]));
        prop_assert_eq!(data.signature.value, digest::sha256(&data.signature.signed));
        exercise(&wire);
    }

    #[test]
    fn frames_round_trip(
        sequence in option::of(any::<u64>()), fragments in (0u64..500, 1u64..500), token in vec(any::<u8>(), 0..=32),
        nack in option::of(prop::sample::select(vec![0u64, 50, 100, 150])), faces: (Option<u64>, Option<u64>),
        cache_policy: Option<u64>, congestion_mark: u64, acks in vec(any::<u64>(), 0..50), tx: Option<u64>,
        non_discovery: bool, announcement in option::of(name()), fragment in option::of(vec(any::<u8>(), 1..600)),
    ) {
        let announcement = announcement.map(|name| DataBuilder::new(name).encode());
        let packet = LpPacket {
            fragment: fragment.as_deref(),
            sequence,
            frag_index: fragments.0 % fragments.1,
            frag_count: fragments.1,
            pit_token: PitToken::new(&token).unwrap(),
            nack: nack.map(NackReason::from_number),
            next_hop_face_id: faces.0.map(FaceId),
            incoming_face_id: faces.1.map(FaceId),
            cache_policy,
            congestion_mark,
            acks: acks.into_iter().collect(),
            tx_sequence: tx,
            non_discovery,
            prefix_announcement: announcement.as_deref(),
        };
        let mut wire = vec![];
        packet.encode(&mut wire);
        let fragment_len = fragment.as_ref().map_or(0, Vec::len);
        prop_assert_eq!(wire.len(), packet.header_len(fragment_len) + fragment_len);
        // A frame without fields is its bare fragment, and a fragment may look like a frame.
        let is_nested = fragments.0 % fragments.1 == 0 && fragment.as_ref().is_some_and(|f| f[0] == 0x64);
        if packet.header_len(fragment_len) > 0 && !is_nested {
            prop_assert_eq!(LpPacket::decode(&wire), Ok(packet.clone()));
        }
    }

    #[test]
    fn a_header_with_a_token_alone_is_as_any_header(
        token in vec(any::<u8>(), 1..=8), fragment in vec(any::<u8>(), 1..10_000), change: (u16, u8),
    ) {
        let pit_token = PitToken::new(&token).unwrap();
        let mut header = [0; lp::TOKEN_HEADER_MAX];
        let len = LpPacket::encode_token(pit_token.to_word().unwrap(), fragment.len(), &mut header);
        let mut wire = vec![];
        let packet = LpPacket { pit_token, fragment: Some(&fragment), ..LpPacket::default() };
        packet.encode(&mut wire);
        prop_assert_eq!([&header[..len], &fragment[..]].concat(), wire.clone());
        prop_assert_eq!(LpPacket::decode_token(&wire), LpPacket::decode(&wire).ok().map(|_| (pit_token, &fragment[..])));
        let at = usize::from(change.0) % (len + 1);
        wire[at] = change.1;
        exercise(&wire);
        exercise(&wire[..at]);
    }

    #[test]
    fn tag_packets_round_trip(
        tree: u32, tags in vec(any::<u32>(), 0..32), by_filter: bool, fan_out in option::of(1u16..),
        hops: u8, source in option::of(address()), payload in vec(any::<u8>(), 0..600),
    ) {
        let descriptor = Descriptor::from_digests(tags.into_iter().map(TagDigest)).unwrap();
        let builder = match by_filter {
            false => TagPacketBuilder::new(TreeId(tree), &descriptor),
            true => TagPacketBuilder::of_filter(TreeId(tree), descriptor.filter()),
        };
        let mut builder = builder.hop_limit(hops).payload(&payload);
        if let Some(limit) = fan_out { builder = builder.fan_out(limit.try_into().unwrap()); }
        if let Some(source) = source { builder = builder.source(source); }
        let wire = builder.encode();
        let packet = TagPacket::decode(&wire).unwrap();
        prop_assert_eq!((packet.tree, packet.hop_limit.value), (TreeId(tree), hops));
        prop_assert_eq!(packet.fan_out.map(|f| f.limit.get()), fan_out);
        prop_assert_eq!((packet.source, packet.payload), (source, &payload[..]));
        match packet.tags {
            TagSet::Tags(tags) => prop_assert!(!by_filter && tags.iter().eq(descriptor.tags().iter().copied())),
            TagSet::Filter(filter) => prop_assert!(by_filter && filter == Filter::of(descriptor.tags())),
        }
        prop_assert_eq!(rebuilt_tag_packet(&packet), &wire[..]);
        exercise(&wire);
    }

    #[test]
    fn locator_packets_round_trip(
        destination in address(), hops: u8, source in option::of(address()), payload in vec(any::<u8>(), 0..600),
    ) {
        let mut builder = LocatorPacketBuilder::new(destination).hop_limit(hops).payload(&payload);
        if let Some(source) = source { builder = builder.source(source); }
        let wire = builder.encode();
        let packet = LocatorPacket::decode(&wire).unwrap();
        prop_assert_eq!((packet.destination, packet.hop_limit.value), (destination, hops));
        prop_assert_eq!((packet.source, packet.payload), (source, &payload[..]));
        prop_assert_eq!(destination.to_string().parse(), Ok(destination));
    }

    #[test]
    fn no_bytes_panic(wire in bytes()) {
        exercise(&wire);
        for typ in [5, 6, 7, 0x16, 0x64, types::TAG_PACKET, types::LOCATOR_PACKET] {
            let mut element = vec![];
            tlv::push_tlv(&mut element, typ, &wire);
            exercise(&element);
        }
    }

    #[test]
    fn no_damaged_packet_panics(
        name in plain_name(), hint in vec(name(), 0..2), kind in 0..6, address in address(),
        edits in vec((any::<u8>(), any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let info = SignatureInfo { nonce: Some(&[1; 8]), ..SignatureInfo::new(SignatureType::DigestSha256) };
        let interest = InterestBuilder::new(name.clone(), 1).hop_limit(3).forwarding_hint(hint).lifetime_ms(1000);
        let wire = match kind {
            0 => interest.encode(),
            1 => interest.encode_signed(&info, |signed| digest::sha256(signed).to_vec()),
            4 => LocatorPacketBuilder::new(address).source(address).payload(name.value()).encode(),
            5 => {
                let descriptor = Descriptor::of_name(name.as_ref()).unwrap();
                TagPacketBuilder::new(TreeId(1), &descriptor).fan_out(2.try_into().unwrap()).source(address).encode()
            }
            2 => DataBuilder::new(name).freshness_ms(1000).final_block(Component::generic(b"z")).encode(),
            _ => {
                let fragment = interest.encode();
                let mut out = vec![];
                LpPacket {
                    fragment: Some(&fragment),
                    pit_token: PitToken::new(&[1, 2, 3]).unwrap(),
                    acks: [1, 2].into_iter().collect(),
                    nack: Some(NackReason::NoRoute),
                    ..LpPacket::default()
                }.encode(&mut out);
                out
            }
        };
        exercise(&wire);
        exercise(&mutate(wire, &edits));
    }
}
