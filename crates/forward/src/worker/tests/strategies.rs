//! Decisions of single strategies.

use super::*;

/// A bench where one strategy, with its parameters, serves all names.
fn bench_for(strategy: &str) -> Bench {
    let mut b = bench();
    let asked = name(&format!("/localhost/nfd/strategy/{strategy}"));
    let strategy = crate::strategy::instance_name(asked.as_ref()).expect("a known strategy");
    b.worker.set_strategy_choices(&[StrategyChoice { prefix: name("/"), strategy }]);
    b
}

impl Bench {
    fn express(&mut self, uri: &str, nonce: u32) -> Vec<String> {
        shape(&self.receive(APP, &interest(uri, nonce).encode()))
    }

    fn refuse(&mut self, from: FaceId, sent: &Outgoing, reason: NackReason) -> Vec<Outgoing> {
        self.receive_with(from, &sent.packet, LinkFields { nack: Some(reason), ..Default::default() })
    }
}

#[test]
fn random_spreads_over_all_nexthops() {
    let mut b = bench_for("random");
    b.route("/a", &[HOST, HOST_2, HOST_3]);
    let mut counts = [0; 3];
    for i in 0..300 {
        let sent = b.receive(APP, &interest(&format!("/a/{i}"), i).encode());
        assert_eq!(sent.len(), 1);
        counts[(sent[0].face.0 - HOST.0) as usize] += 1;
    }
    assert!(counts.iter().all(|count| (70..130).contains(count)), "{counts:?}");
}

#[test]
fn random_tries_elsewhere_after_a_nack_and_refuses_after_the_last() {
    let mut b = bench_for("random");
    b.route("/a", &[HOST, HOST_2]);
    let first = b.receive(APP, &interest("/a/b", 1).encode());
    let other = if first[0].face == HOST { HOST_2 } else { HOST };
    let second = b.refuse(first[0].face, &first[0], NackReason::NoRoute);
    assert_eq!(shape(&second), [format!("I{other}")]);
    let last = b.refuse(other, &second[0], NackReason::Congestion);
    assert_eq!((shape(&last), last[0].fields.nack), (vec!["N256".to_owned()], Some(NackReason::Congestion)));
    assert_eq!(b.express("/elsewhere", 2), ["N256"]);
}

#[test]
fn adaptive_probes_five_seconds_after_the_first_interest_and_then_each_interval() {
    let mut b = bench_for("asf");
    b.route("/a", &[HOST, HOST_2]);
    let mut asked = 0;
    let mut ask = |b: &mut Bench| {
        asked += 1;
        let sent = b.express(&format!("/a/{asked}"), asked);
        b.receive(HOST, &data(&format!("/a/{asked}")));
        sent
    };
    assert_eq!(ask(&mut b), ["I300"]);
    for (seconds, probes) in [(4, false), (2, true), (10, false), (48, false), (3, true)] {
        b.wait(Duration::from_secs(seconds));
        let expected: &[&str] = if probes { &["I300", "I301"] } else { &["I300"] };
        assert_eq!(ask(&mut b), expected, "{seconds} s later");
    }
}

#[test]
fn adaptive_forgets_measurements_after_their_lifetime() {
    let mut b = bench_for("asf/v=5/probing-interval~1000/measurements-lifetime~2000/max-timeouts~1");
    b.route("/a", &[HOST, HOST_2]);
    assert_eq!(b.express("/a/1", 1), ["I300"]);
    b.wait(Duration::from_millis(4001));
    b.wait(Duration::from_millis(2001));
    // The first upstream did not answer, but that measurement has expired.
    assert_eq!(b.express("/a/2", 2), ["I300"]);
    b.now = b.now + Duration::from_millis(4001);
    b.poll(Vec::new());
    assert_eq!(b.express("/a/3", 3), ["I301"], "now it is not");
}

