//! Names and parameters of strategies; what they decide is tested with the worker.

use super::*;

fn instance(uri: &str) -> Result<String, StrategyError> {
    let name: Name = uri.parse().expect("a name in a test");
    instance_name(name.as_ref()).map(|n| n.to_string())
}

#[test]
fn names_are_completed_with_our_version() {
    for uri in ["/localhost/nfd/strategy/best-route", "/localhost/nfd/strategy/best-route/v=4"] {
        assert_eq!(instance(uri).as_deref(), Ok("/localhost/nfd/strategy/best-route/v=5"));
    }
    let with_parameters = "/localhost/nfd/strategy/asf/v=5/probing-interval~30000/max-timeouts~5";
    assert_eq!(instance(with_parameters).as_deref(), Ok(with_parameters));
}

#[test]
fn what_is_no_strategy_is_refused() {
    for uri in ["/", "/localhost/nfd/strategy", "/localhost/nfd/strategy/best", "/localhost/nfd/strategy/multicast/v=6"]
    {
        assert_eq!(instance(uri), Err(StrategyError::Unknown), "{uri}");
    }
    for parameters in [
        "x~1",
        "max-timeouts",
        "max-timeouts~0",
        "probing-interval~1",
        "retx-suppression-initial~x",
        "retx-suppression-multiplier~inf",
        "retx-suppression-multiplier~NaN",
    ] {
        let uri = format!("/localhost/nfd/strategy/asf/v=5/{parameters}");
        assert_eq!(instance(&uri), Err(StrategyError::BadParameters), "{uri}");
    }
}
