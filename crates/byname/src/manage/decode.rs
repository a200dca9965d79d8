//! Converts the management protocol's datasets into the types of `view`. Sorts prefixes by name, because the forwarder
//! sends them in the order of its tables.

use anyhow::Context;
use byname_control::mgmt::json::origin_word;
use byname_control::mgmt::tlv::{self, Element, decode_list, route_flags};

use super::threads::{Closed, Drops, Stage, Thread};
use super::view::{Channel, Cs, Face, FibEntry, General, Nexthop, Persistency, Route, StrategyChoice};

/// `status/general`.
pub fn general(content: &[u8]) -> anyhow::Result<General> {
    let s = tlv::ForwarderStatus::decode_value(content).context("the forwarder's general status is malformed")?;
    Ok(General {
        version: s.nfd_version,
        start_time_ms: s.start_timestamp_ms,
        current_time_ms: s.current_timestamp_ms,
        uptime_ms: s.current_timestamp_ms.saturating_sub(s.start_timestamp_ms),
        name_tree_entries: s.n_name_tree_entries,
        fib_entries: s.n_fib_entries,
        pit_entries: s.n_pit_entries,
        measurements_entries: s.n_measurements_entries,
        cs_entries: s.n_cs_entries,
        in_interests: s.n_in_interests,
        in_data: s.n_in_data,
        in_nacks: s.n_in_nacks,
        out_interests: s.n_out_interests,
        out_data: s.n_out_data,
        out_nacks: s.n_out_nacks,
        satisfied_interests: s.n_satisfied_interests.unwrap_or(0),
        unsatisfied_interests: s.n_unsatisfied_interests.unwrap_or(0),
        descriptors: s.n_descriptors.unwrap_or(0),
        in_tag_packets: s.n_in_tag_packets.unwrap_or(0),
        in_locator_packets: s.n_in_locator_packets.unwrap_or(0),
        out_tag_packets: s.n_out_tag_packets.unwrap_or(0),
        out_locator_packets: s.n_out_locator_packets.unwrap_or(0),
        hot_names: s.n_hot_names.unwrap_or(0),
        shared_pit_entries: s.n_shared_pit_entries.unwrap_or(0),
        in_malformed: s.n_in_malformed.unwrap_or(0),
        reassembly_timeouts: s.n_reassembly_timeouts.unwrap_or(0),
        out_drops: s.n_out_drops.unwrap_or(0),
        congestion_marks: s.n_congestion_marks.unwrap_or(0),
        retransmissions: s.n_retransmissions.unwrap_or(0),
        state: s.state,
        closed: s.closed.into_iter().map(|count| Closed { reason: count.reason, faces: count.n_faces }).collect(),
        drops: drops(s.drops),
        imbalance: s.imbalance_percent.map(|percent| percent as f64 / 100.0),
        threads: s.threads.into_iter().map(thread).collect(),
    })
}

fn thread(s: tlv::ThreadStatus) -> Thread {
    Thread {
        load_percent: s.load_permille.map(|permille| permille as f64 / 10.0),
        busy_ns: s.busy_ns,
        sleeps: s.n_sleeps,
        rests: s.n_rests,
        home_packets: s.n_home_packets,
        foreign_packets: s.n_foreign_packets,
        taken_packets: s.n_taken_packets,
        faces: s.n_faces,
        faces_come: s.n_faces_come,
        faces_left: s.n_faces_left,
        node: s.node,
        pit_entries: s.n_pit_entries,
        cs_entries: s.n_cs_entries,
        in_interests: s.n_in_interests,
        in_data: s.n_in_data,
        in_nacks: s.n_in_nacks,
        satisfied_interests: s.n_satisfied_interests,
        unsatisfied_interests: s.n_unsatisfied_interests,
        input_depth: s.input_depth,
        input_drops: s.input_drops,
        output_depth: s.output_depth,
        output_drops: s.output_drops,
        spread_interests: s.n_spread_interests.unwrap_or(0),
        spread_hits: s.n_spread_hits.unwrap_or(0),
        spread_joins: s.n_spread_joins.unwrap_or(0),
        spread_busy: s.n_spread_busy.unwrap_or(0),
        drops: drops(s.drops),
        stages: stages(s.stages),
        fib_lookups_counted: s.n_fib_lookups_counted,
        fib_lines_read: s.n_fib_lines_read,
    }
}

fn drops(counts: Vec<tlv::DropCount>) -> Vec<Drops> {
    counts.into_iter().map(|count| Drops { reason: count.reason, packets: count.n_packets }).collect()
}

fn stages(times: Vec<tlv::StageTime>) -> Vec<Stage> {
    let stage = |time: tlv::StageTime| Stage { stage: time.stage, packets: time.n_packets, time_ns: time.time_ns };
    times.into_iter().map(stage).collect()
}

/// `faces/channels`.
pub fn channels(content: &[u8]) -> anyhow::Result<Vec<Channel>> {
    let list: Vec<tlv::ChannelStatus> = decode_list(content).context("the channel dataset is malformed")?;
    Ok(list.into_iter().map(|channel| Channel { local_uri: channel.local_uri }).collect())
}

/// `faces/list` and `faces/query`.
pub fn faces(content: &[u8]) -> anyhow::Result<Vec<Face>> {
    let list: Vec<tlv::FaceStatus> = decode_list(content).context("the face dataset is malformed")?;
    Ok(list.into_iter().map(face).collect())
}