#[test]
fn access_asks_all_then_the_one_that_works_then_all_again() {
    let mut b = bench_for("access");
    b.route("/a", &[HOST, HOST_2, HOST_3]);
    assert_eq!(b.express("/a/b/1", 1), ["I300", "I301", "I302"]);
    b.now = b.now + Duration::from_millis(20);
    assert_eq!(shape(&b.receive(HOST_2, &data("/a/b/1"))), ["D256"]);
    assert_eq!(b.express("/a/b/2", 2), ["I301"], "the last that worked for what stands beside it");
    assert_eq!(b.express("/a/c/1", 3), ["I300", "I301", "I302"], "nothing is known of others");

    // The retransmission timeout is 20 ms + 4 * 10 ms.
    b.wait(Duration::from_millis(50));
    b.now = b.now + Duration::from_millis(12);
    assert_eq!(shape(&b.poll(Vec::new())), ["I300", "I302"], "those not asked yet");
    b.wait(Duration::from_millis(100));
    assert_eq!(shape(&b.receive(HOST, &data("/a/b/2"))), ["D256"]);
    assert_eq!(b.express("/a/b/3", 4), ["I300"]);
    b.wait(Duration::from_secs(9));
    assert_eq!(b.express("/a/b/4", 5), ["I300", "I301", "I302"], "forgotten");
    b.wait(Duration::from_secs(5));
    assert_eq!(b.worker.counters().pit_entries, 0);
    assert_eq!(b.worker.next_deadline(), None);
}

#[test]
fn access_heeds_who_asks_again_but_not_at_once() {
    let mut b = bench_for("access");
    b.route("/a", &[HOST, HOST_2]);
    b.express("/a/b/1", 1);
    b.now = b.now + Duration::from_millis(300);
    b.receive(HOST, &data("/a/b/1"));
    assert_eq!(b.express("/a/b/2", 2), ["I300"]);
    b.wait(Duration::from_millis(50));
    assert_eq!(b.express("/a/b/2", 3), [""; 0], "too soon");
    b.wait(Duration::from_millis(100));
    assert_eq!(b.express("/a/b/2", 4), ["I300", "I301"]);
    // Both nexthops were asked, so the timeout asks none.
    b.wait(Duration::from_secs(2));
    b.wait(Duration::from_secs(9));

    // An Interest that comes again too soon does not stop the timeout.
    b.express("/a/b/3", 5);
    b.now = b.now + Duration::from_millis(300);
    b.receive(HOST, &data("/a/b/3"));
    assert_eq!(b.express("/a/b/4", 6), ["I300"]);
    b.wait(Duration::from_millis(50));
    assert_eq!(b.express("/a/b/4", 7), [""; 0]);
    b.now = b.now + Duration::from_millis(900);
    assert_eq!(shape(&b.poll(Vec::new())), ["I301"]);
}

#[test]
fn access_goes_elsewhere_when_an_upstream_refuses() {
    let mut b = bench_for("access");
    b.route("/a", &[HOST, HOST_2, HOST_3]);
    b.express("/a/b/1", 1);
    b.receive(HOST, &data("/a/b/1"));
    let sent = b.receive(APP, &interest("/a/b/2", 2).encode());
    assert_eq!(shape(&sent), ["I300"]);
    assert_eq!(shape(&b.refuse(HOST, &sent[0], NackReason::NoRoute)), ["I301", "I302"]);
    assert!(b.refuse(HOST_2, &sent[0], NackReason::NoRoute).is_empty());
    assert_eq!(shape(&b.refuse(HOST_3, &sent[0], NackReason::NoRoute)), ["N256"]);
    assert_eq!(b.express("/elsewhere", 3), ["N256"]);
}

#[test]
fn another_strategy_inherits_nothing_from_a_pending_interest() {
    let mut b = bench_for("access");
    b.route("/a", &[HOST, HOST_2]);
    b.express("/a/b/1", 1);
    b.receive(HOST, &data("/a/b/1"));
    assert_eq!(b.express("/a/b/2", 2), ["I300"]);
    b.worker.set_strategy_choices(&[]);
    b.wait(Duration::from_millis(20));
    assert_eq!(b.express("/a/b/2", 3), ["I301"], "best-route, after its first interval");
    b.wait(Duration::from_secs(4));
    assert_eq!(b.worker.counters().pit_entries, 0);
}

