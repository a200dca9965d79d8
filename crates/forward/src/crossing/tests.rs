use byname_wire::{NackReason, PitToken};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

fn interest(random: &mut SmallRng) -> InterestInfo {
    let some = |random: &mut SmallRng| random.random_bool(0.5);
    InterestInfo {
        name: NameRange { start: random.random(), len: random.random() },
        can_be_prefix: some(random),
        must_be_fresh: some(random),
        has_forwarding_hint: some(random),
        nonce: some(random).then(|| random.random()),
        lifetime_ms: random.random(),
        hop_limit: some(random).then(|| HopLimit { value: random.random(), offset: random.random::<u16>().into() }),
        is_hot: some(random),
    }
}

/// Fields of any kind: about every second time nothing but a short token.
fn fields(random: &mut SmallRng) -> LinkFields {
    let bytes = [7; 32];
    let rare = random.random_range(0..16);
    LinkFields {
        pit_token: PitToken::new(&bytes[..random.random_range(0..20)]).expect("short enough"),
        nack: (rare == 0).then_some(NackReason::Congestion),
        next_hop_face_id: (rare == 1).then_some(FaceId(300)),
        incoming_face_id: random.random_bool(0.5).then_some(FaceId(400)),
        no_cache: rare == 2,
        congestion_mark: if rare == 3 { u64::MAX } else { 0 },
        non_discovery: rare == 4,
        prefix_announcement: (rare == 5).then(|| Packet::copy_from(b"announcement")),
    }
}

#[test]
fn parcels_and_departures_lose_nothing() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut hashes = 0;
    for round in 0..10_000_u64 {
        let (info, is_spread) = (interest(&mut random), random.random_bool(0.5));
        let copies = [Copies::Lone, Copies::First, Copies::Further][random.random_range(0..3)];
        let data = DataInfo { name: info.name, freshness_ms: random.random(), copies };
        let parsed = [Parsed::Interest(info), Parsed::Nack(info), Parsed::Data(data)][random.random_range(0..3)];
        let fields = fields(&mut random);
        let hash = random.random_bool(0.5).then(|| random.random());
        let hash = hash.filter(|_| matches!(parsed, Parsed::Data(_)));
        let bytes = round.to_le_bytes();
        let packet = || Packet::copy_from(&bytes);

        let mut received = Received { face: FaceId(round), fields: fields.clone(), packet: packet() };
        let mut parcel = Parcel::from(Handed { is_spread, hash, ..Handed::new(&mut received, &parsed) });
        assert!(received.packet.is_empty());
        assert_eq!(parcel.is_spread(), is_spread && matches!(parsed, Parsed::Interest(_)));
        assert_eq!(parcel.is_further_copy(), parsed.is_further_copy());
        let mut unpacked = Received::empty();
        let mut known = None;
        assert!(parcel.tell(|parsed| known = Some(parsed)));
        parcel.unpack(&mut unpacked);
        assert_eq!(format!("{known:?}"), format!("{:?}", Some(parsed)));
        assert_eq!((unpacked.face, &*unpacked.packet), (FaceId(round), &bytes[..]));
        // Nobody has sent it yet.
        let mut expected = LinkFields { incoming_face_id: unpacked.fields.incoming_face_id, ..fields.clone() };
        if hash.is_some() {
            let others = LinkFields { pit_token: PitToken::default(), incoming_face_id: None, ..fields.clone() };
            let is_whole = format!("{others:?}") != format!("{:?}", LinkFields::default());
            assert_eq!(parcel.hash(), hash.filter(|_| !is_whole));
            expected.pit_token = PitToken::default();
            hashes += usize::from(!is_whole);
        }
        assert_eq!(format!("{:?}", unpacked.fields), format!("{expected:?}"));

        let mut departure = Departure::empty();
        departure.fill_from(&mut Outgoing { face: FaceId(round), fields: fields.clone(), packet: packet() });
        let mut output = Vec::new();
        departure.append_to(&mut output);
        assert_eq!((output[0].face, &*output[0].packet), (FaceId(round), &bytes[..]));
        assert_eq!(format!("{:?}", output[0].fields), format!("{fields:?}"));
    }
    // Every third packet is Data, every second has a hash, and about every third has rare fields.
    assert!((900..1400).contains(&hashes), "{hashes}");
}

#[test]
fn an_interest_that_nobody_answers_is_hot_and_goes_home() {
    let info = InterestInfo { is_hot: false, ..interest(&mut SmallRng::seed_from_u64(1)) };
    let mut received = Received { face: FaceId(1), fields: LinkFields::default(), packet: Packet::copy_from(b"i") };
    let mut parcel = Parcel::from(Handed { is_spread: true, ..Handed::new(&mut received, &Parsed::Interest(info)) });
    assert!(parcel.stray().is_some() && !parcel.is_spread());
    assert!(parcel.tell(|parsed| match parsed {
        Parsed::Interest(told) => assert!(told.is_hot && told.nonce == info.nonce),
        other => panic!("{other:?}"),
    }));
    let mut received = Received { face: FaceId(1), fields: LinkFields::default(), packet: Packet::copy_from(b"t") };
    let mut parcel = Parcel::addressed(&mut received);
    assert!(parcel.stray().is_none() && !parcel.tell(|_| ()) && parcel.spread().is_none());
}