fn face(f: tlv::FaceStatus) -> Face {
    Face {
        face_id: f.face_id,
        remote_uri: f.uri,
        local_uri: f.local_uri,
        scope: if f.face_scope == 1 { "local" } else { "non-local" }.to_owned(),
        persistency: Persistency::from_number(f.face_persistency),
        link_type: ["point-to-point", "multi-access", "adhoc"][usize::try_from(f.link_type.min(2)).unwrap_or(2)]
            .to_owned(),
        mtu: f.mtu,
        expires_in_ms: f.expiration_period_ms,
        local_fields: f.flags & 1 != 0,
        reliability: f.flags & 2 != 0,
        congestion_marking: f.flags & 4 != 0,
        base_congestion_marking_interval_ns: f.base_congestion_marking_interval_ns,
        default_congestion_threshold_bytes: f.default_congestion_threshold_bytes,
        in_interests: f.n_in_interests,
        in_data: f.n_in_data,
        in_nacks: f.n_in_nacks,
        in_bytes: f.n_in_bytes,
        out_interests: f.n_out_interests,
        out_data: f.n_out_data,
        out_nacks: f.n_out_nacks,
        out_bytes: f.n_out_bytes,
        in_malformed: f.n_in_malformed,
        reassembly_timeouts: f.n_reassembly_timeouts,
        out_drops: f.n_out_drops,
        congestion_marks: f.n_congestion_marks,
        retransmissions: f.n_retransmissions,
        thread: f.thread,
    }
}

/// `fib/list`.
pub fn fib(content: &[u8]) -> anyhow::Result<Vec<FibEntry>> {
    let mut list: Vec<tlv::FibEntry> = decode_list(content).context("the FIB dataset is malformed")?;
    list.sort_by(|a, b| a.name.cmp(&b.name));
    let nexthop = |n: tlv::NextHopRecord| Nexthop { face_id: n.face_id, cost: n.cost };
    Ok(list
        .into_iter()
        .map(|entry| FibEntry {
            prefix: entry.name.to_string(),
            nexthops: entry.next_hop_records.into_iter().map(nexthop).collect(),
        })
        .collect())
}

/// `rib/list`, with one item for each route.
pub fn routes(content: &[u8]) -> anyhow::Result<Vec<Route>> {
    let mut list: Vec<tlv::RibEntry> = decode_list(content).context("the RIB dataset is malformed")?;
    list.sort_by(|a, b| a.name.cmp(&b.name));
    let mut routes = Vec::new();
    for entry in list {
        let prefix = entry.name.to_string();
        routes.extend(entry.routes.into_iter().map(|route| Route {
            prefix: prefix.clone(),
            face_id: route.face_id,
            origin: origin_word(route.origin),
            cost: route.cost,
            child_inherit: route.flags & route_flags::CHILD_INHERIT != 0,
            capture: route.flags & route_flags::CAPTURE != 0,
            expires_in_ms: route.expiration_period_ms,
            stale: route.is_stale == Some(1),
        }));
    }
    Ok(routes)
}

/// `cs/info`.
pub fn cs_info(content: &[u8]) -> anyhow::Result<Cs> {
    let cs = tlv::CsInfo::decode(content).context("the content store dataset is malformed")?;
    Ok(Cs {
        capacity: cs.capacity,
        admit: cs.flags & tlv::cs_flags::ADMIT != 0,
        serve: cs.flags & tlv::cs_flags::SERVE != 0,
        entries: cs.n_cs_entries,
        hits: cs.n_hits,
        misses: cs.n_misses,
    })
}

/// `strategy-choice/list`.
pub fn strategy_choices(content: &[u8]) -> anyhow::Result<Vec<StrategyChoice>> {
    let mut list: Vec<tlv::StrategyChoice> = decode_list(content).context("the strategy dataset is malformed")?;
    list.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(list
        .into_iter()
        .map(|choice| StrategyChoice { prefix: choice.name.to_string(), strategy: choice.strategy.0.to_string() })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_sorted_and_words_put_for_numbers() {
        let route = |face_id, origin, flags| tlv::Route { face_id, origin, flags, ..Default::default() };
        let mut content = Vec::new();
        for (prefix, routes) in [("/b/a", vec![route(5, 0, 1), route(6, 255, 2)]), ("/b", vec![route(7, 9, 0)])] {
            tlv::RibEntry { name: prefix.parse().unwrap(), routes }.encode_to(&mut content);
        }
        let routes = routes(&content).unwrap();
        let shown: Vec<_> = routes.iter().map(|r| (r.prefix.as_str(), r.face_id, r.origin.as_str())).collect();
        assert_eq!(shown, [("/b", 7, "9"), ("/b/a", 5, "app"), ("/b/a", 6, "static")]);
        assert_eq!((routes[1].child_inherit, routes[1].capture), (true, false));
        assert_eq!((routes[2].child_inherit, routes[2].capture), (false, true));
    }

    #[test]
    fn malformed_datasets_are_errors_that_name_them() {
        assert!(routes(&[0x80, 0x05, 0x00]).unwrap_err().to_string().contains("RIB"));
        assert!(faces(&[0x07, 0x00]).unwrap_err().to_string().contains("face"));
        assert!(general(&[]).is_err());
    }
}