/// Receives the worker's notices to the control side.
fn notices(b: &mut Bench) -> std::sync::mpsc::Receiver<crate::learning::Notice> {
    let (tell, heard) = std::sync::mpsc::sync_channel(2);
    b.worker.tell_routes(Box::new(move |notice| tell.try_send(notice).is_ok()));
    heard
}

fn non_discovery(sent: &[Outgoing]) -> Vec<bool> {
    sent.iter().map(|o| o.fields.non_discovery).collect()
}

#[test]
fn self_learning_floods_what_has_no_route_and_learns_from_the_answer() {
    let mut b = bench_for("self-learning");
    let heard = notices(&mut b);
    b.worker.face_up(FaceId(400), Scope::NonLocal, LinkType::PointToPoint);
    let sent = b.receive(HOST_2, &interest("/a/b", 1).encode());
    assert_eq!(shape(&sent), ["I300", "I302", "I400"], "all other hosts, and no application");
    assert_eq!(non_discovery(&sent), [false; 3]);

    let announcement = Packet::copy_from(b"an announcement");
    let fields = LinkFields { prefix_announcement: Some(announcement.clone()), ..Default::default() };
    let got = b.receive_with(HOST_3, &data("/a/b"), fields);
    assert_eq!(shape(&got), ["D301"]);
    let goes_on = got[0].fields.prefix_announcement.as_ref().expect("the next router learns, too");
    assert_eq!(**goes_on, *announcement);
    let notice = heard.try_recv().expect("a notice");
    assert_eq!((notice.taught, notice.face, &notice.name), (crate::learning::Taught::Announced, HOST_3, &name("/a/b")));
    assert_eq!(*notice.announcement.expect("the announcement"), *announcement);

    // The control side adds a route for the announcement.
    b.route("/a", &[HOST_3]);
    let sent = b.receive(HOST_2, &interest("/a/c", 2).encode());
    assert_eq!((shape(&sent), non_discovery(&sent)), (vec!["I302".to_owned()], vec![true]));
    b.receive(HOST_3, &data("/a/c"));
    let notice = heard.try_recv().expect("a notice");
    assert_eq!((notice.taught, notice.face, &notice.name), (crate::learning::Taught::Answered, HOST_3, &name("/a/c")));
    b.express("/a/d", 3);
    b.receive(HOST_3, &data("/a/d"));
    assert!(heard.try_recv().is_err(), "the same news once a minute");
    b.wait(Duration::from_secs(61));
    b.express("/a/e", 4);
    b.receive(HOST_3, &data("/a/e"));
    assert_eq!(heard.try_recv().expect("a notice").taught, crate::learning::Taught::Answered);
}

#[test]
fn self_learning_says_which_route_leads_nowhere() {
    let mut b = bench_for("self-learning");
    let heard = notices(&mut b);
    b.route("/a", &[HOST, HOST_2]);
    let sent = b.receive(APP, &interest("/a/b", 1).encode());
    assert_eq!(shape(&sent), ["I300", "I301"]);
    assert!(b.refuse(HOST, &sent[0], NackReason::NoRoute).is_empty(), "the other may know");
    let notice = heard.try_recv().expect("a notice");
    assert_eq!((notice.taught, notice.face, &notice.name), (crate::learning::Taught::Refused, HOST, &name("/a/b")));
    assert_eq!(shape(&b.refuse(HOST_2, &sent[1], NackReason::Congestion)), ["N256"]);
    assert!(heard.try_recv().is_err(), "congestion says nothing about the route");
}

