//! Names and parameters of strategies. Their decisions are tested with the worker.

use super::*;

fn instance(uri: &str) -> Result<String, StrategyError> {
    let name: Name = uri.parse().expect("a name in a test");
    instance_name(name.as_ref()).map(|n| n.to_string())
}

#[test]
fn names_are_completed_with_the_current_version() {
    for (word, version) in
        [("best-route", 5), ("multicast", 5), ("asf", 5), ("access", 1), ("random", 1), ("self-learning", 1)]
    {
        let full = format!("/localhost/nfd/strategy/{word}/v={version}");
        assert_eq!(instance(&format!("/localhost/nfd/strategy/{word}")).as_deref(), Ok(&*full));
        assert_eq!(instance(&full).as_deref(), Ok(&*full));
    }
}

#[test]
fn adaptive_is_our_word_for_asf() {
    let asf = "/localhost/nfd/strategy/asf/v=5";
    assert_eq!(instance("/localhost/nfd/strategy/adaptive").as_deref(), Ok(asf));
    assert_eq!(instance("/localhost/nfd/strategy/adaptive/v=5/max-timeouts~2"), Ok(format!("{asf}/max-timeouts~2")));
}

#[test]
fn parameters_are_kept_and_those_that_nobody_knows_ignored() {
    for uri in [
        "/localhost/nfd/strategy/asf/v=5/probing-interval~30000/max-timeouts~5/measurements-lifetime~120000",
        "/localhost/nfd/strategy/asf/v=5/max-timeouts~0",
        "/localhost/nfd/strategy/asf/v=5/x~1/max-timeouts~%2B5",
        "/localhost/nfd/strategy/best-route/v=5/probing-interval~x",
        "/localhost/nfd/strategy/best-route/v=5/retx-suppression-initial~20/retx-suppression-max~500",
        "/localhost/nfd/strategy/multicast/v=5/retx-suppression-multiplier~1.5",
        "/localhost/nfd/strategy/multicast/v=5/retx-suppression-multiplier~inf",
    ] {
        assert_eq!(instance(uri).as_deref(), Ok(uri));
    }
}

#[test]
fn what_is_no_strategy_is_unknown() {
    for uri in [
        "/",
        "/localhost/nfd/strategy",
        "/localhost/nfd/strategy/best",
        "/localhost/nfd/strategy/multicast/v=6",
        "/localhost/nfd/strategy/multicast/x~1",
        "/localhost/nfd/strategy/adaptive/v=6",
        "/localhost/nfd/strategy/32=asf",
    ] {
        assert_eq!(instance(uri), Err(StrategyError::Unknown), "{uri}");
    }
}

#[test]
fn a_refusal_says_why() {
    for (uri, why) in [
        ("best-route/v=1", "best-route does not support version 1; its version is 5"),
        ("asf/v=4/max-timeouts~2", "asf does not support version 4; its version is 5"),
        ("adaptive/v=4", "asf does not support version 4; its version is 5"),
        ("random/v=0", "random does not support version 0; its version is 1"),
        ("random/v=1/x~1", "random does not accept parameters"),
        ("access/v=1/x~1", "access does not accept parameters"),
        ("self-learning/v=1/x~1", "self-learning does not accept parameters"),
        ("asf/v=5/max-timeouts", "Strategy parameters format is (<parameter>~<value>)*"),
        ("asf/v=5/~1", "Strategy parameter name and value cannot be empty"),
        ("asf/v=5/max-timeouts~", "Strategy parameter name and value cannot be empty"),
        ("asf/v=5/max-timeouts~x", "max-timeouts value is malformed"),
        ("asf/v=5/max-timeouts~1/max-timeouts~-1", "max-timeouts cannot be negative"),
        ("asf/v=5/probing-interval~1s", "probing-interval value is malformed"),
        ("asf/v=5/probing-interval~999", "Probing interval must be >= 1000 milliseconds"),
        ("asf/v=5/probing-interval~-5", "Probing interval must be >= 1000 milliseconds"),
        (
            "asf/v=5/measurements-lifetime~60000",
            "Measurements lifetime (60000 milliseconds) should be greater than the probing interval of 60000 milliseconds",
        ),
        (
            "asf/v=5/probing-interval~300000",
            "Measurements lifetime (300000 milliseconds) should be greater than the probing interval of \
             300000 milliseconds",
        ),
        ("best-route/v=5/retx-suppression-initial~0", "Retx suppression initial interval must be > 0"),
        ("best-route/v=5/retx-suppression-initial~-1", "Retx suppression initial interval must be > 0"),
        ("multicast/v=5/retx-suppression-max~5", "Retx suppression max interval must be >= initial interval"),
        ("asf/v=5/retx-suppression-multiplier~0.5", "Retx suppression multiplier must be >= 1"),
        ("asf/v=5/retx-suppression-multiplier~NaN", "Retx suppression multiplier must be >= 1"),
        ("asf/v=5/retx-suppression-multiplier~x", "retx-suppression-multiplier value is malformed"),
    ] {
        let error = instance(&format!("/localhost/nfd/strategy/{uri}")).expect_err(uri);
        assert_eq!(error.to_string(), why, "{uri}");
    }
}