#[test]
fn self_learning_floods_nothing_that_discovers_no_route() {
    let mut b = bench_for("self-learning");
    let fields = LinkFields { non_discovery: true, ..Default::default() };
    assert_eq!(shape(&b.receive_with(HOST, &interest("/a/b", 1).encode(), fields)), ["N300"]);
    // The only route leads back to the ingress: the Interest is not flooded, and cannot go on.
    b.route("/c", &[HOST]);
    assert_eq!(shape(&b.receive(HOST, &interest("/c/d", 2).encode())), ["N300"]);
    assert_eq!(b.express("/localhost/x", 3), ["N256"], "what must not leave");
    b.worker.face_down(HOST_2);
    assert_eq!(b.express("/e", 4), ["I300", "I302"], "no face that is gone");
    b.wait(Duration::from_millis(5));
    assert_eq!(b.express("/e", 5), [""; 0], "too soon");
}

#[test]
fn a_flood_reaches_a_bounded_number_of_faces() {
    let mut b = bench_for("self-learning");
    for face in 1000..3000 {
        b.worker.face_up(FaceId(face), Scope::NonLocal, LinkType::PointToPoint);
    }
    let sent = b.express("/a", 1);
    assert_eq!((sent.len(), &sent[..4]), (64, &["I300", "I301", "I302", "I1000"].map(String::from)[..]));
}

#[test]
fn who_has_a_route_announces_it_to_hosts_that_discover() {
    let mut b = bench_for("self-learning");
    b.route("/a", &[APP]);
    b.tables.replace_announcements(crate::tables::Announcements::new([(name("/a"), b"about /a".as_slice().into())]));
    let announced = |sent: &[Outgoing]| sent.iter().map(|o| o.fields.prefix_announcement.is_some()).collect::<Vec<_>>();
    b.receive(HOST, &interest("/a/b", 1).encode());
    b.receive(APP_2, &interest("/a/b", 2).encode());
    let got = b.receive(APP, &data("/a/b"));
    assert_eq!((shape(&got), announced(&got)), (vec!["D300".to_owned(), "D257".to_owned()], vec![true, false]));
    let along = LinkFields { non_discovery: true, ..Default::default() };
    b.receive_with(HOST, &interest("/a/c", 3).encode(), along);
    assert_eq!(announced(&b.receive(APP, &data("/a/c"))), [false], "the host knows its way");
    b.route("/d", &[APP]);
    b.receive(HOST, &interest("/d/e", 4).encode());
    assert_eq!(announced(&b.receive(APP, &data("/d/e"))), [false], "nobody has announced that");
}

#[test]
fn news_that_the_control_side_has_no_room_for_is_dropped_and_counted() {
    let mut b = bench_for("self-learning");
    let heard = notices(&mut b);
    for i in 0..5 {
        b.express(&format!("/a/{i}"), i);
        let fields = LinkFields { prefix_announcement: Some(Packet::copy_from(b"x")), ..Default::default() };
        assert_eq!(shape(&b.receive_with(HOST, &data(&format!("/a/{i}")), fields)), ["D256"]);
    }
    assert_eq!((heard.try_iter().count(), b.dropped(DropReason::NoticesFull)), (2, 3));
}

#[test]
fn link_fields_of_self_learning_pass_through_routers_of_other_strategies() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    let fields = LinkFields { non_discovery: true, ..Default::default() };
    let sent = b.receive_with(HOST_2, &interest("/a/b", 1).encode(), fields);
    assert_eq!((shape(&sent), non_discovery(&sent)), (vec!["I300".to_owned()], vec![true]));
    b.express("/a/b", 2);
    let fields = LinkFields { prefix_announcement: Some(Packet::copy_from(b"x")), ..Default::default() };
    let got = b.receive_with(HOST, &data("/a/b"), fields);
    let announced: Vec<bool> = got.iter().map(|o| o.fields.prefix_announcement.is_some()).collect();
    assert_eq!((shape(&got), announced), (vec!["D301".to_owned(), "D256".to_owned()], vec![true, false]));
}
